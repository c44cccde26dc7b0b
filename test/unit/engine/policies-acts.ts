// Acts of a random run of the policies: commands, settings and restarts, on the engine and on plain
// lists.

import assert from "node:assert/strict";
import { type Engine, Outcome } from "../../../src/engine/engine.ts";
import { MoveOutcome } from "../../../src/engine/job-walk.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { fixedCounters } from "../../../src/schema/job.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";
import type { PoliciesComparison } from "./policies-comparison.ts";
import {
  KEYS,
  type LoggedJob,
  type ModelJob,
  NotedLog,
  type PoliciesState,
  TUBES,
} from "./policies-state.ts";

/** Parts of the run that this file uses. */
interface RandomRun extends PoliciesState {
  readonly comparison: PoliciesComparison;
}

export class PoliciesActs {
  readonly #run: RandomRun;

  constructor(run: RandomRun) {
    this.#run = run;
  }

  put(): void {
    const random = this.#run.random;
    const [tube, key] = [random.pick(TUBES)!, random.pick(KEYS)!];
    const policy = this.#run.policy(tube);
    const [bytes, pri, id] = [random.below(50), random.below(3), this.#run.nextId++];
    const attributes = new JobAttributes();
    const untilReserve = random.chance(0.4);
    const uniqueUntilMs = key !== "" && random.chance(0.5) ? this.#run.nowMs + random.below(5000) + 1 : 0;
    if (key !== "") {
      attributes.setKey(Buffer.from(key), 0, key.length, untilReserve);
      attributes.uniqueUntilMs = uniqueUntilMs;
    }
    if (random.chance(0.3)) attributes.expiresAtMs = this.#run.nowMs + 1 + random.below(6000);
    const delaySeconds = random.pick([0, 0, 0, 2])!;
    const isPlain = key === "" && attributes.expiresAtMs === 0;
    const body = this.#run.engine.bodies.allocate(bytes);
    const outcome = this.#run.engine.put(
      this.#run.engine.session(0),
      { id, pri, delaySeconds, delayMillis: 0, ttrSeconds: 2, bodyBytes: bytes, atMs: this.#run.nowMs },
      body,
      this.#run.nowMs,
      tube,
      isPlain ? undefined : attributes,
    );
    const inTube = this.#run.jobs.filter((job) => job.tube === tube);
    const sum = inTube.reduce((total, job) => total + job.bytes, 0);
    let expected: Outcome = Outcome.Done;
    if (key !== "" && this.#run.isTaken(tube, key)) expected = Outcome.Duplicate;
    else if (inTube.length >= policy.maxJobs || sum + bytes > policy.maxBytes) expected = Outcome.TubeFull;
    assert.equal(outcome, expected, `put of job ${id}`);
    if (outcome === Outcome.Duplicate) this.#run.seen.duplicates++;
    if (outcome === Outcome.TubeFull) this.#run.seen.full++;
    if (outcome !== Outcome.Done) {
      this.#run.engine.bodies.free(body);
      return;
    }
    const expiresAtMs = attributes.expiresAtMs || (policy.ttlMs > 0 ? this.#run.nowMs + policy.ttlMs : 0);
    this.#run.jobs.push({
      ...{ id, tube, pri, bytes, key, untilReserve, uniqueUntilMs, expiresAtMs },
      ...{ reserves: 0, base: 0, origin: "", reason: 0, moved: false, hasKey: key !== "" },
      state: delaySeconds > 0 ? "delayed" : "ready",
      dueAtMs: this.#run.nowMs + delaySeconds * 1000,
    });
  }

  reserve(): void {
    const slot = this.#run.engine.reserve(this.#run.engine.session(0), 0, this.#run.nowMs);
    const ready = this.#run.jobs.filter(({ state }) => state === "ready");
    ready.sort((a, b) => a.pri - b.pri || a.id - b.id);
    const [job] = ready;
    if (job === undefined) {
      assert.ok(slot < 0);
      return;
    }
    const page = this.#run.engine.jobs.pageOf(slot);
    assert.equal(page.id[rowOf(slot)], job.id, "the best job");
    assert.ok(job.expiresAtMs === 0 || job.expiresAtMs > this.#run.nowMs, "no client gets an expired job");
    job.state = "reserved";
    job.reserves++;
    job.dueAtMs = this.#run.nowMs + 2000;
    if (job.untilReserve) this.#run.giveUpKey(job);
  }

  #anyIn(...states: ModelJob["state"][]): ModelJob | undefined {
    return this.#run.random.pick(this.#run.jobs.filter(({ state }) => states.includes(state)));
  }

  release(): void {
    const job = this.#anyIn("reserved");
    if (job === undefined) return;
    const delaySeconds = this.#run.random.pick([0, 0, 1])!;
    const session = this.#run.engine.session(0);
    assert.equal(
      this.#run.engine.release(session, job.id, job.pri, delaySeconds, this.#run.nowMs),
      Outcome.Done,
    );
    this.#run.comeBack(job, delaySeconds * 1000, 0);
  }

  bury(): void {
    const job = this.#anyIn("reserved");
    if (job === undefined) return;
    this.#run.engine.bury(this.#run.engine.session(0), job.id, job.pri, this.#run.nowMs);
    job.state = "buried";
  }

  delete(): void {
    const job = this.#anyIn("ready", "delayed", "buried", "reserved");
    if (job === undefined) return;
    assert.equal(this.#run.engine.delete(this.#run.engine.session(0), job.id, this.#run.nowMs), Outcome.Done);
    this.#run.forget(job);
  }

  kick(): void {
    const job = this.#anyIn("buried", "delayed");
    if (job === undefined) return;
    assert.equal(this.#run.engine.kickJob(job.id, this.#run.nowMs), Outcome.Done);
    this.#kicked(job);
  }

  #kicked(job: ModelJob): void {
    job.state = "ready";
    const policy = this.#run.policy(job.tube);
    if ((policy.maxAttempts > 0 || policy.backoffMs > 0) && job.reserves > 0) job.base = job.reserves;
    if (job.reason !== 0 && job.origin === job.tube) {
      job.origin = "";
      job.reason = 0;
      this.#takeKey(job);
    }
  }

  #takeKey(job: ModelJob): void {
    if (job.key === "" || job.hasKey || (job.untilReserve && job.reserves > 0)) return;
    const own = this.#run.windows.find(({ id, tube }) => id === job.id && tube === job.tube);
    this.#run.windows = this.#run.windows.filter((each) => each !== own);
    if (this.#run.isTaken(job.tube, job.key)) return;
    job.hasKey = true;
    job.uniqueUntilMs = own?.untilMs ?? 0;
  }

  /** A job goes to another tube, or a dead one to where it died. */
  move(): void {
    const random = this.#run.random;
    const job = this.#anyIn("ready", "delayed", "buried");
    if (job === undefined) return;
    const slot = this.#run.engine.find(job.id);
    const home = this.#run.engine.changes.originOf(slot);
    assert.equal(home, job.reason !== 0 ? job.origin : "");
    const target = home !== "" && random.chance(0.5) ? home : random.pick(TUBES)!;
    const asReady = random.chance(0.3);
    const outcome = this.#run.engine.changes.move(slot, target, asReady, this.#run.nowMs);
    if (target === job.tube) {
      const kicks = asReady && job.state !== "ready";
      assert.equal(outcome, kicks ? MoveOutcome.Moved : MoveOutcome.Stays);
      if (kicks) this.#kicked(job);
      return;
    }
    const inTube = this.#run.jobs.filter((each) => each.tube === target);
    const sum = inTube.reduce((total, each) => total + each.bytes, 0);
    const policy = this.#run.policy(target);
    const isFull = inTube.length >= policy.maxJobs || sum + job.bytes > policy.maxBytes;
    assert.equal(outcome, isFull ? MoveOutcome.Full : MoveOutcome.Moved);
    if (isFull) return;
    this.#run.seen.moved++;
    const wasDead = job.reason !== 0;
    this.#run.giveUpKey(job);
    job.tube = target;
    job.moved = true;
    if (wasDead) Object.assign(job, { reason: 0, origin: "", base: job.reserves });
    if (wasDead || asReady) job.state = "ready";
    this.#takeKey(job);
  }

  /** The connection ends: all that it holds comes back, in the order in which it was reserved. */
  close(): void {
    const session = this.#run.engine.session(0);
    const slots: number[] = [];
    const { heldInOrder } = session;
    for (
      let slot = heldInOrder.first;
      slot !== NO_SLOT;
      slot = this.#run.engine.jobs.pageOf(slot).next[rowOf(slot)]!
    )
      slots.push(this.#run.engine.jobs.pageOf(slot).id[rowOf(slot)]!);
    this.#run.engine.closeSession(session, this.#run.nowMs);
    for (const id of slots) this.#run.comeBack(this.#run.jobs.find((job) => job.id === id)!, 0, 0);
    const fresh = this.#run.engine.session(0);
    this.#run.engine.use(fresh, "default");
    for (const tube of TUBES) this.#run.engine.watch(fresh, tube);
  }

  set(): void {
    const random = this.#run.random;
    const pattern = random.pick(["a", "a*", "b", "dead", "*"])!;
    const values: Partial<SettingValues> = {};
    if (random.chance(0.4)) values.maxAttempts = 1 + random.below(3);
    if (random.chance(0.6)) values.deadLetter = random.pick(["dead", "elsewhere"])!;
    if (random.chance(0.3)) values.backoffMs = 500;
    if (random.chance(0.3)) values.backoffMaxMs = 900;
    if (random.chance(0.3)) values.ttlMs = 4000;
    if (random.chance(0.3)) values.expire = random.chance(0.6) ? "bury" : "delete";
    if (random.chance(0.3)) values.maxJobs = 4;
    if (random.chance(0.3)) values.maxBytes = 100;
    this.#run.settings.set(pattern, values);
    setTubes(this.#run.engine, pattern, values, this.#run.nowMs);
  }

  /**
   * Another process reads the log. What it does not know are reservations: jobs of the dead process
   * are ready.
   */
  restart(): void {
    // After a kill the log hasn't heard of the end of reservations.
    if (this.#run.random.chance(0.5)) this.close();
    this.#run.engine.runDue(this.#run.nowMs);
    this.#run.due();
    for (const job of this.#run.jobs) {
      if (job.state !== "reserved") continue;
      job.state = "ready";
      // Its reservation was no attempt, whether the log has heard of it or not.
      const attempts = job.reserves - job.base - 1;
      job.reserves = this.#run.log.jobs.get(job.id)!.reserves;
      job.base = job.reserves - attempts;
    }
    this.#run.seen.restarts++;
    const [before, log] = [this.#run.engine, this.#run.log];
    this.#run.log = new NotedLog();
    this.#run.engine = this.#run.newEngine();
    for (const [pattern, values] of this.#run.settings.entries())
      setTubes(this.#run.engine, pattern, values, this.#run.nowMs);
    for (const [id, { fixed, tube }] of log.keys) {
      this.#run.engine.policies.keys.restoreRemembered(Buffer.from(tube), id, attributesOf(fixed));
      this.#run.log.keys.set(id, { fixed, tube });
    }
    for (const [id, kept] of log.jobs) this.#restore(before, id, kept);
    this.#run.engine.endRestore();
    this.#run.comparison.expectSameKeys();
  }

  #restore(before: Engine, id: number, kept: LoggedJob): void {
    const slot = before.find(id);
    const page = before.jobs.pageOf(slot);
    const row = rowOf(slot);
    const all = Buffer.concat([kept.fixed, kept.mutable]);
    const isHeld = page.state[row] === JobState.Reserved;
    this.#run.engine.restore(
      {
        ...{ id, tube: kept.tube, pri: page.pri[row]!, delaySeconds: 0, ttrSeconds: 2, file: 0 },
        ...{ bodyBytes: page.bodyBytes[row]!, atMs: page.createdAtMs[row]! },
        counters: fixedCounters({ reserves: kept.reserves }),
        state: isHeld ? JobState.Ready : (page.state[row] as JobState),
        deadlineAtMs: isHeld ? this.#run.nowMs : page.deadlineAtMs[row]!,
      },
      this.#run.engine.bodies.allocate(page.bodyBytes[row]!),
      all.length === 0 ? undefined : attributesOf(all),
    );
    this.#run.log.jobs.set(id, kept);
  }
}

function attributesOf(list: Buffer): JobAttributes {
  return new JobAttributes().read(list, 0, list.length, 0);
}
