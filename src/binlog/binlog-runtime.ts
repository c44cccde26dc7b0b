// The log with everything its thread must provide: recovers the log, loads the jobs into the
// shards, and owns the loop. It runs in a thread of its own or in that of the acceptors and shards.

import { randomInt } from "node:crypto";
import type { MessagePort } from "node:worker_threads";
import { assert } from "../base/assert.ts";
import { REAL_THREAD } from "../loop/role.ts";
import {
  ControlWord,
  type Origin,
  originsOf,
  portBell,
  type Topology,
  threadOfShard,
} from "../message/topology.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { monotonicMs, wallOffsetMs } from "../ring/monotonic-clock.ts";
import { ControlWords, FileTable, RESTATED_MAX, RestateWords } from "../ring/shared-words.ts";
import { BatchRing, BinlogLoop } from "./binlog-loop.ts";
import { BinlogError } from "./disk/binlog-error.ts";
import { noteStart, readGroupFile } from "./disk/checked-json.ts";
import { DirectoryLock } from "./disk/directory-lock.ts";
import { isCodeReadable } from "./disk/readable-code.ts";
import { RealBackgroundSync, RealDisk } from "./disk/real-disk.ts";
import { Following } from "./following.ts";
import type { ChainOptions } from "./live/batch-chain.ts";
import type { LogClock } from "./live/log-clock.ts";
import type { DamagedPart, Restater, StorageNotice, SyncEvery } from "./live/log-writer.ts";
import type { Storage } from "./live/storage.ts";
import { openBinlog, recoveredWithFiles } from "./open-binlog.ts";
import { type OpenOptions, StartInterrupted } from "./recovery/open-options.ts";
import type { RecoveredBatch } from "./recovery/recovered-jobs.ts";

// Sends the jobs of a recovered log to one shard.

/** Number of batches that a shard may have waiting while the next segment is read. */
const BATCHES_AHEAD = 2;

/** Keeps a few batches ahead of the shard's loading. */
export class ShardFeed {
  readonly #port: MessagePort;
  #ahead = 0;
  #onLoaded: (() => void) | undefined;

