// Simulated life of a binlog from a seed: load on a virtual disk, with crashes, kills, faults and
// full disks.

import { BinlogError } from "../../src/binlog/disk/binlog-error.ts";
import type { SyncEvery } from "../../src/binlog/live/log-writer.ts";
import { type OpenedBinlog, openBinlog } from "../../src/binlog/open-binlog.ts";
import { JobOperations } from "./job-operations.ts";
import { type Load, LogLife, SHARDS, type SimulationResult, structuredCloneOf } from "./log-life.ts";
import { recoveredTexts } from "./model.ts";
import { SimulatedBackup } from "./simulated-backup.ts";
import { VirtualBackgroundSync } from "./virtual-disk.ts";

const LOADS: readonly Load[] = ["mixed", "queue", "buried", "delayed-loop", "kick-bury", "burst-and-clear"];

const SEGMENT_BYTES = 32768;
/** Few, so that the log lends often. */
const LENT_IDS = 16;

/** Runs one seed; throws an Error that says what was broken. */
export async function simulate(seed: number, steps = 400): Promise<SimulationResult> {
  const life = new Life(seed);
  await life.run(steps);
  return life.result;
}

class Life extends LogLife {
  readonly operations: JobOperations = new JobOperations(this);
  readonly backup: SimulatedBackup = new SimulatedBackup(this);

  async run(steps: number): Promise<void> {
    const rounds = 1 + this.random.below(5);
    for (let round = 0; round < rounds; round++) {
      this.load = this.random.pick(LOADS)!;
      this.syncEvery = this.random.pick<SyncEvery>([0, 50, 50, "never"]);
      this.inBackground = this.syncEvery !== 0 && this.random.chance(0.5);
      await this.open();
      this.faulty = this.random.chance(0.15);
      const faultAt = this.disk.calls + this.random.below(1500);
      const code = this.random.pick(["EIO", "ENOSPC", "EROFS"]);
      const only = this.random.pick(["write", "sync", "open", "truncate", "unlink", "syncFolder"]);
      this.disk.fault = (call) => {
        if (!this.faulty || this.disk.calls < faultAt || call !== only) return;
        if (code === "ENOSPC") this.ranShort = true;
        throw Object.assign(new Error(`${code}: injected in ${call}`), { code });
      };
      if (!this.faulty && this.random.chance(0.2)) this.runShort(this.disk.calls + this.random.below(150));
      if (this.random.chance(0.2))
        this.disk.capacityBytes = this.disk.usedBytes() + this.random.below(60_000);
      for (let i = 0; i < steps && this.storage.failure === undefined; i++) this.step();
      if (this.storage.failure !== undefined && !this.faulty) throw this.storage.failure;
      this.result.migrated += this.storage.tail.recordsMigrated;
      this.disk.fault = () => {};
      this.backup.end();
      await this.backup.check();
      this.end();
    }
    this.result.backups = this.backup.restored;
    await this.open();
    this.storage.close(this.nowMs);
    if (this.disk.openHandles > 0) throw new Error(`${this.disk.openHandles} files were left open`);
  }

  /**
   * Now and then there is no room for a while, be it for what is written over (as where files are
   * copied on write) or for want of descriptors: nothing fails, and the log goes on by itself.
   */
  runShort(firstAt: number): void {
    this.ranShort = true;
    const code = this.random.pick(["ENOSPC", "EDQUOT", "EMFILE"]);
    const calls =
      code === "EMFILE" ? ["open"] : this.random.pick([["write"], ["truncate"], ["write", "truncate"]]);
    let from = firstAt;
    let until = firstAt + 1 + this.random.below(12);
    this.disk.fault = (call) => {
      if (this.disk.calls >= until) {
        from = this.disk.calls + this.random.below(150);
        until = from + 1 + this.random.below(12);
      }
      if (this.disk.calls < from || !calls.includes(call)) return;
      throw Object.assign(new Error(`${code}: short in ${call}`), { code });
    };
  }

