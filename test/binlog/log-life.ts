// State of a simulated log: its disk, its model, and the records that wait for it.

import { Memory } from "../../src/base/bytes.ts";
import type { SyncEvery } from "../../src/binlog/live/log-writer.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import type { RecordFields } from "../../src/message/record.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { Model } from "./model.ts";
import { VirtualDisk } from "./virtual-disk.ts";

export interface SimulationResult {
  operations: number;
  recoveries: number;
  migrated: number;
  /** Number of times that the log had to wait for room. */
  waits: number;
  /** Number of backups that were made, restored and compared. */
  backups: number;
  /** The most that the disk held beyond what was promised, in bytes; negative: never reached. */
  worstExcessBytes: number;
}

export type Load = "mixed" | "queue" | "buried" | "delayed-loop" | "kick-bury" | "burst-and-clear";

export const SHARDS = 3;

export interface SimulatedJob {
  fields: RecordFields;
  tube: string;
  body: string;
  /** Attributes that never change, and those that do, without padding. */
  fixed: Buffer;
  changing: Buffer;
  moved: boolean;
}

export class LogLife {
  readonly random: SeededRandom;
  readonly disk = new VirtualDisk();
  readonly model = new Model();
  readonly result: SimulationResult = {
    operations: 0,
    recoveries: 0,
    migrated: 0,
    waits: 0,
    backups: 0,
    worstExcessBytes: -1e9,
  };
  readonly scratch = Memory.ofSize(4096);
  /** Live jobs as the shards see them. */
  live = new Map<number, SimulatedJob>();
  numbers = [0, 0, 0];
  nextId = 1;
  nowMs = 0;
  storage!: Storage;
  syncEvery: SyncEvery = 0;
  /** Whether syncs run in the background. */
  inBackground = false;
  load: Load = "mixed";
  bounded = false;
  faulty = false;
  /** Compaction may have had to wait, so the disk may hold more than promised. */
  ranShort = false;
  /** Records that wait for the log, as in the ring of a shard. */
  backlog: { shard: number; n: number; bytes: Uint8Array }[] = [];

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
  }

  /** Every state that a job ever had, by its text. */
  readonly everSeen = new Map<string, SimulatedJob>();

  append(shard: number, length: number): number {
    const n = ++this.numbers[shard]!;
    if (this.storage.room.waiting)
      this.backlog.push({ shard, n, bytes: this.scratch.bytes.slice(0, length) });
    else this.storage.append(shard, n, this.scratch.bytes, 0, length);
    this.result.operations++;
    return n;
  }

  /** Appends the record whose head is written, with this part of a body at `at` behind it. */
  appendWith(shard: number, part: Uint8Array, at: number): number {
    this.scratch.bytes.set(part, at);
    return this.append(shard, at + part.length);
  }

  /** The log takes what has waited for it; the time until it has to be durable begins then. */
  drain(): void {
    while (this.backlog.length > 0 && !this.storage.room.waiting) {
      const { shard, n, bytes } = this.backlog.shift()!;
      this.storage.append(shard, n, bytes, 0, bytes.length);
      for (const one of this.model.operations) if (one.shard === shard && one.n === n) one.atMs = this.nowMs;
    }
  }
}

export function structuredCloneOf(job: SimulatedJob): SimulatedJob {
  return { ...job, fields: { ...job.fields } };
}
