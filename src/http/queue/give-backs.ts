// Gives leased jobs back whose clients will not hear of them: they are ready again, as if a connection had ended.
//
// A give-back is never refused, since nobody would try again. Each shard has one question under way, with as many jobs as fit
// into it; jobs that come meanwhile go with the next. A lease counts until its shard has answered, so that the list of leases
// and the shard's own count agree, and the jobs that wait here are among those that the limit of leases bounds.

import type { ControlClient } from "../link/control-client.ts";
import type { LeaseKey, LeaseTable } from "../state/lease-table.ts";

/** Jobs of one question: a slice of its shard should be short. */
const JOBS_MAX = 200;
/** Bytes of a question besides its jobs, and of each of them: a map of two float64, with its keys. */
const QUESTION_BYTES = 64;
const JOB_BYTES = 32;

export class GiveBacks {
  readonly #leases: LeaseTable;
  readonly #control: ControlClient;
  readonly #jobsMax: number;
  /** Jobs that wait for the answer to another question, by their shard. */
  readonly #waiting: LeaseKey[][];
  readonly #isAsking: boolean[];

  constructor(leases: LeaseTable, control: ControlClient) {
    this.#leases = leases;
    this.#control = control;
    const fitting = Math.floor((control.questionBytesMax - QUESTION_BYTES) / JOB_BYTES);
    this.#jobsMax = Math.max(1, Math.min(JOBS_MAX, fitting));
    this.#waiting = Array.from({ length: control.shards }, () => []);
    this.#isAsking = this.#waiting.map(() => false);
  }

  add(keys: readonly LeaseKey[]): void {
    this.#leases.abandoned += keys.length;
    for (const key of keys) this.#waiting[key.shard]!.push(key);
    for (const shard of this.#waiting.keys()) this.#askNext(shard);
  }

  #askNext(shard: number): void {
    const waiting = this.#waiting[shard]!;
    if (this.#isAsking[shard] || waiting.length === 0) return;
    this.#isAsking[shard] = true;
    const asked = waiting.splice(0, this.#jobsMax);
    const jobs = asked.map(({ id, reserves }) => ({ id, reserves }));
    void this.#control.ask(shard, "give-back", { jobs }).then(() => {
      for (const key of asked) this.#leases.forget(key);
      this.#isAsking[shard] = false;
      this.#askNext(shard);
    });
  }
}