  end(): void {
    const how = this.random.below(4);
    if (how === 0 && this.storage.failure === undefined) {
      if (this.storage.room.waiting) this.storage.endWait(this.nowMs);
      this.drain();
      this.storage.close(this.nowMs);
      if (this.disk.openHandles > 0)
        throw new Error(`${this.disk.openHandles} files were left open by close`);
      this.acknowledge(this.storage.failure === undefined);
      // On a full disk, there may be no room for the record that returns lent ids.
      const hasRoom = this.disk.capacityBytes === Number.POSITIVE_INFINITY && !this.storage.room.full;
      const isOrderly = this.storage.failure === undefined && hasRoom;
      this.nextIdAfterEnd = isOrderly ? this.nextId : 0;
    } else this.acknowledge(false);
    this.backlog = [];
    if (how !== 1) this.disk.crash(this.random);
    else this.disk.kill();
    // The next start finds room again: full disks at start are a test of their own.
    this.disk.capacityBytes = Number.POSITIVE_INFINITY;
  }

  /** The highest id that is lent, and the highest one that a client may have seen. */
  lent = 0;
  seen = 0;
  /** The first id after an orderly end without any shortage; 0 for other ends. */
  nextIdAfterEnd = 0;

  /** Notes what had been acknowledged when the process ended. */
  acknowledged = [0, 0, 0];

  acknowledge(all: boolean): void {
    for (let shard = 0; shard < SHARDS; shard++) {
      this.acknowledged[shard] = all ? this.numbers[shard]! : this.storage.tail.synced[shard]!;
    }
  }

  async open(): Promise<void> {
    const random = this.random;
    let opened: OpenedBinlog;
    for (;;) {
      // A start may be interrupted as well.
      const stopAt = random.chance(0.2) ? this.disk.calls + random.below(40) : Number.POSITIVE_INFINITY;
      this.disk.fault = () => {
        if (this.disk.calls >= stopAt) throw Object.assign(new Error("interrupted"), { code: "STOP" });
      };
      try {
        opened = await this.openOnce();
        break;
      } catch (error) {
        const cause = error instanceof BinlogError ? (error.cause as { code?: string } | undefined) : error;
        if ((cause as { code?: string })?.code !== "STOP") throw error;
        this.disk.crash(random);
      }
    }
    this.disk.fault = () => {};
    this.storage = opened.storage;
    const recovered = recoveredTexts(opened, SHARDS);
    const wrong = this.model.settle(recovered, (o) => o.n <= this.acknowledged[o.shard]!);
    if (wrong !== "") throw new Error(`after recovery: ${wrong}`);
    for (const id of this.model.jobs.keys()) {
      if (id > 0 && id >= opened.nextId) throw new Error(`next id is ${opened.nextId}, but job ${id} exists`);
    }
    if (opened.nextId <= this.seen) throw new Error(`id ${this.seen} may have been seen, and is given again`);
    if (this.nextIdAfterEnd > 0 && opened.nextId !== this.nextIdAfterEnd)
      throw new Error(`next id is ${opened.nextId} instead of ${this.nextIdAfterEnd} after an orderly end`);
    this.nextIdAfterEnd = 0;
    this.lent = this.storage.tail.lending.durableUpTo;
    this.result.recoveries++;
    this.numbers = [0, 0, 0];
    this.nextId = Math.max(opened.nextId, 1);
    this.live = new Map();
    for (const [id, text] of this.model.jobs)
      if (id > 0) this.live.set(id, structuredCloneOf(this.everSeen.get(text)!));
  }

  async openOnce(): Promise<OpenedBinlog> {
    return openBinlog({
      disk: this.disk,
      background: this.inBackground ? () => new VirtualBackgroundSync(this.disk, this.random) : undefined,
      shards: SHARDS,
      segmentBytes: SEGMENT_BYTES,
      syncEvery: this.syncEvery,
      salvage: false,
      parallel: false,
      smallSegments: true,
      randomSalt: () => this.random.bits(),
      wallMs: () => this.nowMs,
      clockMs: () => this.nowMs,
      notice: () => {},
      progress: () => {},
      lentIds: LENT_IDS,
    });
  }

