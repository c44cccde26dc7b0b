// Random commands on one engine, each followed by the naive model and by a check of every
// invariant.

import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { Engine } from "../../../src/engine/engine.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import { Model } from "../../simulation/model/model.ts";
import { NOBODY } from "../../simulation/witness/command-sink.ts";
import type { EffectsHost } from "../../simulation/witness/engine-calls.ts";
import { EngineWitness } from "../../simulation/witness/engine-witness.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { inWhole } from "../../support/whole.ts";

const RUNS = inWhole(40, 12);
const STEPS = 400;
const SESSIONS = 6;
/** Sessions that wait before all others, for tubes of their own, in a run with a crowd. */
const CROWD = 20;
const TUBES = ["default", "a", "b", ...Array.from({ length: 10 }, (_, i) => `wide-${i}`)];

class RandomRun {
  readonly #random: SeededRandom;
  readonly #model = new Model(1);
  readonly #engine: Engine;
  readonly #witness: EngineWitness;
  #nowMs = 0;
  #nextId = 1;
  #nextWait = 1;

  constructor(runSeed: number) {
    this.#random = new SeededRandom(runSeed);
    let sequence = 0;
    const host: EffectsHost & { nextTubeSequence(): number } = {
      reserved() {},
      timedOut() {},
      deadlineSoon() {},
      waitDue() {},
      claim: (session) => this.#isOpen(session),
      stillWaiting: (session) => this.#isOpen(session),
      nextTubeSequence: () => ++sequence,
    };
    this.#engine = new Engine({ effects: host, ownsDefaultTube: true });
    this.#witness = new EngineWitness(this.#engine, host, 0, this.#model, NOBODY);
    for (let index = 0; index < SESSIONS; index++) {
      const session = this.#engine.session(index);
      this.#engine.use(session, "default");
      this.#engine.watch(session, "default");
    }
  }

  /** Has many sessions with many tubes wait for what never comes. */
  admitCrowd(): void {
    for (let index = SESSIONS; index < SESSIONS + CROWD; index++) {
      const session = this.#engine.session(index);
      for (let tube = 0; tube < 9; tube++) this.#engine.watch(session, `crowd-${tube}`);
      this.#engine.reserve(session, Number.POSITIVE_INFINITY, this.#nowMs);
    }
  }

  /** Has the other sessions watch many tubes, too. */
  watchAll(): void {
    for (let index = 0; index < SESSIONS; index++)
      for (const tube of TUBES) this.#engine.watch(this.#engine.session(index), tube);
  }

