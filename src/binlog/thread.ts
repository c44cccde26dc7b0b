// The worker thread around the log: recovers it, feeds the shards what it knew, then writes and syncs what they append.

import { randomInt } from "node:crypto";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { shardOfTube } from "../base/tube-hash.ts";
import { APPEND_HEADER_BYTES, appendedBytes, appendedNumber } from "../message/append.ts";
import { RECORD_ID_AT } from "../message/record.ts";
import {
  acceptorThread,
  binlogThread,
  ControlWord,
  Counter,
  countersOf,
  shardThread,
  type Topology,
} from "../message/topology.ts";
import { ControlWords } from "../ring/control-words.ts";
import { Doorbell, DoorbellOwner } from "../ring/doorbell.ts";
import { FileTable } from "../ring/file-table.ts";
import { JobIds } from "../ring/job-ids.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { EMPTY, RingReader } from "../ring/ring-reader.ts";
import { SyncedWords } from "../ring/synced-words.ts";
import { BinlogError } from "./binlog-error.ts";
import { DirectoryLock } from "./directory-lock.ts";
import { openBinlog } from "./open-binlog.ts";
import { RealDisk } from "./real-disk.ts";
import type { Storage, StorageNotice } from "./storage.ts";
import type { SyncEvery } from "./sync-policy.ts";

export interface BinlogThreadData {
  topology: Topology;
  directory: string;
  segmentBytes: number;
  syncEvery: SyncEvery;
  salvage: boolean;
  /** One for each shard: the jobs go out, "loaded" comes back. */
  recovery: MessagePort[];
}

/** What the binlog tells the main thread. */
export type BinlogNews =
  | { news: "progress"; doneBytes: number; totalBytes: number }
  | { news: "notice"; notice: StorageNotice }
  | { news: "recovered"; jobs: number; ms: number }
  /** The log can't be opened: the operator has to act. */
  | { news: "refused"; code: string; message: string; nextStep: string }
  /** A write or sync failed while serving. */
  | { news: "failed"; code: string; message: string; nextStep: string }
  /** Everything is durable and closed; `timings` tells how the disk behaved. */
  | { news: "closed"; timings: string };

/** Records of one shard taken before the others have their turn. */
const BATCH_RECORDS = 4096;
const SLEEP_MS_MAX = 3_600_000;
/** Batches that a shard may have waiting while the next segment is read. */
const BATCHES_AHEAD = 2;

class BinlogThread {
  readonly #data: BinlogThreadData;
  readonly #rings: readonly RingReader[];
  readonly #shards: readonly Doorbell[];
  readonly #acceptors: readonly Doorbell[];
  readonly #doorbell: DoorbellOwner;
  readonly #synced: SyncedWords;
  readonly #published: Float64Array;
  readonly #control: ControlWords;
  readonly #counters: Float64Array;
  readonly #files: FileTable;