  step(): void {
    const random = this.random;
    const burst = random.below(6);
    this.drain();
    for (let i = 0; i < burst && this.backlog.length === 0; i++) this.operations.operate();
    this.lend();
    const waited = this.storage.room.waiting;
    this.storage.flush(this.nowMs);
    this.work();
    if (this.storage.room.waiting && !waited) this.result.waits++;
    this.checkDisk();
    if (this.storage.failure === undefined) this.checkCounts();
    if (this.storage.failure === undefined && !this.storage.room.waiting && this.backlog.length === 0)
      this.checkSync();
    const untilMs = this.nowMs + (random.chance(0.05) ? 200 : random.below(20));
    for (let turns = 0; this.storage.nextDeadline() <= untilMs; turns++) {
      if (turns === 1000) throw new Error("the log turns in vain");
      this.nowMs = Math.max(this.nowMs, this.storage.nextDeadline());
      this.storage.flush(this.nowMs);
      this.work();
      // Under load a driver has no time for more than a slice in between.
      if (this.storage.nextDeadline() === 0 && random.chance(0.7)) break;
    }
    this.nowMs = untilMs;
    if (random.chance(0.1)) {
      for (let i = 0; i < 1000 && this.work(); i++) {}
      this.storage.flush(this.nowMs);
    }
  }

  /** Lends ids as the log's thread does: a loop that found a lend due would never sleep. */
  lend(): void {
    const taken = this.nextId - 1;
    for (let turns = 0; !this.storage.room.waiting && this.storage.lendIsDue(taken); turns++) {
      if (turns === 3) throw new Error(`lends in vain after id ${taken}`);
      this.storage.lendIds(taken);
      this.storage.flush(this.nowMs);
      if (this.storage.failure !== undefined) return;
    }
    if (this.storage.tail.lending.durableUpTo < this.lent)
      throw new Error(`ids up to ${this.lent} are lent no more`);
    this.lent = this.storage.tail.lending.durableUpTo;
    const { full, waiting } = this.storage.room;
    if (!full && !waiting && this.lent < taken) throw new Error(`id ${taken} waits for a lend`);
    this.seen = Math.max(this.seen, Math.min(taken, this.lent));
  }

  /** Returns whether there is more to do. */
  work(): boolean {
    this.backup.ask();
    const worksOn = this.storage.work(this.nowMs);
    this.backup.look();
    return worksOn;
  }

  checkDisk(): void {
    const diskBytes = this.storage.table.fileBytes();
    const { liveBytes } = this.storage.table;
    const excess = diskBytes - (2 * liveBytes + 2 * SEGMENT_BYTES);
    this.result.worstExcessBytes = Math.max(this.result.worstExcessBytes, excess);
    if (
      this.storage.failure === undefined &&
      excess > 0 &&
      this.load !== "burst-and-clear" &&
      !this.ranShort &&
      !this.storage.room.full
    ) {
      throw new Error(`the disk holds ${excess} bytes more than promised (${this.load}, live ${liveBytes})`);
    }
  }

  /** Every record that the log took is counted once; written, unless the log waits for room. */
  checkCounts(): void {
    const { recordsWritten, recordsMigrated } = this.storage.tail;
    const { waiting } = this.storage.room;
    const taken = this.numbers.reduce((sum, n) => sum + n, 0) - this.backlog.length;
    const uncounted = taken - (recordsWritten - recordsMigrated);
    // A record that found no place counts once it has one.
    if (uncounted !== 0 && !(waiting && uncounted === 1))
      throw new Error(`${taken} records were taken, and ${uncounted} of them not counted`);
    if (waiting) return;
    const behind = this.backlog.map(({ shard }) => shard);
    for (let shard = 0; shard < SHARDS; shard++) {
      const last = this.numbers[shard]! - behind.filter((each) => each === shard).length;
      if (this.storage.tail.written[shard]! !== last)
        throw new Error(`record ${last} of shard ${shard} is not written after a flush`);
    }
  }

  checkSync(): void {
    for (let shard = 0; shard < SHARDS; shard++) {
      const synced = this.storage.tail.synced[shard]!;
      if (this.syncEvery === 0 && synced !== this.numbers[shard])
        throw new Error("flush with -f 0 did not sync");
    }
    if (this.syncEvery !== 50) return;
    for (const operation of this.model.operations) {
      const late =
        operation.atMs < this.nowMs - 50 && operation.n > this.storage.tail.synced[operation.shard]!;
      if (late) throw new Error("older than 50 ms and not synced");
    }
  }
}
