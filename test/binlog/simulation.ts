// Simulated life of a binlog from a seed: load on a virtual disk, with crashes, kills, faults and
// full disks.

import { Memory } from "../../src/base/memory.ts";
import { BinlogError } from "../../src/binlog/disk/binlog-error.ts";
import type { Storage } from "../../src/binlog/live/storage.ts";
import type { SyncEvery } from "../../src/binlog/live/sync-policy.ts";
import { type OpenedBinlog, openBinlog } from "../../src/binlog/open-binlog.ts";
import {
  emptyRecordFields,
  encodeDelete,
  encodeLongUpdate,
  encodePieceHead,
  encodePutHead,
  encodeSetting,
  encodeUpdate,
  type RecordFields,
  RecordState,
} from "../../src/message/record.ts";
import { Attribute, AttributeWriter } from "../../src/protocol/job-attribute.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { jobText, Model, PATTERNS, recoveredTexts, settingId } from "./model.ts";
import { VirtualDisk } from "./virtual-disk.ts";

export interface SimulationResult {
  operations: number;
  recoveries: number;
  migrated: number;
  /** How often the log had to wait for room. */
  waits: number;
  /** The most that the disk held beyond what was promised, in bytes; negative: never reached. */
  worstExcessBytes: number;
}

type Load = "mixed" | "queue" | "buried" | "delayed-loop" | "kick-bury" | "burst-and-clear";
const LOADS: readonly Load[] = ["mixed", "queue", "buried", "delayed-loop", "kick-bury", "burst-and-clear"];

const SHARDS = 3;
const SEGMENT_BYTES = 32768;
const TUBES = ["default", "mail", "a-much-longer-tube-name-for-a-change", "0.5"];

interface SimulatedJob {
  fields: RecordFields;
  tube: string;
  body: string;
  /** Attributes that never change, and those that do, without padding. */
  fixed: Buffer;
  changing: Buffer;
  moved: boolean;
}

/** `parts` one after the other, padded as a record wants it. */
function padded(...parts: Buffer[]): Buffer {
  const together = Buffer.concat(parts);
  return Buffer.concat([together, Buffer.alloc((4 - (together.length % 4)) % 4)]);
}

function textOf({ fields, tube, body, fixed, changing }: SimulatedJob): string {
  return jobText(fields, tube, body, padded(fixed, changing).toString("hex"));
}

/** Runs one seed; throws an Error that says what was broken. */
export async function simulate(seed: number, steps = 400): Promise<SimulationResult> {
  const life = new Life(seed);
  await life.run(steps);
  return life.result;
}

