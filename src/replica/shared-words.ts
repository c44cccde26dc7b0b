// Shared memory in which the group's thread publishes to all others: the progress of the shared
// log, the end of the lease, and the lent ids.

import { assert } from "../base/assert.ts";
import { binlogBell, binlogGroup, ControlWord, httpBell, type Topology } from "../message/topology.ts";
import { BatchWord } from "../ring/batch-word.ts";
import { ControlWords } from "../ring/control-words.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { Lease } from "../ring/lease-word.ts";
import { LentIds } from "../ring/lent-ids.ts";
import { LogWord, LogWords } from "../ring/log-words.ts";

export class SharedWords {
  readonly #topology: Topology;
  readonly #control: ControlWords;
  readonly #progress: LogWords;
  readonly #lease: Lease;
  readonly #lent: LentIds;
  readonly #batch: BatchWord;
  readonly #message: BatchWord;
  readonly #threads: readonly Doorbell[];
  readonly #binlog: Doorbell;
  #serveUntilMs = 0;
  #idsLent = 0;
  #batchN = 0;

  constructor(topology: Topology) {
    this.#topology = topology;
    this.#control = new ControlWords(topology.control);
    const { words } = this.#control;
    this.#progress = new LogWords(binlogGroup(topology).progress, LogWord.Written);
    this.#lease = new Lease(words, ControlWord.ServeUntil, ControlWord.ServeUntilWall);
    this.#lent = new LentIds(words, ControlWord.IdsLent);
    this.#batch = new BatchWord(words, ControlWord.AcknowledgedBatch);
    this.#message = new BatchWord(words, ControlWord.AcknowledgedMessage);
    const bells = new Int32Array(topology.doorbells);
    const serving = [...topology.threads.keys(), httpBell(topology)];
    this.#threads = serving.map((bell) => new Doorbell(bells, bell));
    this.#binlog = new Doorbell(bells, binlogBell(topology));
  }

  /** Publishes that each shard's records up to these numbers are acknowledged. */
  publishAcknowledged(numbers: Float64Array, idsLent: number): void {
    assert(numbers.length === this.#topology.shards, "each shard has a number");
    for (let shard = 0; shard < this.#topology.shards; shard++)
      this.#progress.publish(shard, numbers[shard]!);
    assert(idsLent >= 0, "lent ids are counted from 0");
    if (idsLent !== this.#idsLent) this.#lent.publish(idsLent);
    this.#idsLent = idsLent;
  }

  /**
   * Publishes that batch `n` and all before it are in the shared log; batch `n` is in message
   * `sequence`.
   */
  publishBatch(n: number, sequence: number): void {
    assert(sequence > 0, "an acknowledged batch is in a message");
    assert(n > this.#batchN, "batches are acknowledged in order");
    this.#batchN = n;
    this.#message.publish(sequence);
    this.#batch.publish(n);
  }

  /**
   * Returns whether an expired lease is valid again, which ends a freeze. `wallAheadMs` is the lead
   * of the wall clock over the monotonic one.
   */
  publishLease(untilMs: number, nowMs: number, wallAheadMs: number): boolean {
    assert(!Number.isNaN(untilMs), "the end of a lease is a number");
    assert(!Number.isNaN(wallAheadMs), "the lead of the wall clock is a number");
    const wasOver = this.#serveUntilMs <= nowMs;
    if (untilMs === this.#serveUntilMs) return false;
    this.#serveUntilMs = untilMs;
    this.#lease.publish(untilMs, untilMs + wallAheadMs);
    return wasOver && untilMs > nowMs;
  }

  publishFull(isFull: boolean): void {
    if (isFull === this.#control.isSet(ControlWord.SharedLogFull)) return;
    if (isFull) this.#control.set(ControlWord.SharedLogFull);
    else this.#control.clear(ControlWord.SharedLogFull);
  }

  /** Makes acceptors and shards check again. */
  ringAll(): void {
    for (const thread of this.#threads) thread.ring();
  }

  ringBinlog(): void {
    this.#binlog.ring();
  }
}
