// Random commands on tubes with groups and limits: no limit is exceeded, no client waits in vain,
// and the engine's counts agree.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { type Session, Waiting } from "../../../src/engine/state/session.ts";
import { Attribute } from "../../../src/protocol/job-attribute.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { checkArenaAtRest, checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { inWhole } from "../../support/whole.ts";

const RUNS = inWhole(15, 8);
const STEPS = 250;
const SESSIONS = 4;
const TUBES = ["a", "b"] as const;
const GROUPS = ["", "x", "y", "z"] as const;

type Limits = Pick<SettingValues, "maxReserved" | "groupMaxReserved" | "rate" | "burst">;
const NO_LIMITS: Limits = {
  maxReserved: Number.POSITIVE_INFINITY,
  groupMaxReserved: Number.POSITIVE_INFINITY,
  rate: "",
  burst: 1,
};

class LimitersRun {
  readonly #random: SeededRandom;
  readonly #engine: Engine;
  readonly #sessions: Session[];
  #nowMs = 1000;
  #lastId = 0;
  readonly #groupOf = new Map<number, string>();
  readonly #limits = new Map<string, Limits>(TUBES.map((tube) => [tube, NO_LIMITS]));
  /** Times at which jobs of a tube were given since its limits were set last. */
  readonly #givenAtMs = new Map<string, number[]>(TUBES.map((tube) => [tube, []]));
  given = 0;

