// State of a random run of the policies: an engine, and plain lists of its jobs and keys.

import assert from "node:assert/strict";
import { Memory } from "../../../src/base/bytes.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import { backoffMs } from "../../../src/engine/policies/failures.ts";
import type { RecordSink } from "../../../src/engine/state/effects.ts";
import { TubeSettings } from "../../../src/engine/tubes/tube-settings.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { JobCounter } from "../../../src/schema/job.ts";
import { NOTHING_SET, type SettingValues } from "../../../src/schema/setting.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

export const TUBES = ["a", "ab", "b", "dead"];

export const KEYS = ["", "", "k", "l"];

export interface ModelJob {
  id: number;
  tube: string;
  state: "ready" | "delayed" | "reserved" | "buried";
  pri: number;
  bytes: number;
  reserves: number;
  base: number;
  expiresAtMs: number;
  dueAtMs: number;
  key: string;
  hasKey: boolean;
  untilReserve: boolean;
  uniqueUntilMs: number;
  origin: string;
  reason: number;
  moved: boolean;
}

/** A key that no job holds: remembered for a while. */
interface ModelWindow {
  tube: string;
  key: string;
  id: number;
  untilMs: number;
}

/** Contents of the log for each job: its last PUT and UPDATE. */
export interface LoggedJob {
  fixed: Buffer;
  mutable: Buffer;
  tube: string;
  reserves: number;
}

/** The last id of a key that a job has left behind: no job has one like that. */
let leftIds = 1_000_000;

export class NotedLog implements RecordSink {
  readonly jobs = new Map<number, LoggedJob>();
  readonly keys = new Map<number, { fixed: Buffer; tube: string }>();
  engine!: Engine;
  readonly #writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));

  #written(slot: number, what: "writeFixed" | "writeMutable"): Buffer {
    this.#writer.clear();
    this.engine.policies.attributes[what](slot, this.#writer, 0);
    return Buffer.from(this.#writer.bytes.subarray(0, this.#writer.length));
  }

  #id(slot: number): number {
    return this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  #reserves(slot: number): number {
    return this.engine.jobs.pageOf(slot).count(rowOf(slot), JobCounter.reserves);
  }

  roomForPut(): boolean {
    return true;
  }

  fitsOneRecord(): boolean {
    return true;
  }

  replaced(slot: number): void {
    this.put(slot);
  }

