// Syncs a file on one of libuv's threads, for a log that shares its thread with clients.

import * as fs from "node:fs";
import { join } from "node:path";
import { assert } from "../../base/assert.ts";
import type { BackgroundSync, EndedSync, Handle } from "./disk.ts";

export class RealBackgroundSync implements BackgroundSync {
  readonly #path: string;
  readonly #clockMs: () => number;
  #name = "";
  /**
   * Opened for these syncs alone. So the log may close its own descriptor meanwhile, and the kernel
   * reports a failed write to both.
   */
  #handle: Handle | undefined;
  #beganMs = 0;
  #isUnderWay = false;
  #ended: EndedSync | undefined;
  #isClosed = false;

  constructor(path: string, clockMs: () => number) {
    this.#path = path;
    this.#clockMs = clockMs;
  }

  begin(name: string): boolean {
    assert(!this.#isUnderWay && this.#ended === undefined, "one sync at a time");
    assert(!this.#isClosed, "a closed log syncs nothing");
    if (name !== this.#name) this.#open(name);
    if (this.#handle === undefined) return false;
    this.#beganMs = this.#clockMs();
    this.#isUnderWay = true;
    fs.fdatasync(this.#handle, this.#end);
    return true;
  }

  /** Without a descriptor, the log syncs as it does without a background. */
  #open(name: string): void {
    this.#close();
    try {
      this.#handle = fs.openSync(join(this.#path, name), "r");
      this.#name = name;
    } catch {}
  }

  readonly #end = (error: NodeJS.ErrnoException | null): void => {
    this.#isUnderWay = false;
    this.#ended = { tookMs: this.#clockMs() - this.#beganMs, error: error ?? undefined };
    if (this.#isClosed) this.#close();
  };

  take(): EndedSync | undefined {
    const ended = this.#ended;
    this.#ended = undefined;
    return ended;
  }

  close(): void {
    this.#isClosed = true;
    if (!this.#isUnderWay) this.#close();
  }

  #close(): void {
    if (this.#handle !== undefined) fs.closeSync(this.#handle);
    this.#handle = undefined;
    this.#name = "";
  }
}
