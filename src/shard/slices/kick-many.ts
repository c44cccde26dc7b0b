// A kick of any number of jobs of the tube in use.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class KickMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  /**
   * Whether it kicks buried jobs or delayed ones, never both. Decided when it starts; undefined
   * while it is queued.
   */
  #buried: boolean | undefined;
  #remaining: number;
  #kicked = 0;

  constructor(engine: Engine, replies: Replies, session: ShardSession, bound: number) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#remaining = bound;
  }

  get jobs(): number {
    return Math.min(this.#remaining, this.#kickable);
  }

  /** Jobs that a kick could take now. */
  get #kickable(): number {
    const client = this.#session.engineSession;
    return client.tubeInUse.jobsIn(this.#engine.kicksBuried(client) ? JobState.Buried : JobState.Delayed);
  }

  step(jobsMax: number, nowMs: number): boolean {
    const client = this.#session.engineSession;
    if (this.#buried === undefined) {
      this.#buried = this.#engine.kicksBuried(client);
      // No more than exist now: otherwise workers that bury kicked jobs could prolong the command
      // for ever.
      if (this.#remaining > jobsMax) this.#remaining = this.jobs;
    }
    const bound = Math.min(this.#remaining, jobsMax);
    const kicked = this.#engine.kick(client, bound, nowMs, this.#buried);
    assert(kicked >= 0 && kicked <= bound, "a kick takes no more jobs than its bound");
    this.#kicked += kicked;
    this.#remaining = kicked < bound ? 0 : this.#remaining - kicked;
    assert(this.#remaining >= 0, "a kick takes no more jobs than there were");
    return this.#remaining === 0;
  }

  finish(): void {
    // As with NOT_FOUND: another client may have kicked the others a moment ago.
    this.#replies.dependOnAll();
    this.#replies.number(this.#session, ReplyWord.kicked, this.#kicked);
  }
}