  put(slot: number): boolean {
    const fixed = this.#written(slot, "writeFixed");
    const mutable = this.#written(slot, "writeMutable");
    const tube = this.engine.tubeOf(slot).name;
    this.jobs.set(this.#id(slot), { fixed, mutable, tube, reserves: this.#reserves(slot) });
    return true;
  }

  updated(slot: number): void {
    const job = this.jobs.get(this.#id(slot))!;
    job.mutable = this.#written(slot, "writeMutable");
    job.reserves = this.#reserves(slot);
    // An UPDATE without a name leaves the job where its PUT says.
    if (this.engine.policies.attributes.isMoved(slot)) job.tube = this.engine.tubeOf(slot).name;
    else assert.equal(job.tube, this.engine.tubeOf(slot).name, "a job that was moved says so in each UPDATE");
  }

  ended(id: number): void {
    this.deleted(id);
  }

  deleted(id: number): void {
    assert.ok(this.jobs.delete(id) || this.keys.delete(id), `DELETE of job ${id}, which the log knows`);
  }

  left(slot: number): number {
    const fixed = this.#written(slot, "writeFixed");
    this.#writer.clear();
    this.#writer.float64(Attribute.KeyJob, this.#id(slot));
    const keyJob = this.#writer.bytes.subarray(0, this.#writer.length);
    const tube = this.engine.tubeOf(slot).name;
    this.keys.set(++leftIds, { fixed: Buffer.concat([fixed, keyJob]), tube });
    return leftIds;
  }

  remembered(slot: number): void {
    const id = this.#id(slot);
    assert.ok(this.jobs.delete(id));
    this.keys.set(id, { fixed: this.#written(slot, "writeFixed"), tube: this.engine.tubeOf(slot).name });
  }
}

const CLIENT = unheardEffects({ reserved: () => assert.fail("no client waits") });

/** Breaks an engine in one place. */
export type Plant = (engine: Engine) => void;

export class PoliciesState {
  readonly random: SeededRandom;
  readonly settings = new TubeSettings();
  readonly #plant: Plant;
  log = new NotedLog();
  engine: Engine;
  jobs: ModelJob[] = [];
  windows: ModelWindow[] = [];
  nowMs = 1000;
  nextId = 1;
  readonly seen = {
    duplicates: 0,
    full: 0,
    dead: 0,
    expired: 0,
    delayed: 0,
    restarts: 0,
    elsewhere: 0,
    moved: 0,
  };

  constructor(runSeed: number, plant: Plant = () => {}) {
    this.random = new SeededRandom(runSeed);
    this.#plant = plant;
    this.engine = this.newEngine();
  }

  newEngine(): Engine {
    const engine = new Engine({
      effects: CLIENT,
      records: this.log,
      ownsDefaultTube: true,
      ownsTube: (name) => name !== "elsewhere",
    });
    this.log.engine = engine;
    this.#plant(engine);
    engine.use(engine.session(0), "default");
    for (const tube of TUBES) engine.watch(engine.session(0), tube);
    return engine;
  }

  policy(tube: string): Readonly<SettingValues> {
    return this.settings.policyOf(tube) ?? NOTHING_SET;
  }

  due(): void {
    for (;;) {
      const over = this.jobs.filter(
        ({ state, expiresAtMs }) =>
          (state === "ready" || state === "delayed") && expiresAtMs > 0 && expiresAtMs <= this.nowMs,
      );
      if (over.length === 0) break;
      this.#expire(over[0]!);
    }
    this.windows = this.windows.filter(({ untilMs }) => untilMs > this.nowMs);
    for (const job of this.jobs)
      if (job.state === "delayed" && job.dueAtMs <= this.nowMs) job.state = "ready";
    for (const job of this.jobs)
      if (job.state === "reserved" && job.dueAtMs < this.nowMs) this.comeBack(job, 0, job.dueAtMs);
  }

  #expire(job: ModelJob): void {
    this.seen.expired++;
    if (this.policy(job.tube).expire === "bury") this.#markDead(job, 2);
    else this.forget(job);
  }

  forget(job: ModelJob): void {
    this.jobs = this.jobs.filter((one) => one !== job);
    this.giveUpKey(job);
  }

  #markDead(job: ModelJob, reason: number): void {
    this.giveUpKey(job);
    job.expiresAtMs = 0;
    job.reason = reason;
    if (job.origin === "") job.origin = job.tube;
    job.state = "buried";
  }

  /** Its key stays in its tube until its time is over. */
  giveUpKey(job: ModelJob): void {
    if (job.hasKey && job.uniqueUntilMs > this.nowMs)
      this.windows.push({ tube: job.tube, key: job.key, id: job.id, untilMs: job.uniqueUntilMs });
    job.hasKey = false;
  }

  /** A reservation ended. */
  comeBack(job: ModelJob, delayMs: number, _dueAtMs: number): void {
    if (job.expiresAtMs > 0 && job.expiresAtMs <= this.nowMs) {
      this.#expire(job);
      return;
    }
    const policy = this.policy(job.tube);
    const attempts = job.reserves - job.base;
    if (policy.maxAttempts > 0 && attempts >= policy.maxAttempts) {
      this.seen.dead++;
      const goes = policy.deadLetter !== "" && job.origin === "";
      this.#markDead(job, 1);
      if (goes && policy.deadLetter === "elsewhere") this.seen.elsewhere++;
      else if (goes) {
        job.tube = policy.deadLetter;
        job.state = "ready";
        job.moved = true;
      }
      return;
    }
    let waitMs = delayMs;
    if (waitMs === 0 && policy.backoffMs > 0)
      waitMs = backoffMs({ ...policy, sources: new Map() }, job.id, attempts);
    job.state = waitMs > 0 ? "delayed" : "ready";
    job.dueAtMs = this.nowMs + waitMs;
    if (waitMs > 0) this.seen.delayed++;
  }

  isTaken(tube: string, key: string): boolean {
    const has = (one: { tube: string; key: string }): boolean => one.tube === tube && one.key === key;
    return this.jobs.some((job) => job.hasKey && has(job)) || this.windows.some(has);
  }
}
