// Random commands on tubes with policies and jobs with attributes, against a model of plain lists;
// sometimes everything goes through the log and returns.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../src/base/memory.ts";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { JobAttributes } from "../../../src/engine/jobs/job-attributes.ts";
import { ExtraFlag } from "../../../src/engine/jobs/job-extras.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { backoffMs } from "../../../src/engine/policies/attempts.ts";
import { NOTHING_SET, type SettingValues, TubeSettings } from "../../../src/engine/tubes/tube-settings.ts";
import type { ClientEffects, RecordSink } from "../../../src/engine/waiting/effects.ts";
import { MoveOutcome } from "../../../src/engine/walks/tube-moving.ts";
import {
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  KeyState,
} from "../../../src/protocol/job-attribute.ts";
import { checkArenaAtRest, checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";
import { findOf } from "../../support/planted-find.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

const RUNS = 24;
const STEPS = 300;
const TUBES = ["a", "ab", "b", "dead"];
const KEYS = ["", "", "k", "l"];

interface ModelJob {
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

/** A key without a job: remembered for a while. */
interface ModelWindow {
  tube: string;
  key: string;
  id: number;
  untilMs: number;
}

/** What the log knows of each job: what its last PUT and UPDATE say. */
class NotedLog implements RecordSink {
  readonly jobs = new Map<number, { fixed: Buffer; mutable: Buffer; tube: string }>();
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

  roomForPut(): boolean {
    return true;
  }

  put(slot: number): boolean {
    const fixed = this.#written(slot, "writeFixed");
    const mutable = this.#written(slot, "writeMutable");
    this.jobs.set(this.#id(slot), { fixed, mutable, tube: this.engine.tubeOf(slot).name });
    return true;
  }

  updated(slot: number): void {
    const job = this.jobs.get(this.#id(slot))!;
    job.mutable = this.#written(slot, "writeMutable");
    // An UPDATE without a name leaves the job where its PUT says.
    if (this.engine.policies.attributes.isMoved(slot)) job.tube = this.engine.tubeOf(slot).name;
    else assert.equal(job.tube, this.engine.tubeOf(slot).name, "a job that was moved says so in each UPDATE");
  }

  deleted(id: number): void {
    assert.ok(this.jobs.delete(id) || this.keys.delete(id), `DELETE of job ${id}, which the log knows`);
  }

  remembered(slot: number): void {
    const id = this.#id(slot);
    assert.ok(this.jobs.delete(id));
    this.keys.set(id, { fixed: this.#written(slot, "writeFixed"), tube: this.engine.tubeOf(slot).name });
  }
}

const CLIENT: ClientEffects = {
  reserved: () => assert.fail("nobody waits"),
  timedOut() {},
  deadlineSoon() {},
  waitDue() {},
  claim: () => true,
  stillWaiting: () => true,
  nextTubeSequence: () => 1,
};

/** Breaks an engine in one place. */
type Plant = (engine: Engine) => void;

class RandomRun {
  readonly #random: SeededRandom;
  readonly #settings = new TubeSettings();
  readonly #plant: Plant;
  #log = new NotedLog();
  #engine: Engine;
  #jobs: ModelJob[] = [];
  #windows: ModelWindow[] = [];
  #nowMs = 1000;
  #nextId = 1;
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
    this.#random = new SeededRandom(runSeed);
    this.#plant = plant;
    this.#engine = this.#newEngine();
  }

  #newEngine(): Engine {
    const engine = new Engine({
      effects: CLIENT,
      records: this.#log,
      ownsDefaultTube: true,
      ownsTube: (name) => name !== "elsewhere",
    });
    this.#log.engine = engine;
    this.#plant(engine);
    engine.use(engine.session(0), "default");
    for (const tube of TUBES) engine.watch(engine.session(0), tube);
    return engine;
  }

  #policy(tube: string): Readonly<SettingValues> {
    return this.#settings.policyOf(tube) ?? NOTHING_SET;
  }

  step(): void {
    const random = this.#random;
    const wish = random.below(100);
    if (random.chance(0.3)) this.#nowMs += random.pick([1, 50, 400, 1000, 3000])!;
    this.#due();
    this.#engine.runDue(this.#nowMs);
    if (wish < 35) this.#put();
    else if (wish < 60) this.#reserve();
    else if (wish < 72) this.#release();
    else if (wish < 76) this.#bury();
    else if (wish < 82) this.#delete();
    else if (wish < 88) this.#kick();
    else if (wish < 90) this.#close();
    else if (wish < 94) this.#move();
    else if (wish < 97) this.#set();
    else this.#restart();
    this.#engine.runDue(this.#nowMs);
    this.#due();
    this.#compare();
    checkInvariants(this.#engine, [0]);
    checkArenaAtRest(this.#engine);
  }

  // --- the model ---------------------------------------------------------------------------------

  #due(): void {
    for (;;) {
      const over = this.#jobs.filter(
        ({ state, expiresAtMs }) =>
          (state === "ready" || state === "delayed") && expiresAtMs > 0 && expiresAtMs <= this.#nowMs,
      );
      if (over.length === 0) break;
      this.#expire(over[0]!);
    }
    this.#windows = this.#windows.filter(({ untilMs }) => untilMs > this.#nowMs);
    for (const job of this.#jobs)
      if (job.state === "delayed" && job.dueAtMs <= this.#nowMs) job.state = "ready";
    for (const job of this.#jobs)
      if (job.state === "reserved" && job.dueAtMs < this.#nowMs) this.#comeBack(job, 0, job.dueAtMs);
  }

  #expire(job: ModelJob): void {
    this.seen.expired++;
    if (this.#policy(job.tube).expireBuries) this.#markDead(job, 2);
    else this.#forget(job);
  }

  #forget(job: ModelJob): void {
    this.#jobs = this.#jobs.filter((one) => one !== job);
    const lasts = job.uniqueUntilMs > this.#nowMs;
    if (job.hasKey && lasts)
      this.#windows.push({ tube: job.tube, key: job.key, id: job.id, untilMs: job.uniqueUntilMs });
  }

  #markDead(job: ModelJob, reason: number): void {
    this.#giveUpKey(job);
    job.expiresAtMs = 0;
    job.reason = reason;
    if (job.origin === "") job.origin = job.tube;
    job.state = "buried";
  }

  #giveUpKey(job: ModelJob): void {
    job.hasKey = false;
    this.#windows = this.#windows.filter(({ id }) => id !== job.id);
  }

  /** A reservation ended. */
  #comeBack(job: ModelJob, delayMs: number, _dueAtMs: number): void {
    if (job.expiresAtMs > 0 && job.expiresAtMs <= this.#nowMs) {
      this.#expire(job);
      return;
    }
    const policy = this.#policy(job.tube);
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
    job.dueAtMs = this.#nowMs + waitMs;
    if (waitMs > 0) this.seen.delayed++;
  }

  #isTaken(tube: string, key: string): boolean {
    const has = (one: { tube: string; key: string }): boolean => one.tube === tube && one.key === key;
    return this.#jobs.some((job) => job.hasKey && has(job)) || this.#windows.some(has);
  }

  // --- commands ----------------------------------------------------------------------------------

  #put(): void {
    const random = this.#random;
    const [tube, key] = [random.pick(TUBES)!, random.pick(KEYS)!];
    const policy = this.#policy(tube);
    const [bytes, pri, id] = [random.below(50), random.below(3), this.#nextId++];
    const attributes = new JobAttributes();
    const untilReserve = random.chance(0.4);
    const uniqueUntilMs = key !== "" && random.chance(0.5) ? this.#nowMs + random.below(5000) + 1 : 0;
    if (key !== "") {
      attributes.setKey(Buffer.from(key), 0, key.length, untilReserve);
      attributes.uniqueUntilMs = uniqueUntilMs;
    }
    if (random.chance(0.3)) attributes.expiresAtMs = this.#nowMs + 1 + random.below(6000);
    const delaySeconds = random.pick([0, 0, 0, 2])!;
    const isPlain = key === "" && attributes.expiresAtMs === 0;
    const body = this.#engine.bodies.allocate(bytes);
    const outcome = this.#engine.put(
      this.#engine.session(0),
      { id, pri, delaySeconds, delayMillis: 0, ttrSeconds: 2, bodyBytes: bytes, atMs: this.#nowMs },
      body,
      this.#nowMs,
      tube,
      isPlain ? undefined : attributes,
    );
    const inTube = this.#jobs.filter((job) => job.tube === tube);
    const sum = inTube.reduce((total, job) => total + job.bytes, 0);
    let expected: Outcome = Outcome.Done;
    if (key !== "" && this.#isTaken(tube, key)) expected = Outcome.Duplicate;
    else if (inTube.length >= policy.maxJobs || sum + bytes > policy.maxBytes) expected = Outcome.TubeFull;
    assert.equal(outcome, expected, `put of job ${id}`);
    if (outcome === Outcome.Duplicate) this.seen.duplicates++;
    if (outcome === Outcome.TubeFull) this.seen.full++;
    if (outcome !== Outcome.Done) {
      this.#engine.bodies.free(body);
      return;
    }
    const expiresAtMs = attributes.expiresAtMs || (policy.ttlMs > 0 ? this.#nowMs + policy.ttlMs : 0);
    this.#jobs.push({
      ...{ id, tube, pri, bytes, key, untilReserve, uniqueUntilMs, expiresAtMs },
      ...{ reserves: 0, base: 0, origin: "", reason: 0, moved: false, hasKey: key !== "" },
      state: delaySeconds > 0 ? "delayed" : "ready",
      dueAtMs: this.#nowMs + delaySeconds * 1000,
    });
  }

  #reserve(): void {
    const slot = this.#engine.reserve(this.#engine.session(0), 0, this.#nowMs);
    const ready = this.#jobs.filter(({ state }) => state === "ready");
    ready.sort((a, b) => a.pri - b.pri || a.id - b.id);
    const [job] = ready;
    if (job === undefined) {
      assert.ok(slot < 0);
      return;
    }
    const page = this.#engine.jobs.pageOf(slot);
    assert.equal(page.id[rowOf(slot)], job.id, "the best job");
    assert.ok(job.expiresAtMs === 0 || job.expiresAtMs > this.#nowMs, "nobody gets an expired job");
    job.state = "reserved";
    job.reserves++;
    job.dueAtMs = this.#nowMs + 2000;
    if (!job.untilReserve || !job.hasKey) return;
    if (job.uniqueUntilMs > this.#nowMs)
      this.#windows.push({ tube: job.tube, key: job.key, id: job.id, untilMs: job.uniqueUntilMs });
    job.hasKey = false;
  }

  #anyIn(...states: ModelJob["state"][]): ModelJob | undefined {
    return this.#random.pick(this.#jobs.filter(({ state }) => states.includes(state)));
  }

  #release(): void {
    const job = this.#anyIn("reserved");
    if (job === undefined) return;
    const delaySeconds = this.#random.pick([0, 0, 1])!;
    const session = this.#engine.session(0);
    assert.equal(this.#engine.release(session, job.id, job.pri, delaySeconds, this.#nowMs), Outcome.Done);
    this.#comeBack(job, delaySeconds * 1000, 0);
  }

  #bury(): void {
    const job = this.#anyIn("reserved");
    if (job === undefined) return;
    this.#engine.bury(this.#engine.session(0), job.id, job.pri, this.#nowMs);
    job.state = "buried";
  }

  #delete(): void {
    const job = this.#anyIn("ready", "delayed", "buried", "reserved");
    if (job === undefined) return;
    assert.equal(this.#engine.delete(this.#engine.session(0), job.id, this.#nowMs), Outcome.Done);
    this.#forget(job);
  }

  #kick(): void {
    const job = this.#anyIn("buried", "delayed");
    if (job === undefined) return;
    assert.equal(this.#engine.kickJob(job.id, this.#nowMs), Outcome.Done);
    this.#kicked(job);
  }

  #kicked(job: ModelJob): void {
    job.state = "ready";
    const policy = this.#policy(job.tube);
    if ((policy.maxAttempts > 0 || policy.backoffMs > 0) && job.reserves > 0) job.base = job.reserves;
    if (job.reason !== 0 && job.origin === job.tube) {
      job.origin = "";
      job.reason = 0;
      this.#takeKey(job);
    }
  }

  #takeKey(job: ModelJob): void {
    if (job.key === "" || job.hasKey || (job.untilReserve && job.reserves > 0)) return;
    if (this.#windows.some(({ id }) => id === job.id) || this.#isTaken(job.tube, job.key)) return;
    job.hasKey = true;
    job.uniqueUntilMs = 0;
  }

  /** A job goes to another tube, or a dead one to where it died. */
  #move(): void {
    const random = this.#random;
    const job = this.#anyIn("ready", "delayed", "buried");
    if (job === undefined) return;
    const slot = this.#engine.find(job.id);
    const home = this.#engine.originOf(slot);
    assert.equal(home, job.reason !== 0 ? job.origin : "");
    const target = home !== "" && random.chance(0.5) ? home : random.pick(TUBES)!;
    const asReady = random.chance(0.3);
    const outcome = this.#engine.move(slot, target, asReady, this.#nowMs);
    if (target === job.tube) {
      const kicks = asReady && job.state !== "ready";
      assert.equal(outcome, kicks ? MoveOutcome.Moved : MoveOutcome.Stays);
      if (kicks) this.#kicked(job);
      return;
    }
    const inTube = this.#jobs.filter((each) => each.tube === target);
    const sum = inTube.reduce((total, each) => total + each.bytes, 0);
    const policy = this.#policy(target);
    const isFull = inTube.length >= policy.maxJobs || sum + job.bytes > policy.maxBytes;
    assert.equal(outcome, isFull ? MoveOutcome.Full : MoveOutcome.Moved);
    if (isFull) return;
    this.seen.moved++;
    const wasDead = job.reason !== 0;
    this.#giveUpKey(job);
    job.tube = target;
    job.moved = true;
    if (wasDead) Object.assign(job, { reason: 0, origin: "", base: job.reserves });
    if (wasDead || asReady) job.state = "ready";
    this.#takeKey(job);
  }

  /** The connection ends: all that it holds comes back, in the order in which it was reserved. */
  #close(): void {
    const session = this.#engine.session(0);
    const slots: number[] = [];
    const { heldInOrder } = session;
    for (
      let slot = heldInOrder.first;
      slot !== NO_SLOT;
      slot = this.#engine.jobs.pageOf(slot).next[rowOf(slot)]!
    )
      slots.push(this.#engine.jobs.pageOf(slot).id[rowOf(slot)]!);
    this.#engine.closeSession(session, this.#nowMs);
    for (const id of slots) this.#comeBack(this.#jobs.find((job) => job.id === id)!, 0, 0);
    const fresh = this.#engine.session(0);
    this.#engine.use(fresh, "default");
    for (const tube of TUBES) this.#engine.watch(fresh, tube);
  }

  #set(): void {
    const random = this.#random;
    const pattern = random.pick(["a", "a*", "b", "dead", "*"])!;
    const values: Partial<SettingValues> = {};
    if (random.chance(0.4)) values.maxAttempts = 1 + random.below(3);
    if (random.chance(0.6)) values.deadLetter = random.pick(["dead", "elsewhere"])!;
    if (random.chance(0.3)) values.backoffMs = 500;
    if (random.chance(0.3)) values.backoffMaxMs = 900;
    if (random.chance(0.3)) values.ttlMs = 4000;
    if (random.chance(0.3)) values.expireBuries = random.chance(0.6);
    if (random.chance(0.3)) values.maxJobs = 4;
    if (random.chance(0.3)) values.maxBytes = 100;
    this.#settings.set(pattern, values);
    setTubes(this.#engine, pattern, values, this.#nowMs);
  }

  /**
   * Another process reads the log. What it does not know are reservations: jobs of the dead process
   * are ready.
   */
  #restart(): void {
    // After a kill the log hasn't heard of the end of reservations.
    if (this.#random.chance(0.5)) this.#close();
    this.#engine.runDue(this.#nowMs);
    this.#due();
    for (const job of this.#jobs) if (job.state === "reserved") job.state = "ready";
    this.seen.restarts++;
    const [before, log] = [this.#engine, this.#log];
    this.#log = new NotedLog();
    this.#engine = this.#newEngine();
    for (const [pattern, values] of this.#settings.entries())
      setTubes(this.#engine, pattern, values, this.#nowMs);
    for (const [id, { fixed, tube }] of log.keys) {
      this.#engine.policies.keys.restoreRemembered(Buffer.from(tube), id, attributesOf(fixed));
      this.#log.keys.set(id, { fixed, tube });
    }
    for (const [id, kept] of log.jobs) this.#restore(before, id, kept);
    this.#engine.endRestore();
    this.#expectSameKeys();
  }

  /** No key has changed hands, and each is remembered for as long as before. */
  #expectSameKeys(): void {
    const { table } = this.#engine.policies.keys;
    const rowOfKey = (tube: string, key: string): number =>
      table.find({ tube: Buffer.from(tube), bytes: Buffer.from(key), start: 0, end: key.length });
    for (const { id, tube, key, hasKey, uniqueUntilMs } of this.#jobs) {
      assert.equal(this.#keyOf(id), hasKey, `job ${id} has the key that it had, and no other`);
      if (hasKey)
        assert.equal(table.untilOf(rowOfKey(tube, key)), uniqueUntilMs, `how long key ${key} lasts`);
    }
    for (const { tube, key, id, untilMs } of this.#windows) {
      const row = rowOfKey(tube, key);
      assert.ok(row >= 0, `key ${key} of job ${id} is remembered`);
      assert.deepEqual(
        [table.idOf(row), table.untilOf(row)],
        [id, untilMs],
        `who had key ${key}, and until when`,
      );
    }
  }

  #restore(before: Engine, id: number, kept: { fixed: Buffer; mutable: Buffer; tube: string }): void {
    const slot = before.find(id);
    const page = before.jobs.pageOf(slot);
    const row = rowOf(slot);
    const all = Buffer.concat([kept.fixed, kept.mutable]);
    const isHeld = page.state[row] === JobState.Reserved;
    this.#engine.restore(
      {
        ...{ id, tube: kept.tube, pri: page.pri[row]!, delaySeconds: 0, ttrSeconds: 2, file: 0 },
        ...{ bodyBytes: page.bodyBytes[row]!, atMs: page.createdAtMs[row]!, timeouts: 0, releases: 0 },
        ...{ buries: 0, kicks: 0, reserves: page.reserves[row]! },
        state: isHeld ? JobState.Ready : (page.state[row] as JobState),
        deadlineAtMs: isHeld ? this.#nowMs : page.deadlineAtMs[row]!,
      },
      this.#engine.bodies.allocate(page.bodyBytes[row]!),
      all.length === 0 ? undefined : attributesOf(all),
    );
    this.#log.jobs.set(id, kept);
  }

  #keyOf(id: number): boolean {
    const slot = this.#engine.find(id);
    const keyRow = this.#engine.jobs.pageOf(slot).extras?.keyRow[rowOf(slot)] ?? -1;
    return keyRow >= 0 && this.#engine.policies.keys.table.slotOf(keyRow) === slot;
  }

  // --- comparison --------------------------------------------------------------------------------

  #compare(): void {
    const engine = this.#engine;
    const found: string[] = [];
    engine.jobs.forEach((slot) => {
      const page = engine.jobs.pageOf(slot);
      const row = rowOf(slot);
      const { extras } = page;
      const state = ["", "ready", "reserved", "buried", "delayed"][page.state[row]!];
      const id = page.id[row]!;
      const due = page.state[row] === JobState.Delayed ? page.deadlineAtMs[row] : 0;
      const reason = (extras?.flags[row] ?? 0) & ExtraFlag.Reason;
      found.push(
        `${id} ${engine.tubeOf(slot).name} ${state} due ${due} base ${extras?.attemptsBase[row] ?? 0} ` +
          `expires ${extras?.expiresAtMs[row] ?? 0} key ${this.#keyOf(id)} ` +
          `origin ${engine.policies.attributes.originOf(slot)} reason ${reason}`,
      );
    });
    const expected = this.#jobs.map(
      (job) =>
        `${job.id} ${job.tube} ${job.state} due ${job.state === "delayed" ? job.dueAtMs : 0} base ${job.base} ` +
        `expires ${job.expiresAtMs} key ${job.hasKey} origin ${job.origin} reason ${job.reason}`,
    );
    assert.deepEqual(found.sort(), expected.sort());
    assert.equal(engine.policies.keys.table.windows, this.#windows.length, "remembered keys");
    assert.equal(this.#log.jobs.size, this.#jobs.length, "jobs in the log");
  }
}

