// Log of a simulated server over all its processes: one disk, its faults, and the ledger of what
// was promised.

import assert from "node:assert/strict";
import { BinlogError } from "../../../src/binlog/disk/binlog-error.ts";
import { LENT_IDS, type SyncEvery } from "../../../src/binlog/live/log-writer.ts";
import { type OpenedBinlog, openBinlog } from "../../../src/binlog/open-binlog.ts";
import { FileTable, LogWord } from "../../../src/ring/shared-words.ts";
import { Survival, VirtualBackgroundSync, VirtualDisk } from "../../binlog/virtual-disk.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { DurabilityLedger, keptBatch, keptTexts, type ProcessEnd } from "../model/durability-ledger.ts";
import type { Model } from "../model/model.ts";
import { DiskWeather } from "./disk-weather.ts";
import type { InProcessLog } from "./in-process-options.ts";
import type { InProcessServer } from "./in-process-server.ts";
import { WallClock, type WallClockOptions } from "./wall-clock.ts";

/**
 * The rings of all shards together may hold a quarter of a segment: so much may come after the log
 * is full.
 */
const SEGMENT_BYTES = 128 * 1024;
const RECORD_RING_BYTES = 4096;
const SLOW_SYNC_MS = 2000;
/** Room left on a nearly full disk, in bytes. */
const ROOM_BYTES_MAX = 60_000;

export class SimulatedLog {
  readonly disk: VirtualDisk = new VirtualDisk();
  readonly ledger: DurabilityLedger = new DurabilityLedger();
  weather: DiskWeather;
  syncEvery: SyncEvery = 0;
  readonly wallClock: WallClock;
  /** When each job was put that was found at the last start, by the log's clock. */
  readonly putAtMs = new Map<number, number>();
  #server: InProcessServer | undefined;
  readonly #random: SeededRandom;
  #clockMs: () => number = () => 0;
  #nextId = 1;
  #lastEnd: ProcessEnd = "stop";
  /** The next power cut tears what was not synced. */
  #tears = false;

  constructor(random: SeededRandom, wallClock: WallClockOptions = { steps: false, schedules: false }) {
    this.#random = random;
    this.wallClock = new WallClock(random, wallClock);
    this.weather = new DiskWeather(this.disk, random);
  }

  get repliesWaitFor(): LogWord {
    return this.syncEvery === 0 ? LogWord.Synced : LogWord.Written;
  }

  /**
   * Opens what the last process has left, for a process that begins at `startsAtMs`; its start may
   * be interrupted too.
   */
  async open(shards: number, startsAtMs: number): Promise<InProcessLog> {
    const random = this.#random;
    this.syncEvery = random.pick<SyncEvery>([0, 0, 0, 50, 1000, "never"]);
    this.#clockMs = () => startsAtMs;
    this.wallClock.passDown();
    this.disk.capacityBytes = Number.POSITIVE_INFINITY;
    const opened = await this.#openAtLast(shards);
    this.#nextId = opened.nextId;
    return {
      disk: this.disk,
      opened,
      repliesWaitFor: this.repliesWaitFor,
      recordRingBytes: RECORD_RING_BYTES,
      wallOffsetMs: this.wallClock.wallMs - startsAtMs,
    };
  }

  async #openAtLast(shards: number): Promise<OpenedBinlog> {
    const random = this.#random;
    for (;;) {
      const cutAt = random.chance(0.2) ? this.disk.calls + random.between(0, 40) : Number.POSITIVE_INFINITY;
      this.disk.fault = () => {
        if (this.disk.calls >= cutAt) throw Object.assign(new Error("interrupted"), { code: "CUT" });
      };
      try {
        return await this.#openOnce(shards);
      } catch (error) {
        const cause = error instanceof BinlogError ? error.cause : error;
        if ((cause as { code?: string } | undefined)?.code !== "CUT") throw error;
        // Changes left unsynced by a kill would not survive a power cut.
        if (this.#lastEnd === "kill") this.disk.kill();
        else this.disk.crash(random);
      } finally {
        this.disk.fault = () => {};
      }
    }
  }

  #openOnce(shards: number): Promise<OpenedBinlog> {
    // Drawn from a sequence of its own, so that older seeds play what they did.
    const random = new SeededRandom(this.disk.calls);
    const inBackground = this.syncEvery !== 0 && random.chance(0.5);
    return openBinlog({
      disk: this.disk,
      background: inBackground ? () => new VirtualBackgroundSync(this.disk, random) : undefined,
      shards,
      segmentBytes: SEGMENT_BYTES,
      syncEvery: this.syncEvery,
      salvage: false,
      parallel: false,
      smallSegments: true,
      lentIds: this.#random.pick([4, 64, LENT_IDS]),
      randomSalt: () => this.#random.bits(),
      wallMs: () => this.wallClock.wallMs,
      clockMs: () => this.#clockMs(),
      notice: () => {},
      progress: () => {},
      files: { set: (id, segment) => this.#files?.set(id, segment) },
    });
  }

  #files: FileTable | undefined;

