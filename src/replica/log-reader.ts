// Reads the shared log for a standby: looks where it ends, fetches the messages that are missing,
// and takes republished ones.

import { assert } from "../base/assert.ts";
import type { FollowerCore } from "./follower-core.ts";
import type { LogEnds, LogMessage, SharedLog } from "./shared-log.ts";

interface LogReaderHost {
  readonly log: Pick<SharedLog, "ends" | "read">;
  nowMs(): number;
  isFollowing(): boolean;
  /** Whether the local log still has to write too much to take more. */
  isFull(): boolean;
  /** Resolves once the local log has written something. */
  room(): Promise<void>;
  onEnds(ends: LogEnds): void;
  /** All messages that were asked for were read. */
  hasRead(): void;
  readFailed(error: unknown): void;
}

export class LogReader {
  readonly #core: FollowerCore;
  readonly #host: LogReaderHost;
  #looking = false;
  #reading = false;

  constructor(core: FollowerCore, host: LogReaderHost) {
    this.#core = core;
    this.#host = host;
  }

  /** While the node reads messages, it must not search for another place in the log. */
  get isReading(): boolean {
    return this.#reading;
  }

  /** Looks at the end of the log and reads up to it, unless another look is under way. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      await this.#lookAtEnds();
    } catch (error) {
      if (this.#host.isFollowing()) this.#host.readFailed(error);
    } finally {
      this.#looking = false;
    }
  }

  async #lookAtEnds(): Promise<void> {
    const { log } = this.#host;
    const core = this.#core;
    // Republished messages may overtake the answer, which then shows less than was read.
    const readBefore = core.lastRead;
    const ends = await log.ends();
    if (!this.#host.isFollowing()) return;
    this.#host.onEnds(ends);
    const known = core.knownMessage(ends.last);
    if (known >= Math.max(1, ends.first))
      for await (const message of log.read(known, known)) core.beginAt(message);
    if (!this.#host.isFollowing()) return;
    core.answered(ends, readBefore, this.#host.nowMs());
    if (core.next === 0 || core.next > ends.last) return;
    await this.#readTo(ends.last);
    if (this.#host.isFollowing()) core.hasRead(this.#host.nowMs());
  }

  async #readTo(last: number): Promise<void> {
    assert(!this.#reading, "a node runs one read at a time");
    this.#reading = true;
    const core = this.#core;
    assert(core.next > 0 && core.next <= last, "a node reads from its next message");
    try {
      for await (const message of this.#host.log.read(core.next, last)) {
        if (!this.#host.isFollowing()) return;
        core.read(message, this.#host.nowMs());
        if (!this.#host.isFollowing()) return;
        while (this.#host.isFull()) await this.#host.room();
      }
      this.#host.hasRead();
    } finally {
      this.#reading = false;
    }
  }

  /** Takes a republished message, if it is the next one. */
  republished({ sequence, bytes }: LogMessage): void {
    if (!this.#host.isFollowing() || this.#reading) return;
    if (sequence !== this.#core.next || this.#host.isFull()) return;
    this.#core.read({ sequence, bytes: bytes.slice() }, this.#host.nowMs());
  }
}