class Life {
  readonly random: SeededRandom;
  readonly disk = new VirtualDisk();
  readonly model = new Model();
  readonly result: SimulationResult = {
    operations: 0,
    recoveries: 0,
    migrated: 0,
    waits: 0,
    worstExcessBytes: -1e9,
  };
  readonly scratch = Memory.ofSize(4096);
  /** Live jobs as the shards see them. */
  live = new Map<number, SimulatedJob>();
  numbers = [0, 0, 0];
  nextId = 1;
  burySequence = 1;
  nowMs = 0;
  storage!: Storage;
  syncEvery: SyncEvery = 0;
  load: Load = "mixed";
  bounded = false;
  faulty = false;
  /** Compaction may have had to wait, so the disk may hold more than promised. */
  ranShort = false;
  /** What waits for the log, as in the ring of a shard. */
  backlog: { shard: number; n: number; bytes: Uint8Array }[] = [];

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
  }

  async run(steps: number): Promise<void> {
    const rounds = 1 + this.random.below(5);
    for (let round = 0; round < rounds; round++) {
      this.load = this.random.pick(LOADS)!;
      this.syncEvery = this.random.pick<SyncEvery>([0, 0, 50, "never"]);
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
      this.result.migrated += this.storage.recordsMigrated;
      this.disk.fault = () => {};
      this.end();
    }
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
      if (this.storage.waiting) this.storage.endWait(this.nowMs);
      this.drain();
      this.storage.close(this.nowMs);
      if (this.disk.openHandles > 0)
        throw new Error(`${this.disk.openHandles} files were left open by close`);
      this.acknowledge(this.storage.failure === undefined);
    } else this.acknowledge(false);
    this.backlog = [];
    if (how !== 1) this.disk.crash(this.random);
    else this.disk.kill();
    // The next start finds room again: full disks at start are a test of their own.
    this.disk.capacityBytes = Number.POSITIVE_INFINITY;
  }

  /** Notes what had been acknowledged when the process ended. */
  acknowledged = [0, 0, 0];
  acknowledge(all: boolean): void {
    for (let shard = 0; shard < SHARDS; shard++) {
      this.acknowledged[shard] = all ? this.numbers[shard]! : this.storage.syncedUpTo(shard);
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
    this.result.recoveries++;
    this.numbers = [0, 0, 0];
    this.nextId = Math.max(opened.nextId, 1);
    this.live = new Map();
    for (const [id, text] of this.model.jobs)
      if (id > 0) this.live.set(id, structuredCloneOf(this.everSeen.get(text)!));
  }

  /** Every state that a job ever had, by its text. */
  readonly everSeen = new Map<string, SimulatedJob>();

  async openOnce(): Promise<OpenedBinlog> {
    return openBinlog({
      disk: this.disk,
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
    });
  }

  step(): void {
    const random = this.random;
    const burst = random.below(6);
    this.drain();
    for (let i = 0; i < burst && this.backlog.length === 0; i++) this.operate();
    const waited = this.storage.waiting;
    this.storage.flush(this.nowMs);
    this.storage.work(this.nowMs);
    if (this.storage.waiting && !waited) this.result.waits++;
    this.checkDisk();
    if (this.storage.failure === undefined && !this.storage.waiting && this.backlog.length === 0)
      this.checkSync();
    const untilMs = this.nowMs + (random.chance(0.05) ? 200 : random.below(20));
    for (let turns = 0; this.storage.nextDeadline() <= untilMs && turns < 1000; turns++) {
      this.nowMs = Math.max(this.nowMs, this.storage.nextDeadline());
      this.storage.flush(this.nowMs);
      this.storage.work(this.nowMs);
      // Under load a driver has no time for more than a slice in between.
      if (this.storage.nextDeadline() === 0 && random.chance(0.7)) break;
    }
    this.nowMs = untilMs;
    if (random.chance(0.1)) {
      for (let i = 0; i < 1000 && this.storage.work(this.nowMs); i++) {}
      this.storage.flush(this.nowMs);
    }
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
      !this.storage.full
    ) {
      throw new Error(`the disk holds ${excess} bytes more than promised (${this.load}, live ${liveBytes})`);
    }
  }

  checkSync(): void {
    for (let shard = 0; shard < SHARDS; shard++) {
      const synced = this.storage.syncedUpTo(shard);
      if (this.syncEvery === 0 && synced !== this.numbers[shard])
        throw new Error("flush with -f 0 did not sync");
    }
    if (this.syncEvery !== 50) return;
    for (const operation of this.model.operations) {
      const late = operation.atMs < this.nowMs - 50 && operation.n > this.storage.syncedUpTo(operation.shard);
      if (late) throw new Error("older than 50 ms and not synced");
    }
  }

  /** One operation of a shard on a job. */
  operate(): void {
    const random = this.random;
    const ids = [...this.live.keys()];
    const wish = random.below(100);
    switch (this.load) {
      case "mixed":
        if (ids.length === 0 || (wish < 40 && ids.length < 60)) this.put();
        else if (wish < 75) this.update(random.pick(ids)!);
        else this.delete(random.pick(ids)!);
        return;
      case "queue":
        if (ids.length < 5 + random.below(10)) this.put();
        else this.delete(ids[0]!);
        return;
      case "buried":
        if (ids.length < 3) this.put();
        else if (ids.length > 8) this.delete(ids[2 + random.below(2)]!);
        else this.put();
        return;
      case "delayed-loop":
        if (ids.length < 2) this.put();
        else this.update(ids[0]!);
        return;
      case "kick-bury":
        if (ids.length < 12) this.put();
        else this.update(random.pick(ids)!);
        return;
      case "burst-and-clear":
        if (this.clearing) {
          if (ids.length === 0) this.clearing = false;
          else this.delete(ids.at(-1)!);
        } else {
          this.put();
          if (ids.length > 150) this.clearing = true;
        }
    }
  }

  clearing = false;

  append(shard: number, length: number): number {
    const n = ++this.numbers[shard]!;
    if (this.storage.waiting) this.backlog.push({ shard, n, bytes: this.scratch.bytes.slice(0, length) });
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
    while (this.backlog.length > 0 && !this.storage.waiting) {
      const { shard, n, bytes } = this.backlog.shift()!;
      this.storage.append(shard, n, bytes, 0, bytes.length);
      for (const one of this.model.operations) if (one.shard === shard && one.n === n) one.atMs = this.nowMs;
    }
  }

  record(shard: number, n: number, id: number, job: string | undefined): void {
    this.model.operations.push({ shard, n, id, job, atMs: this.nowMs });
  }

  put(): void {
    const random = this.random;
    if (this.storage.full) return;
    if (random.chance(0.05)) {
      this.set();
      return;
    }
    const id = this.nextId++;
    const tube = random.pick(TUBES)!;
    const body = String.fromCharCode(97 + random.below(26)).repeat(
      random.chance(0.1) ? 0 : random.below(400),
    );
    const fields: RecordFields = {
      ...emptyRecordFields(),
      id,
      pri: random.below(5),
      state: random.chance(0.2) ? RecordState.delayed : RecordState.ready,
      delaySeconds: random.below(9),
      ttrSeconds: 1 + random.below(99),
      createdAtMs: this.nowMs + 0.25,
      deadlineAtMs: random.below(1_000_000),
    };
    const fixed = random.chance(0.3) ? this.drawnFixed() : Buffer.alloc(0);
    const changing = random.chance(0.2) ? this.drawnChanging(false) : Buffer.alloc(0);
    const job: SimulatedJob = { fields, tube, body, fixed, changing, moved: false };
    if (this.putRecords(job)) this.settle(job);
  }

  /** Appends a job, in one record or in pieces; false if it was given up in the middle. */
  putRecords({ fields, tube, body, fixed, changing }: SimulatedJob): boolean {
    const random = this.random;
    const { id } = fields;
    const shard = tube.charCodeAt(0) % SHARDS;
    const bytes = Buffer.from(body, "latin1");
    const name = Buffer.from(tube, "latin1");
    const pieces = body.length > 40 && random.chance(0.2) ? 1 + random.below(3) : 0;
    const inline = pieces === 0 ? body.length : Math.floor(body.length / (pieces + 1));
    const attributes = padded(fixed, changing);
    const bodyAt = encodePutHead(this.scratch, 0, fields, name, body.length, attributes);
    let n = this.appendWith(shard, bytes.subarray(0, inline), bodyAt);
    for (let done = inline; done < body.length; ) {
      const length = Math.min(body.length - done, Math.max(1, inline));
      this.record(shard, n, id, undefined);
      if (random.chance(0.05)) {
        this.giveUp(shard, id);
        return false;
      }
      const partAt = encodePieceHead(this.scratch.view, 0, id, done);
      n = this.appendWith(shard, bytes.subarray(done, done + length), partAt);
      done += length;
    }
    this.lastN = n;
    return true;
  }

  /** Number of the last record of a put. */
  lastN = 0;

  /** The last record made the job what it is. */
  settle(job: SimulatedJob): void {
    const shard = job.tube.charCodeAt(0) % SHARDS;
    const text = textOf(job);
    this.record(shard, this.lastN, job.fields.id, text);
    this.live.set(job.fields.id, job);
    this.everSeen.set(text, structuredCloneOf(job));
  }

  drawnFixed(): Buffer {
    const writer = new AttributeWriter(Memory.ofSize(1020));
    const key = Buffer.from("k".repeat(1 + this.random.below(60)));
    writer.text(Attribute.UniqueKey, key, 0, key.length);
    if (this.random.chance(0.5)) writer.float64(Attribute.UniqueUntil, this.random.below(1_000_000));
    if (this.random.chance(0.3)) writer.uint16(Attribute.Weight, 1 + this.random.below(1000));
    return Buffer.from(writer.bytes.subarray(0, writer.length));
  }

  drawnChanging(moved: boolean): Buffer {
    const writer = new AttributeWriter(Memory.ofSize(1020));
    if (moved) writer.flag(Attribute.Moved);
    if (this.random.chance(0.6)) writer.float64(Attribute.ExpiresAt, this.random.below(1_000_000));
    if (this.random.chance(0.4)) writer.uint32(Attribute.AttemptsBase, this.random.below(50));
    if (this.random.chance(0.2)) {
      const origin = Buffer.from(this.random.pick(TUBES)!);
      writer.text(Attribute.Origin, origin, 0, origin.length);
      writer.uint8(Attribute.Reason, 1);
    }
    return Buffer.from(writer.bytes.subarray(0, writer.length));
  }

  /** Sets something for a pattern, or nothing any more. */
  set(): void {
    const pattern = this.random.pick(PATTERNS)!;
    const text = this.random.chance(0.3) ? "" : `max-jobs=${this.random.below(1000)}`;
    const shard = this.random.below(SHARDS);
    const bytes = encodeSetting(this.scratch, 0, Buffer.from(pattern), Buffer.from(text));
    this.record(shard, this.append(shard, bytes), settingId(pattern), text === "" ? undefined : text);
  }

  /** A put whose client went away in the middle of the body. */
  giveUp(shard: number, id: number): void {
    this.record(shard, this.append(shard, encodeDelete(this.scratch.view, 0, id)), id, undefined);
  }

  update(id: number): void {
    const random = this.random;
    const job = this.live.get(id)!;
    const f = job.fields;
    if (f.state === RecordState.remembered) {
      this.delete(id);
      return;
    }
    f.state = random.pick([RecordState.ready, RecordState.delayed, RecordState.buried]);
    f.pri = random.below(5);
    f.releases += random.below(2);
    f.kicks += random.below(2);
    f.timeouts += random.below(2);
    f.buries += f.state === RecordState.buried ? 1 : 0;
    f.burySequence = f.state === RecordState.buried ? this.burySequence++ : 0;
    f.deadlineAtMs = random.below(1_000_000);
    f.delaySeconds = random.below(100);
    if (random.chance(0.1)) {
      // To another shard, maybe: its record stands behind all that the first one has written of the
      // job.
      job.tube = random.pick(TUBES)!;
      job.moved = true;
    }
    if (job.moved || random.chance(0.2)) job.changing = this.drawnChanging(job.moved);
    this.lastN = this.append(job.tube.charCodeAt(0) % SHARDS, this.encodedUpdate(job));
    this.settle(job);
  }

  encodedUpdate({ fields, tube, changing, moved }: SimulatedJob): number {
    if (!moved && changing.length === 0) return encodeUpdate(this.scratch.view, 0, fields);
    const name = Buffer.from(moved ? tube : "");
    return encodeLongUpdate(this.scratch, 0, fields, name, padded(changing));
  }

  delete(id: number): void {
    const job = this.live.get(id)!;
    const shard = job.tube.charCodeAt(0) % SHARDS;
    if (job.fixed.length > 0 && job.fields.state !== RecordState.remembered && !this.storage.full) {
      this.remember(job);
      return;
    }
    this.live.delete(id);
    this.record(shard, this.append(shard, encodeDelete(this.scratch.view, 0, id)), id, undefined);
  }

  /** The job is gone, its key is kept. */
  remember(job: SimulatedJob): void {
    job.fields.state = RecordState.remembered;
    job.body = "";
    job.changing = Buffer.alloc(0);
    this.putRecords(job);
    this.settle(job);
  }
}

function structuredCloneOf(job: SimulatedJob): SimulatedJob {
  return { ...job, fields: { ...job.fields } };
}