  /** `warn` is called with the shard's warnings for the operator. */
  constructor(port: MessagePort, warn: (warning: string) => void) {
    this.#port = port;
    port.on("message", (message: "loaded" | { readonly warnings: readonly string[] }) => {
      if (message !== "loaded") for (const warning of message.warnings) warn(warning);
      this.#ahead--;
      assert(this.#ahead >= 0, "a shard loads no more than it was sent");
      this.#onLoaded?.();
    });
  }

  async send(batch: { bytes: Uint8Array; offsets: Uint32Array }): Promise<void> {
    assert(batch.offsets.length > 0, "a batch has jobs");
    this.#ahead++;
    this.#port.postMessage(batch);
    await this.#until(BATCHES_AHEAD);
  }

  async end(): Promise<void> {
    this.#ahead++;
    this.#port.postMessage("end");
    await this.#until(0);
    assert(this.#ahead === 0, "a shard has loaded everything at the end");
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

/** Asks the shards for records that the log can't read. */
class ShardRestater implements Restater {
  readonly partsMax: number = RESTATED_MAX;
  readonly #words: RestateWords;
  readonly #bells: readonly Doorbell[];

  constructor(topology: Topology) {
    this.#words = new RestateWords(topology.binlog!.restate, topology.shards);
    const words = new Int32Array(topology.doorbells);
    const shards = Array.from({ length: topology.shards }, (_, shard) => threadOfShard(topology, shard));
    this.#bells = [...new Set(shards)].map((thread) => new Doorbell(words, thread));
  }

  get isAnswered(): boolean {
    return this.#words.isAnswered;
  }

  ask(parts: readonly DamagedPart[]): void {
    this.#words.ask(parts);
    for (const bell of this.#bells) bell.ring();
  }
}

export interface BinlogData {
  topology: Topology;
  directory: string;
  segmentBytes: number;
  syncEvery: SyncEvery;
  salvage: boolean;
  /** The id of this process, as in `stats`. */
  instanceId: string;
  /** One per shard: jobs go out, "loaded" comes back. */
  recovery: MessagePort[];
  /** In a group: the port to the group's thread until this node has the lead. */
  group: MessagePort | undefined;
}

/**
 * The only order of the main thread. Before it arrives, the thread loads its code and nothing else.
 */
export type BinlogOrder = "open";

/** Messages from the binlog to the main thread. */
export type BinlogNews =
  /** The code is loaded; the thread waits for the order to open the log. */
  | { news: "loaded" }
  | { news: "progress"; doneBytes: number; totalBytes: number }
  | { news: "notice"; notice: StorageNotice }
  | { news: "recovered"; jobs: number; ms: number; origins: readonly Origin[] }
  /** The log can't be opened; the operator has to act. */
  | { news: "refused"; code: string; message: string; nextStep: string }
  /** A write or sync failed during operation. */
  | { news: "failed"; code: string; message: string; nextStep: string }
  /** Everything is durable and closed; `timings` describes how the disk behaved. */
  | { news: "closed"; timings: string };

/**
 * Number of reserved descriptors: two for compaction, one each for a new file and its folder, and
 * as many again, because other threads may take some.
 */
const SPARE_DESCRIPTORS = 8;

export class BinlogRuntime {
  readonly #data: BinlogData;
  readonly #tell: (news: BinlogNews) => void;
  readonly #control: ControlWords;
  #batches: BatchRing | undefined;
  #opened: { storage: Storage; lock: DirectoryLock; role: BinlogLoop } | undefined;

  constructor(data: BinlogData, tell: (news: BinlogNews) => void) {
    this.#data = data;
    this.#tell = tell;
    this.#control = new ControlWords(data.topology.control);
  }

  /**
   * Resolves with the loop when the shards have loaded all jobs. Resolves with undefined, after
   * reporting the reason, if the log can't be opened or the server was stopped meanwhile.
   */
  async open(): Promise<BinlogLoop | undefined> {
    try {
      return await this.#open();
    } catch (error) {
      if (error instanceof StartInterrupted) {
        // The process's exit releases the lock.
        this.#tell({ news: "closed", timings: error.message });
      } else if (error instanceof BinlogError) this.#tellFailure("refused", error);
      else {
        // The main thread learns of the error only after this thread has ended. No thread may send
        // a reply in between.
        this.#control.set(ControlWord.NoMoreReplies);
        throw error;
      }
      return undefined;
    }
  }

  /**
   * Closes the log, once, after the loop has ended; in a thread of its own, that thread calls it.
   * No reply is sent from then on.
   */
  close(): void {
    assert(this.#opened !== undefined, "only an open log is closed");
    const { storage, lock, role } = this.#opened;
    const failure = role.close();
    if (failure !== undefined) {
      // All threads stop first; then the main thread ends the process.
      this.#tellFailure("failed", failure);
      return;
    }
    lock.release();
    this.#tell({ news: "closed", timings: storage.tail.timings.summary() });
  }

  async #open(): Promise<BinlogLoop> {
    const { directory, topology, segmentBytes, syncEvery, salvage } = this.#data;
    assert(this.#opened === undefined, "a log is opened once");
    const lock = DirectoryLock.take(directory);
    const stopping = () => this.#control.isSet(ControlWord.BinlogStop);
    const files = new FileTable(topology.binlog!.files);
    // A thread of its own can wait for its syncs.
    const inBackground = topology.binlog!.thread !== undefined && syncEvery !== 0;
    const options: OpenOptions = {
      disk: new RealDisk(directory, SPARE_DESCRIPTORS),
      background: inBackground ? () => new RealBackgroundSync(directory, monotonicMs) : undefined,
      shards: topology.shards,
      segmentBytes,
      syncEvery,
      salvage,
      // Other threads must read their code, which the current user may not be allowed to after
      // privileges were dropped.
      parallel: isCodeReadable(),
      randomSalt: () => randomInt(2 ** 32 - 1),
      wallMs: Date.now,
      clockMs: monotonicMs,
      stopping,
      notice: (notice) => this.#tell({ news: "notice", notice }),
      progress: (doneBytes, totalBytes) => this.#tell({ news: "progress", doneBytes, totalBytes }),
      files,
      restater: new ShardRestater(topology),
    };
    const chain = await this.#chain(options);
    const startedAtMs = monotonicMs();
    const opened = await openBinlog({ ...options, chain });
    const { storage } = opened;
    const clock = opened.startClock(wallOffsetMs, monotonicMs());
    const role = this.#createRole(storage, clock);
    role.beginIds(opened.nextId);
    const origins = this.#origins(options, opened.nextId);
    try {
      for (const port of this.#data.recovery)
        port.postMessage({
          settings: [...opened.settings],
          batches: opened.batches,
          clockOffsetMs: clock.offsetMs,
        });
      await this.#feedShards(recoveredWithFiles(opened, topology), stopping);
    } catch (error) {
      if (error instanceof StartInterrupted) storage.close(monotonicMs());
      throw error;
    }
    // No thread waits for it yet.
    role.publishProgress();
    role.publishState();
    this.#tell({ news: "recovered", jobs: opened.jobCount, ms: monotonicMs() - startedAtMs, origins });
    this.#opened = { storage, lock, role };
    return role;
  }

  /**
   * In a group, resolves when this node has the lead, with the place where its log continues the
   * chain.
   */
  async #chain(options: OpenOptions): Promise<ChainOptions | undefined> {
    const { group, topology } = this.#data;
    if (group === undefined) return undefined;
    const { place, node, rewriteBelow } = await new Following(options, group).untilLead();
    assert(this.#batches === undefined, "a node takes the lead once");
    this.#batches = new BatchRing(topology, place.n);
    const randomTag = (): number => 1 + randomInt(2 ** 48 - 2);
    return { place, node, rewriteBelow, randomTag, sink: this.#batches };
  }

  /** In a group, all servers together are one origin: they share the log and its ids. */
  #origins({ disk, notice }: OpenOptions, nextId: number): Origin[] {
    const { group, instanceId } = this.#data;
    const id = group === undefined ? instanceId : readGroupFile(disk)!.groupId;
    const warn = (message: string): void => notice({ level: "warn", code: "STARTS_FILE", message });
    return originsOf(noteStart(disk, id, nextId, warn));
  }

  /** Sends each batch to the shards that have jobs in it, a few batches ahead of their loading. */
  async #feedShards(batches: Iterable<RecoveredBatch>, stopping: () => boolean): Promise<void> {
    const warn = (message: string): void =>
      this.#tell({ news: "notice", notice: { level: "warn", code: "SCHEDULE_ZONE", message } });
    const feeds = this.#data.recovery.map((port) => new ShardFeed(port, warn));
    assert(feeds.length === this.#data.topology.shards, "each shard is fed");
    for (const { bytes, jobs } of batches) {
      StartInterrupted.check(stopping);
      assert(jobs.length === feeds.length, "recovered jobs are sorted by shard");
      for (const [shard, offsets] of jobs.entries())
        if (offsets.length > 0) await feeds[shard]!.send({ bytes, offsets });
    }
    await Promise.all(feeds.map((feed) => feed.end()));
  }

  #createRole(storage: Storage, clock: LogClock): BinlogLoop {
    const { topology } = this.#data;
    const isColocated = topology.binlog?.thread !== undefined;
    const words = new Int32Array(topology.doorbells);
    const bells = (count: number, thread: (each: number) => number): Doorbell[] =>
      Array.from({ length: count }, (_, each) => new Doorbell(words, thread(each)));
    return new BinlogLoop({
      topology,
      storage,
      shards: bells(topology.shards, (shard) => threadOfShard(topology, shard)),
      acceptors: bells(topology.ports, (port) => portBell(topology, port)),
      clock,
      batches: this.#batches,
      givesWay: isColocated,
      onEnded: isColocated ? () => this.close() : undefined,
      surroundings: REAL_THREAD,
    });
  }

  #tellFailure(news: "refused" | "failed", { code, message, nextStep }: BinlogError): void {
    this.#tell({ news, code, message, nextStep });
  }
}
