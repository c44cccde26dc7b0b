// Jobs of one request on their way to the client. Each has a lease as soon as it arrives. If the
// response does not reach the client, all of them go back, and so does any job that arrives later.

import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";
import type { ControlClient } from "../link/control-client.ts";
import { type Lease, type LeaseTable, workerOf } from "../state/lease-table.ts";
import type { GiveBacks } from "./give-backs.ts";
import type { ReservedJob } from "./reservations.ts";

interface HandoutParts {
  readonly leases: LeaseTable;
  readonly giveBacks: GiveBacks;
  readonly control: Pick<ControlClient, "shards">;
  /** Monotonic, ms. */
  readonly nowMs: () => number;
}

/** A job and its lease. */
interface HandedJob {
  readonly job: ReservedJob;
  readonly lease: Lease;
}

export class Handout {
  readonly handed: HandedJob[] = [];
  readonly #parts: HandoutParts;
  readonly #client: Pick<Lease, "owner" | "address">;
  readonly #dropped = new AbortController();
  #tube = "";
  #shard = 0;

  constructor(parts: HandoutParts, client: Pick<Lease, "owner" | "address">) {
    this.#parts = parts;
    this.#client = client;
  }

  /** Name of the worker that gets the jobs. */
  get worker(): string {
    return workerOf(this.#client);
  }

  /** Aborted once the jobs can't reach the client any more. */
  get signal(): AbortSignal {
    return this.#dropped.signal;
  }

  /** Adds a job that a shard has reserved for the request. */
  add(job: ReservedJob): void {
    const { leases, giveBacks, nowMs } = this.#parts;
    const { id, tube, reserves, ttr } = job;
    const sinceMs = nowMs();
    const times = { sinceMs, untilMs: sinceMs + job.timeLeftMs };
    const shard = this.#shardOf(tube);
    const lease = leases.give({ id, shard, reserves, tube, ttr, ...this.#client, ...times });
    if (this.signal.aborted) giveBacks.add([lease]);
    else this.handed.push({ job, lease });
  }

  /** Gives all jobs back. */
  drop(): void {
    if (this.signal.aborted) return;
    this.#dropped.abort();
    this.#parts.giveBacks.add(this.handed.splice(0).map(({ lease }) => lease));
  }

  /** Cached, since most jobs come from the same tube. */
  #shardOf(tube: string): number {
    if (tube !== this.#tube) {
      const bytes = asciiBytes(tube);
      this.#tube = tube;
      this.#shard = shardOfTube(bytes, 0, bytes.length, this.#parts.control.shards);
    }
    return this.#shard;
  }
}