  constructor(random: SeededRandom) {
    this.#random = random;
    const effects = unheardEffects({ reserved: (_session, slot) => this.#gave(slot) });
    this.#engine = new Engine({ effects, ownsDefaultTube: true });
    this.#sessions = Array.from({ length: SESSIONS }, (_, index) => this.#engine.session(index));
    for (const session of this.#sessions) for (const tube of TUBES) this.#engine.watch(session, tube);
  }

  /** A job was given, which limits must have permitted. */
  #gave(slot: number): void {
    this.given++;
    const { name } = this.#engine.tubeOf(slot);
    const limits = this.#limits.get(name)!;
    const times = this.#givenAtMs.get(name)!;
    times.push(this.#nowMs);
    assert.ok(this.#reserved(name).length <= limits.maxReserved, `${name}: as many as may be out`);
    const id = this.#engine.jobs.pageOf(slot).id[rowOf(slot)]!;
    const group = this.#groupOf.get(id)!;
    const out = this.#reserved(name).filter((each) => this.#groupOf.get(each) === group);
    if (group !== "")
      assert.ok(out.length <= limits.groupMaxReserved, `${name}: as many of ${group} as may be out`);
    if (limits.rate === "") return;
    const [jobs, seconds] = limits.rate.split("/").map(Number);
    const perMs = jobs! / (seconds! * 1000);
    for (let first = 0; first < times.length; first++) {
      const most = limits.burst + perMs * (this.#nowMs - times[first]!) + 1e-6;
      assert.ok(
        times.length - first <= most,
        `${name}: ${times.length - first} in ${this.#nowMs - times[first]!} ms`,
      );
    }
  }

  /** Ids of a tube's reserved jobs. */
  #reserved(tube: string): number[] {
    const ids: number[] = [];
    this.#engine.jobs.forEach((slot) => {
      const page = this.#engine.jobs.pageOf(slot);
      if (page.state[rowOf(slot)] === JobState.Reserved && this.#engine.tubeOf(slot).name === tube)
        ids.push(page.id[rowOf(slot)]!);
    });
    return ids;
  }

  // --- steps -------------------------------------------------------------------------------------

  step(): void {
    const kinds = { put: 8, reserve: 7, end: 7, set: 0.5, time: 3, pause: 0.3, kick: 1, close: 0.3 };
    const kind = this.#random.weighted(kinds);
    if (kind === "put") this.#put();
    else if (kind === "reserve") this.#reserve();
    else if (kind === "end") this.#end();
    else if (kind === "set") this.#set();
    else if (kind === "pause")
      this.#engine.pause(this.#random.pick(TUBES), this.#random.pick([0, 1]), this.#nowMs);
    else if (kind === "kick") this.#kick();
    else if (kind === "close") this.#close();
    else {
      this.#nowMs += this.#random.pick([1, 10, 100, 1500]);
      this.#engine.runDue(this.#nowMs);
    }
  }

  check(): void {
    checkInvariants(this.#engine, this.#sessions.keys());
    checkArenaAtRest(this.#engine);
  }

  #put(): void {
    const random = this.#random;
    const group = random.pick(GROUPS);
    const attributes = new JobAttributes();
    if (group !== "") {
      const bytes = asciiBytes(group);
      attributes.fixed.text(Attribute.Group, bytes, 0, bytes.length);
      if (random.chance(0.3)) attributes.fixed.uint16(Attribute.Weight, random.between(1, 3));
    }
    const id = ++this.#lastId;
    this.#groupOf.set(id, group);
    const job = {
      id,
      pri: random.pick([0, 0, 1]),
      delaySeconds: random.pick([0, 0, 0, 1]),
      delayMillis: 0,
      ttrSeconds: random.between(1, 3),
      bodyBytes: 0,
      atMs: this.#nowMs,
    };
    const tube = random.pick(TUBES);
    const given = group === "" ? undefined : attributes;
    assert.equal(
      this.#engine.put(this.#sessions[0]!, job, EMPTY_BODY, this.#nowMs, tube, given),
      Outcome.Done,
    );
  }

  #reserve(): void {
    const session = this.#random.pick(this.#sessions)!;
    if (session.waiting !== Waiting.No) return;
    const slot = this.#engine.reserve(session, this.#random.pick([0, 500, 5000]), this.#nowMs);
    if (slot >= 0) this.#gave(slot);
  }

  #end(): void {
    const random = this.#random;
    const session = random.pick(this.#sessions)!;
    const held = session.held.top;
    if (held < 0) return;
    const id = this.#engine.jobs.pageOf(held).id[rowOf(held)]!;
    const how = random.pick(["delete", "release", "delay", "bury"]);
    if (how === "delete") this.#engine.delete(session, id, this.#nowMs);
    else if (how === "bury") this.#engine.bury(session, id, 0, this.#nowMs);
    else this.#engine.release(session, id, 0, how === "delay" ? 1 : 0, this.#nowMs);
  }

  #set(): void {
    const random = this.#random;
    const tube = random.pick(TUBES);
    const values: Partial<SettingValues> = {};
    if (random.chance(0.5)) values.maxReserved = random.between(1, 4);
    if (random.chance(0.5)) values.groupMaxReserved = random.between(1, 2);
    if (random.chance(0.4))
      [values.rate, values.burst] = [random.pick(["1/1", "10/1", "5/60"]), random.between(1, 3)];
    this.#givenAtMs.set(tube, []);
    // Jobs that are out stay out, so look again only when fewer are out than allowed.
    const limits = { ...NO_LIMITS, ...values };
    limits.maxReserved += this.#reserved(tube).length;
    limits.groupMaxReserved += this.#reserved(tube).length;
    this.#limits.set(tube, limits);
    setTubes(this.#engine, tube, values, this.#nowMs);
    this.check();
    if (this.#reserved(tube).length === 0) this.#limits.set(tube, { ...NO_LIMITS, ...values });
  }

  #kick(): void {
    this.#engine.jobs.forEach((slot) => {
      const page = this.#engine.jobs.pageOf(slot);
      if (page.state[rowOf(slot)] === JobState.Buried && this.#random.chance(0.5))
        this.#engine.kickJob(page.id[rowOf(slot)]!, this.#nowMs);
    });
  }

  #close(): void {
    const index = this.#random.between(0, SESSIONS - 1);
    this.#engine.closeSession(this.#sessions[index]!, this.#nowMs);
    const fresh = this.#engine.session(index);
    this.#sessions[index] = fresh;
    for (const tube of TUBES) this.#engine.watch(fresh, tube);
  }
}

it("limits of tubes and groups hold, and no waiter misses a job", (t) => {
  printSeed(t);
  let given = 0;
  for (let run = 0; run < RUNS; run++) {
    const limiters = new LimitersRun(new SeededRandom(seed + run));
    for (let step = 0; step < STEPS; step++) {
      try {
        limiters.step();
        limiters.check();
      } catch (error) {
        throw new Error(`seed ${seed + run}, step ${step}: ${(error as Error).message}`, { cause: error });
      }
    }
    given += limiters.given;
  }
  assert.ok(given > RUNS * 20, `${given} jobs were given`);
});