  #isOpen(session: Session): boolean {
    return this.#model.connections.session(session.index).openWait !== 0;
  }

  step(): void {
    const random = this.#random;
    const session = this.#engine.session(random.between(0, SESSIONS - 1));
    if (random.chance(0.2)) this.#nowMs += random.pick([0.5, 100, 1000, 1000, 2500]);
    const client = this.#model.connections.session(session.index);
    const wait = this.#model.waiting.waitOf(client, 0);
    if (wait === undefined) this.#command(session);
    else if (wait.number !== undefined && random.chance(0.5)) this.#endShared(session);
    else if (random.chance(0.05)) this.#reopen(session);
    else this.#engine.runDue(this.#nowMs);
    this.#witness.check();
  }

  /** Its acceptor ends the wait, or another shard has. */
  #endShared(session: Session): void {
    const client = this.#model.connections.session(session.index);
    client.openWait = 0;
    // In between the shard may want to give it a job, and must not.
    if (this.#random.chance(0.5)) this.#put(this.#engine.session(this.#random.between(0, SESSIONS - 1)));
    this.#engine.stopSharedWait(session, this.#nowMs);
  }

  #reopen(session: Session): void {
    this.#model.connections.session(session.index).openWait = 0;
    this.#engine.closeSession(session, this.#nowMs);
    const fresh = this.#engine.session(session.index);
    this.#engine.use(fresh, this.#random.pick(TUBES)!);
    this.#engine.watch(fresh, this.#random.pick(TUBES)!);
  }

  #put(session: Session): void {
    const random = this.#random;
    const pri = random.pick([0, 1, 1023, 1024, 4294967295]);
    const bytes = random.between(0, 40);
    const body = this.#engine.bodies.allocate(bytes);
    this.#engine.bodies.write(body, 0, new Uint8Array(bytes).fill(this.#nextId & 0xff), 0, bytes);
    const delaySeconds = random.pick([0, 0, 1, 2]);
    const ttrSeconds = random.between(1, 3);
    const [id, nowMs] = [this.#nextId++, this.#nowMs];
    this.#engine.put(
      session,
      { id, pri, delaySeconds, delayMillis: 0, ttrSeconds, bodyBytes: bytes, atMs: nowMs },
      body,
      nowMs,
    );
  }

  #id(session: Session): number {
    const jobs = [...this.#model.jobs.values()];
    const held = jobs.filter((job) => job.holder?.index === session.index);
    return (this.#random.chance(0.7) ? this.#random.pick(held) : this.#random.pick(jobs))?.id ?? 12345;
  }

  #command(session: Session): void {
    const random = this.#random;
    const engine = this.#engine;
    const nowMs = this.#nowMs;
    const tube = random.pick(TUBES)!;
    const kind = random.weighted({
      put: 10,
      reserve: 10,
      waitShared: 4,
      take: 2,
      reserveJob: 2,
      delete: 4,
      release: 5,
      bury: 3,
      touch: 2,
      kick: 2,
      kickJob: 2,
      pause: 1,
      use: 2,
      watch: 5,
      ignore: 2,
      halfClose: 0.3,
      reopen: 0.5,
    });
    if (kind === "put") this.#put(session);
    else if (kind === "reserve")
      engine.reserve(session, random.pick([0, 500, 1000, 3000, Number.POSITIVE_INFINITY]), nowMs);
    else if (kind === "waitShared") this.#waitShared(session);
    else if (kind === "take")
      engine.takeUpTo(session, random.pick([0, 1024, 4294967295]), random.between(1, 50), nowMs);
    else if (kind === "reserveJob") engine.reserveJob(session, this.#id(session), nowMs);
    else if (kind === "delete") engine.delete(session, this.#id(session), nowMs);
    else if (kind === "release")
      engine.release(session, this.#id(session), random.between(0, 2000), random.pick([0, 0, 1]), nowMs);
    else if (kind === "bury") engine.bury(session, this.#id(session), random.between(0, 2000), nowMs);
    else if (kind === "touch") engine.touch(session, this.#id(session), nowMs);
    else if (kind === "kick") engine.kick(session, random.between(0, 3), nowMs);
    else if (kind === "kickJob") engine.kickJob(this.#id(session), nowMs);
    else if (kind === "pause") engine.pause(tube, random.between(0, 2), nowMs);
    else if (kind === "use") engine.use(session, tube);
    else if (kind === "watch") engine.watch(session, tube);
    else if (kind === "ignore") engine.ignore(session, tube);
    else if (kind === "halfClose") engine.halfClose(session, nowMs);
    else this.#reopen(session);
  }

  #waitShared(session: Session): void {
    this.#model.waiting.openWait(this.#model.connections.session(session.index), this.#nextWait++);
    const timeoutAtMs = this.#random.pick([Number.POSITIVE_INFINITY, this.#nowMs + 1000]);
    this.#engine.waitShared(session, timeoutAtMs, this.#nowMs);
  }

  /** Number of jobs. */
  get jobs(): number {
    return this.#nextId - 1;
  }
}

function play(t: TestContext, runs: number, prepare: (run: RandomRun) => void): void {
  printSeed(t);
  let jobs = 0;
  for (let i = 0; i < runs; i++) {
    const run = new RandomRun(seed + i);
    prepare(run);
    for (let step = 0; step < STEPS; step++) run.step();
    jobs += run.jobs;
  }
  assert.ok(jobs > runs);
}

it("Engine matches the naive model, and keeps its invariants", (t) => play(t, RUNS, () => {}));

it("Engine serves sessions with many tubes in order, also behind many waiters for others", (t) =>
  play(t, RUNS / 2, (run) => {
    run.admitCrowd();
    run.watchAll();
  }));
