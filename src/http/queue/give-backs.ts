// Returns leased jobs that will not reach their clients: they become ready again, as if a
// connection had closed.
//
// A give-back is never refused, because nothing would repeat it. Each shard has one such question
// in progress, with as many jobs as fit; jobs that arrive in the meantime go with the next one. A
// lease counts until its shard has answered. So the list of leases agrees with the shard's count,
// and the limit of leases also bounds the queue here.

import type { ControlClient } from "../link/control-client.ts";
import type { LeaseKey, LeaseTable } from "../state/lease-table.ts";

/** Maximum of jobs per question, which keeps a shard's slice short. */
const JOBS_MAX = 200;
/** Bytes of a question without its jobs, and bytes per job: a map of two float64 with its keys. */
const QUESTION_BYTES = 64;
const JOB_BYTES = 32;

export class GiveBacks {
  readonly #leases: LeaseTable;
  readonly #control: ControlClient;
  readonly #jobsMax: number;
  /** Jobs that wait for the answer to an earlier question, by shard. */
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