  /**
   * Brings what the log has into the new server and checks that it may be there after such an
   * `end`; `ledger` tells what it is. From here on the log sees what the server does.
   */
  restore(server: InProcessServer, end: ProcessEnd, model: Model): void {
    const recovered = new Map<number, string>();
    const burials = new Map<number, number>();
    this.putAtMs.clear();
    server.restore((batch) => {
      for (const [id, text, { burySequence, createdAtMs }] of keptTexts(batch)) {
        assert.ok(!recovered.has(id), `job ${id} comes back once`);
        recovered.set(id, text);
        burials.set(id, burySequence);
        this.putAtMs.set(id, createdAtMs);
      }
    });
    const { settings, batches } = server.log!.opened;
    for (const { facts } of batches) recovered.set(...keptBatch(facts));
    this.ledger.settle(recovered, settings, burials, this.#nextId, end);
    this.#server = server;
    this.wallClock.begin(server, this.#newestMs());
    this.#clockMs = () => server.nowMs;
    this.#files = new FileTable(server.topology.binlog!.files);
    this.#watch(server, model);
    this.weather = new DiskWeather(this.disk, this.#random);
    this.weather.begin(server);
  }

  /** When the newest of the jobs was put that were found. */
  #newestMs(): number {
    const jobs = this.ledger.found.filter(({ state }) => state !== "remembered");
    return jobs.length === 0 ? 0 : this.putAtMs.get(Math.max(...jobs.map(({ id }) => id)))!;
  }

  /** Whether the log takes a note of its clock. */
  get mayNote(): boolean {
    const { logEnd, storage } = this.#server!;
    if (logEnd === "failed" || storage!.failure !== undefined) return false;
    return !storage!.room.full && !storage!.room.waiting && storage!.tail.chain?.hasRoom !== false;
  }

  #watch(server: InProcessServer, model: Model): void {
    const { ledger } = this;
    const storage = server.storage!;
    ledger.begin(server.shards.length, this.syncEvery, (shard) => storage.tail.synced[shard]!);
    const append = storage.append.bind(storage);
    storage.append = (shard, n, ...rest) => {
      append(shard, n, ...rest);
      if (storage.failure === undefined) ledger.noteTaken(shard, n);
    };
    const flush = storage.flush.bind(storage);
    storage.flush = (nowMs) => {
      flush(nowMs);
      if (storage.failure === undefined && !storage.room.waiting) ledger.noteFlushed(nowMs);
    };
    for (const [shard, records] of server.records.entries()) {
      const note = (id: number, before: number): void => {
        if (records.lastNumber > before) ledger.noteMade(shard, id, records.lastNumber);
      };
      const put = records.put.bind(records);
      const updated = records.updated.bind(records);
      const deleted = records.deleted.bind(records);
      records.put = (slot, isNew) => {
        const before = records.lastNumber;
        const done = put(slot, isNew);
        // An undone put exists after no part of its records.
        if (done) note(server.jobId(shard, slot), before);
        return done;
      };
      records.updated = (slot) => {
        const before = records.lastNumber;
        updated(slot);
        note(server.jobId(shard, slot), before);
      };
      const remembered = records.remembered.bind(records);
      records.remembered = (slot) => {
        const before = records.lastNumber;
        remembered(slot);
        note(server.jobId(shard, slot), before);
      };
      const left = records.left.bind(records);
      records.left = (slot) => {
        const before = records.lastNumber;
        const record = left(slot);
        note(record, before);
        model.left.push({ id: server.jobId(shard, slot), record });
        return record;
      };
      const set = records.set.bind(records);
      records.set = (pattern, text) => {
        set(pattern, text);
        const values = server.shards[shard]!.engine.settings.get(pattern) ?? {};
        ledger.noteSetting(shard, records.lastNumber, pattern, values, server.nowMs);
      };
      records.deleted = (id) => {
        const before = records.lastNumber;
        deleted(id);
        note(id, before);
      };
      const ended = records.ended.bind(records);
      records.ended = (id, ...counts) => {
        const before = records.lastNumber;
        ended(id, ...counts);
        note(id, before);
      };
      const batch = records.batch.bind(records);
      records.batch = (facts) => {
        batch(facts);
        ledger.noteBatch(shard, records.lastNumber, facts, server.nowMs);
      };
    }
  }

  /** What must be durable at rest is, and so is the last step of the wall clock. */
  checkRest(): void {
    const { nowMs } = this.#server!;
    this.ledger.checkRest(nowMs);
    this.wallClock.checkRest(nowMs, this.mayNote);
  }

  /** Fills the disk but for a little, or makes room again. */
  turnCapacity(): string {
    const { disk } = this;
    const isFull = disk.capacityBytes < Number.POSITIVE_INFINITY;
    disk.capacityBytes = isFull
      ? Number.POSITIVE_INFINITY
      : disk.usedBytes() + this.#random.between(0, ROOM_BYTES_MAX);
    return isFull ? "the disk has room again" : "the disk is almost full";
  }

  /** Each sync takes up to two seconds until the process ends. */
  slowDown(): string {
    this.weather.slowDown(SLOW_SYNC_MS);
    return `the disk is slow: a sync takes up to ${SLOW_SYNC_MS} ms`;
  }

  /**
   * The power goes at the next sync, and each sector of what was written since the last may or may
   * not be on the disk.
   */
  tearNextWrite(): string {
    this.weather.cutAtNextSync();
    this.#tears = true;
    return "the power will fail in the middle of the next write";
  }

  /** The process has ended at `nowMs` of its clock. */
  end(end: ProcessEnd, nowMs: number, model: Model): void {
    const tears = this.#tears;
    this.#tears = false;
    if (end === "stop") this.ledger.checkStopped(model.log.kept, nowMs + model.logOffsetMs, model.aheadMs);
    this.#lastEnd = end;
    this.weather.end();
    this.wallClock.end(end, nowMs, this.mayNote);
    this.#files = undefined;
    if (end === "stop") assert.equal(this.disk.openHandles, 0, "a log that is closed has no open files");
    if (end === "kill") this.disk.kill();
    // Also what was closed in order must be durable.
    else this.disk.crash(this.#random, tears ? Survival.Sectors : undefined);
  }
}
