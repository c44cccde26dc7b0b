// The names of the workers that hold leases, by job: one session holds all leases of a shard, so
// its name tells nothing.
//
// A lease ends in many ways, and none of them reports to this table. Instead, each new lease
// examines the next two entries and removes those of ended ones, so the table never has many more
// entries than there are leases.

import { assert } from "../base/assert.ts";
import type { Engine } from "../engine/engine.ts";
import { NO_SLOT } from "../engine/jobs/job-table.ts";

/** Entries that a new lease examines. */
const EXAMINED = 2;

export class LeaseWorkers {
  readonly #engine: Engine;
  readonly #leaseSession: number;
  readonly #names = new Map<number, string>();
  #next = this.#names.keys();
  #last = "";

  constructor(engine: Engine, leaseSession: number) {
    assert(leaseSession >= 0, "leases are held by a session");
    this.#engine = engine;
    this.#leaseSession = leaseSession;
  }

  /** Returns the number of entries. */
  get size(): number {
    return this.#names.size;
  }

  /** Notes which worker has leased a job. */
  note(job: number, name: string): void {
    // Most leases in a row are one worker's, and then share one string.
    if (name !== this.#last) this.#last = name;
    this.#names.set(job, this.#last);
    for (let left = EXAMINED; left > 0; left--) this.#examineNext();
  }

  /** Returns the worker that leased the job last; "" if that is unknown. */
  of(job: number): string {
    return this.#names.get(job) ?? "";
  }

  #examineNext(): void {
    const { done, value: job } = this.#next.next();
    if (done === true) this.#next = this.#names.keys();
    else if (this.#engine.heldBy(this.#engine.session(this.#leaseSession), job) === NO_SLOT)
      this.#names.delete(job);
  }
}