function attributesOf(list: Buffer): JobAttributes {
  return new JobAttributes().read(list, 0, list.length, 0);
}

function play(run: number, random: RandomRun): void {
  for (let step = 0; step < STEPS; step++) {
    try {
      random.step();
    } catch (error) {
      throw new Error(`run ${run}, step ${step}`, { cause: error });
    }
  }
}

it("the policies match plain lists: deaths, expiry, waits, refusals, returns", (t) => {
  printSeed(t);
  const sum: Record<string, number> = {};
  for (let run = 0; run < RUNS; run++) {
    const random = new RandomRun(seed + run);
    play(run, random);
    for (const [what, count] of Object.entries(random.seen)) sum[what] = (sum[what] ?? 0) + count;
  }
  for (const [what, count] of Object.entries(sum)) assert.ok(count > 4, `${what}: ${count} times`);
});

/** What was done wrong somewhere else, and must be found here. */
const PLANTED: Readonly<Record<string, Plant>> = {
  "a key is kept after its job": ({ policies }) => {
    policies.keys.drop = () => {};
  },
  "a window is lost with its job": ({ policies }) => {
    policies.keys.end = () => false;
  },
  "a key that lasts until the first reservation lasts on": ({ policies }) => {
    policies.keys.reserved = () => {};
  },
  "attempts are not reset at a kick": ({ policies }) => {
    policies.kicked = () => {};
  },
  "a dead job dies once more, and goes in circles": ({ policies }) => {
    const ended = policies.reservationEnded.bind(policies);
    policies.reservationEnded = (slot, tube, delayMs, nowMs) => {
      if (policies.deaths.isDead(slot)) policies.deaths.revive(slot, tube);
      return ended(slot, tube, delayMs, nowMs);
    };
  },
  "an expired job stays": ({ policies }) => {
    Object.defineProperty(policies, "nextAtMs", { value: Number.POSITIVE_INFINITY });
  },
  "a full tube takes one more": ({ policies }) => {
    policies.isFull = ({ policy, jobs }) => policy !== undefined && jobs > policy.maxJobs;
  },
  "a moved job does not say where it is": ({ policies }) => {
    policies.attributes.isMoved = () => false;
  },
  "a job that moves keeps the key of its old tube": ({ policies, store }) => {
    const changeTube = store.changeTube.bind(store);
    store.changeTube = (slot, tube, name) => {
      const dropKey = policies.keys.drop;
      policies.keys.drop = () => {};
      const there = changeTube(slot, tube, name);
      policies.keys.drop = dropKey;
      return there;
    };
  },
  "the log does not say who has a key": ({ policies }) => {
    policies.keys.write = () => {};
  },
  "a reservation that ends a key is not logged": ({ policies }) => {
    const reserved = policies.keys.reserved.bind(policies.keys);
    policies.keys.reserved = (slot, nowMs) => {
      const { write } = policies.keys;
      // As it was before.
      policies.keys.write = (_extras, _row, writer) => writer.uint8(Attribute.Key, KeyState.HeldFor);
      reserved(slot, nowMs);
      policies.keys.write = write;
    };
  },
  "the log does not hear of what changes": ({ policies }) => {
    policies.attributes.writeMutable = () => {};
  },
};

describe("planted bugs are found", () => {
  for (const [what, plant] of Object.entries(PLANTED))
    it(what, () => {
      let found = 0;
      for (let run = 1; run <= RUNS && found === 0; run++) {
        try {
          play(run, new RandomRun(run, plant));
        } catch (error) {
          if (findOf(error) !== "") found = run;
        }
      }
      assert.ok(found > 0, `not found in ${RUNS} runs`);
    });
});