  constructor(data: BinlogThreadData) {
    this.#data = data;
    const { topology } = data;
    const words = new Int32Array(topology.doorbells);
    this.#rings = topology.binlog!.rings.map((ring) => new RingReader(ring));
    this.#shards = this.#rings.map((_, shard) => new Doorbell(words, shardThread(shard)));
    this.#acceptors = Array.from(
      { length: topology.acceptors },
      (_, acceptor) => new Doorbell(words, acceptorThread(topology, acceptor)),
    );
    this.#doorbell = new DoorbellOwner(words, binlogThread(topology));
    this.#synced = new SyncedWords(topology.binlog!.synced);
    this.#published = new Float64Array(topology.shards);
    this.#control = new ControlWords(topology.control);
    this.#counters = countersOf(topology, binlogThread(topology));
    this.#files = new FileTable(topology.binlog!.files);
  }

  async start(): Promise<void> {
    const { directory, topology, segmentBytes, syncEvery, salvage } = this.#data;
    const startedAtMs = monotonicMs();
    const lock = DirectoryLock.take(directory);
    const opened = await openBinlog({
      disk: new RealDisk(directory),
      shards: topology.shards,
      segmentBytes,
      syncEvery,
      salvage,
      parallel: true,
      randomSalt: () => randomInt(2 ** 32 - 1),
      wallMs: Date.now,
      clockMs: monotonicMs,
      notice: (notice) => tell({ news: "notice", notice }),
      progress: (doneBytes, totalBytes) => tell({ news: "progress", doneBytes, totalBytes }),
      onFull: (id, segment) => this.#files.set(id, segment),
    });
    new JobIds(this.#control.words, ControlWord.JobIds).reset(opened.nextId);
    await this.#feedShards(
      opened.storage,
      opened.jobs((bytes, start, length) => this.#shardOf(bytes, start, length)),
    );
    this.#publishState(opened.storage);
    tell({ news: "recovered", jobs: opened.jobCount, ms: monotonicMs() - startedAtMs });
    this.#run(opened.storage);
    opened.storage.close(monotonicMs());
    lock.release();
    const { failure } = opened.storage;
    if (failure === undefined) tell({ news: "closed", timings: opened.storage.timings.summary() });
    else tellFailure("failed", failure);
  }

  #shardOf(bytes: Uint8Array, start: number, length: number): number {
    return shardOfTube(bytes, start, start + length, this.#data.topology.shards);
  }

  /** Sends every batch to the shards that have jobs in it, a few ahead of their loading. */
  async #feedShards(
    storage: Storage,
    batches: Iterable<{ bytes: Uint8Array; jobs: Uint32Array[] }>,
  ): Promise<void> {
    const feeds = this.#data.recovery.map((port) => new ShardFeed(port));
    for (const { bytes, jobs } of batches) {
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      for (const [shard, offsets] of jobs.entries()) {
        if (offsets.length === 0) continue;
        for (const offset of offsets) {
          const id = view.getFloat64(offset + RECORD_ID_AT, true);
          this.#files.set(id, storage.fileOf(id));
        }
        await feeds[shard]!.send({ bytes, offsets });
      }
    }
    await Promise.all(feeds.map((feed) => feed.end()));
  }

  /** Serves until it is told to stop or the log fails. */
  #run(storage: Storage): void {
    for (;;) {
      const stopping = this.#control.isSet(ControlWord.BinlogStop);
      const taken = this.#takeRecords(storage);
      storage.flush(monotonicMs());
      const more = storage.failure === undefined && storage.work(monotonicMs());
      if (storage.failure !== undefined) return;
      this.#publishState(storage);
      if (taken > 0 || more) continue;
      if (stopping) return;
      this.#doorbell.prepare();
      const sleepMs = Math.min(storage.nextDeadline() - monotonicMs(), SLEEP_MS_MAX);
      if (sleepMs <= 0 || this.#hasRecords || this.#control.isSet(ControlWord.BinlogStop))
        this.#doorbell.cancel();
      else this.#doorbell.sleep(sleepMs);
    }
  }

  get #hasRecords(): boolean {
    return this.#rings.some((ring) => ring.hasMessage);
  }

  #takeRecords(storage: Storage): number {
    let taken = 0;
    for (let shard = 0; shard < this.#rings.length; shard++) {
      const ring = this.#rings[shard]!;
      for (let i = 0; i < BATCH_RECORDS; i++) {
        const offset = ring.next();
        if (offset === EMPTY) break;
        const number = appendedNumber(ring, offset);
        storage.append(shard, number, ring.bytes, offset + APPEND_HEADER_BYTES, appendedBytes(ring, offset));
        taken++;
      }
      if (ring.release()) this.#shards[shard]!.ring();
    }
    return taken;
  }

  /** Tells everybody how far the log is durable, and whether there is room. */
  #publishState(storage: Storage): void {
    if (storage.full !== this.#control.isSet(ControlWord.BinlogFull)) {
      if (storage.full) this.#control.set(ControlWord.BinlogFull);
      else this.#control.clear(ControlWord.BinlogFull);
    }
    let news = false;
    for (let shard = 0; shard < this.#published.length; shard++) {
      const number = storage.syncedUpTo(shard);
      if (number === this.#published[shard]) continue;
      this.#published[shard] = number;
      this.#synced.publish(shard, number);
      news = true;
    }
    const stats = storage.stats();
    this.#counters[Counter.BinlogOldest] = stats.oldestSegment;
    this.#counters[Counter.BinlogCurrent] = stats.currentSegment;
    this.#counters[Counter.BinlogWritten] = stats.recordsWritten;
    this.#counters[Counter.BinlogMigrated] = stats.recordsMigrated;
    if (news && this.#data.topology.binlog!.repliesWait)
      for (const acceptor of this.#acceptors) acceptor.ring();
  }
}

/** The jobs on their way to one shard. */
class ShardFeed {
  readonly #port: MessagePort;
  #ahead = 0;
  #onLoaded: (() => void) | undefined;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on("message", () => {
      this.#ahead--;
      this.#onLoaded?.();
    });
  }

  async send(batch: { bytes: Uint8Array; offsets: Uint32Array }): Promise<void> {
    this.#ahead++;
    this.#port.postMessage(batch);
    await this.#until(BATCHES_AHEAD);
  }

  async end(): Promise<void> {
    this.#ahead++;
    this.#port.postMessage("end");
    await this.#until(0);
    this.#port.close();
  }

  async #until(ahead: number): Promise<void> {
    while (this.#ahead > ahead) {
      await new Promise<void>((resolve) => {
        this.#onLoaded = resolve;
      });
    }
  }
}

function tell(news: BinlogNews): void {
  parentPort!.postMessage(news);
}

function tellFailure(news: "refused" | "failed", { code, message, nextStep }: BinlogError): void {
  tell({ news, code, message, nextStep });
}

try {
  await new BinlogThread(workerData as BinlogThreadData).start();
} catch (error) {
  if (!(error instanceof BinlogError)) throw error;
  tellFailure("refused", error);
}
