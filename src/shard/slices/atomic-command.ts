// A move of up to a thousand jobs that others must not see a part of: it waits for a turn that has room for it, and is
// then done at once.

import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class AtomicCommand implements SlicedCommand {
  readonly jobs: number;
  readonly #session: ShardSession;
  readonly #run: (nowMs: number) => void;

  /** `run` moves at most `jobs` jobs, and answers. */
  constructor(session: ShardSession, jobs: number, run: (nowMs: number) => void) {
    this.#session = session;
    this.jobs = jobs;
    this.#run = run;
  }

  step(_jobsMax: number, nowMs: number): boolean {
    // Whoever has gone gets nothing any more.
    if (!this.#session.ended) this.#run(nowMs);
    return true;
  }

  finish(): void {}
}
