// A command on up to a thousand jobs that must be atomic for other clients. It waits for a turn
// that has room for all of it.

import { assert } from "../../base/assert.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class AtomicCommand implements SlicedCommand {
  readonly jobs: number;
  readonly #session: ShardSession;
  readonly #run: (nowMs: number) => void;

  /** `run` processes at most `jobs` jobs and answers. */
  constructor(session: ShardSession, jobs: number, run: (nowMs: number) => void) {
    assert(jobs >= 0, "a command has a number of jobs");
    this.#session = session;
    this.jobs = jobs;
    this.#run = run;
  }

  step(_jobsMax: number, nowMs: number): boolean {
    // A client that is gone gets no jobs.
    if (!this.#session.ended) this.#run(nowMs);
    return true;
  }

  finish(): void {}
}
