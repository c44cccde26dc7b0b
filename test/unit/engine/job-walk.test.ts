// Tests of walks over a tube's jobs while jobs come, change and go: a job that stays is found once,
// and a clear takes no later job.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import {
  ALL_STATES,
  BodySearch,
  type JobFilter,
  type JobWalk,
  MoveOutcome,
  stateBit,
  turnBudget,
} from "../../../src/engine/job-walk.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobIndex } from "../../../src/engine/jobs/job-index.ts";
import { JobState, NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type JobChange } from "../../../src/engine/jobs/new-job.ts";
import { Attribute } from "../../../src/protocol/job-attribute.ts";
import { ReserveOrder } from "../../../src/protocol/request.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { printSeed, seed } from "../../support/seeded-property.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { TracedEngine } from "./traced-engine.ts";

const RUNS = 12;
const TUBES = ["a", "b", "c"];
/** The second one is not ASCII. */
const GROUPS = ["g", "\xe9t\xe9"];
const QUEUED = stateBit(JobState.Ready) | stateBit(JobState.Delayed) | stateBit(JobState.Buried);
const NEVER = Number.POSITIVE_INFINITY;

function newEngine(): Engine {
  return new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
}

/**
 * An engine whose jobs come, change and go at random. Job ids have gaps: other shards have the ids
 * between.
 */
class Traffic {
  readonly engine = newEngine();
  readonly random: SeededRandom;
  nowMs = 0;
  nextId: number;
  /** By job: the group that it was put with. */
  readonly #groups = new Map<number, string>();

  constructor(random: SeededRandom) {
    this.random = random;
    this.nextId = random.pick([1, 3900, 2 ** 32 - 500]);
  }

  put(
    tube: string = this.random.pick(TUBES)!,
    text = this.random.pick(["", "abc", "xabcx", "ab", "c"])!,
  ): void {
    const { engine, random } = this;
    this.nextId += random.pick([1, 1, 1, 2, 50, random.chance(0.02) ? 5000 : 1])!;
    const body = text === "" ? EMPTY_BODY : engine.bodies.allocate(text.length);
    engine.bodies.write(body, 0, Buffer.from(text), 0, text.length);
    const job = {
      id: this.nextId,
      pri: random.between(0, 3),
      delaySeconds: random.pick([0, 0, 50])!,
      delayMillis: 0,
    };
    engine.put(
      engine.session(0),
      { ...job, ttrSeconds: 1000, bodyBytes: text.length, atMs: this.nowMs },
      body,
      this.nowMs,
      tube,
      this.#attributes(),
    );
  }

  #attributes(): JobAttributes | undefined {
    const group = this.random.pick([undefined, undefined, ...GROUPS]);
    if (group === undefined) return undefined;
    this.#groups.set(this.nextId, group);
    const attributes = new JobAttributes();
    attributes.fixed.text(Attribute.Group, Buffer.from(group, "latin1"), 0, group.length);
    return attributes;
  }

  /** One thing that a client may do. */
  act(): void {
    const { engine, random } = this;
    const client = engine.session(random.between(1, 3));
    const id = random.between(Math.max(1, this.nextId - 3000), this.nextId);
    this.nowMs += random.chance(0.1) ? random.between(0, 5000) : 0;
    const what = random.weighted({ put: 4, delete: 3, reserve: 3, release: 2, bury: 2, kick: 2, update: 2 });
    if (what === "put") this.put();
    else if (what === "delete") engine.delete(client, id, this.nowMs);
    else if (what === "reserve") engine.reserveJob(client, id, this.nowMs);
    else if (what === "release") engine.release(client, id, 1, random.pick([0, 5])!, this.nowMs);
    else if (what === "bury") engine.bury(client, id, 1, this.nowMs);
    else if (what === "kick") engine.kickJob(id, this.nowMs);
    else {
      const delayMs = random.pick([undefined, 0, 7000]);
      engine.changes.update(
        client,
        id,
        { pri: random.between(0, 2000), delayMs, ttrSeconds: 900 },
        this.nowMs,
      );
    }
  }

  filter(): JobFilter {
    const { random } = this;
    const states = random.pick([ALL_STATES, QUEUED, stateBit(JobState.Ready), stateBit(JobState.Reserved)])!;
    const contains = random.chance(0.4) ? Buffer.from("abc") : undefined;
    const group = random.pick([undefined, undefined, ...GROUPS]);
    return { states, createdByMs: random.chance(0.3) ? this.nowMs - 1000 : NEVER, contains, group };
  }

  /** Ids of the jobs of a tube that fit, told naively. */
  fitting(tube: string, { states, createdByMs, contains, group }: JobFilter): Set<number> {
    const { jobs, bodies } = this.engine;
    const ids = new Set<number>();
    jobs.forEach((slot) => {
      const page = jobs.pageOf(slot);
      const row = rowOf(slot);
      const body = Buffer.alloc(page.bodyBytes[row]!);
      bodies.read(page.body[row]!, 0, body, 0, body.length);
      if (this.engine.tubeOf(slot).name !== tube || (states & (1 << page.state[row]!)) === 0) return;
      if (page.createdAtMs[row]! > createdByMs) return;
      if (group !== undefined && this.#groups.get(page.id[row]!) !== group) return;
      if (contains === undefined || body.includes(contains as Buffer)) ids.add(page.id[row]!);
    });
    return ids;
  }
}

function idOf(engine: Engine, slot: number): number {
  return engine.jobs.pageOf(slot).id[rowOf(slot)]!;
}

/** Lists a tube in steps with traffic between them, and holds it against the law. */
function checkList(random: SeededRandom): void {
  const traffic = new Traffic(random);
  const { engine } = traffic;
  for (let jobs = random.between(0, 300); jobs > 0; jobs--) traffic.put();
  for (let acts = 100; acts > 0; acts--) traffic.act();
  const tube = random.pick(TUBES)!;
  const filter = traffic.filter();
  const walk = engine.walk(filter, 0);
  let stayed = traffic.fitting(tube, filter);
  const found: number[] = [];
  for (let rounds = 0; !walk.hasEnded; rounds++) {
    assert.ok(rounds < 100_000, "a walk ends");
    const budget = { looksLeft: random.between(1, 60), searchBytesLeft: random.between(1, 40) };
    const here = engine.findTube(tube);
    // Without the tube there is nothing to find, and a list ends.
    if (here === undefined) return;
    for (let slot = walk.next(here, budget); slot !== NO_SLOT; slot = walk.next(here, budget)) {
      const id = idOf(engine, slot);
      assert.ok(traffic.fitting(tube, filter).has(id), `job ${id} fits when it is found`);
      found.push(id);
      if (random.chance(0.2)) break;
    }
    for (let acts = random.between(0, 4); acts > 0; acts--) {
      traffic.act();
      stayed = stayed.intersection(traffic.fitting(tube, filter));
    }
  }
  assert.deepEqual(
    found,
    [...new Set(found)].sort((a, b) => a - b),
    "each is found once, by id",
  );
  assert.deepEqual([...stayed.difference(new Set(found))], [], "what stayed all the time is found");
}

/**
 * Clears a tube in steps with traffic between them: nothing else goes, and nothing that stayed and
 * fits is left.
 */
function checkClear(random: SeededRandom): void {
  const traffic = new Traffic(random);
  const { engine } = traffic;
  for (let jobs = random.between(0, 300); jobs > 0; jobs--) traffic.put();
  for (let acts = 100; acts > 0; acts--) traffic.act();
  const tube = random.pick(TUBES)!;
  const filter = traffic.filter();
  const limit = random.chance(0.3) ? random.between(1, 20) : NEVER;
  const lastIdBefore = traffic.nextId;
  const clearing = engine.clearing(tube, filter, limit);
  let stayed = traffic.fitting(tube, filter);
  let cleared = 0;
  for (let rounds = 0, isDone = false; !isDone; rounds++) {
    assert.ok(rounds < 100_000, "a clear ends");
    const fitting = traffic.fitting(tube, filter);
    const before = idsOf(engine);
    const jobsMax = random.between(1, 10);
    isDone = engine.clear(clearing, jobsMax, traffic.nowMs);
    const gone = before.difference(idsOf(engine));
    assert.deepEqual([...gone.difference(fitting)], [], "only what fits is cleared");
    assert.ok(
      [...gone].every((id) => id <= lastIdBefore),
      "no later id is cleared",
    );
    assert.ok(gone.size <= jobsMax, "a step has its measure");
    cleared += gone.size;
    if (random.chance(0.2)) checkInvariants(engine, [0, 1, 2, 3]);
    if (isDone) break;
    for (let acts = random.between(0, 4); acts > 0; acts--) {
      traffic.act();
      stayed = stayed.intersection(traffic.fitting(tube, filter));
    }
    if (random.chance(0.3)) traffic.put(tube, "abc");
  }
  assert.equal(clearing.cleared, cleared, "the count is of all");
  assert.ok(cleared <= limit);
  if (cleared < limit)
    assert.deepEqual(
      [...stayed.intersection(traffic.fitting(tube, filter))],
      [],
      "nothing that stayed is left",
    );
}

function idsOf({ jobs }: Engine): Set<number> {
  const ids = new Set<number>();
  jobs.forEach((slot) => {
    ids.add(jobs.pageOf(slot).id[rowOf(slot)]!);
  });
  return ids;
}

function runAll(check: (random: SeededRandom) => void, runs: number): void {
  for (let run = 0; run < runs; run++) check(new SeededRandom(seed + run));
}

/** With a method of a class replaced while `run` runs. */
function broken<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  replacement: (original: Target[Name]) => Target[Name],
  run: () => void,
): void {
  const original = target[name];
  target[name] = replacement(original);
  try {
    run();
  } finally {
    target[name] = original;
  }
}

describe("a walk over the jobs of a tube", () => {
  it("finds each job once that exists and fits throughout (like SCAN)", (t) => {
    printSeed(t);
    runAll(checkList, RUNS);
  });

  it("clears exactly the jobs that existed, whatever happens meanwhile", (t) => {
    printSeed(t);
    runAll(checkClear, RUNS);
  });

  it("fails if it skips at the edge of a page (canary)", () => {
    const skips = (): void =>
      broken(
        JobIndex.prototype,
        "next",
        (next) =>
          function (this: JobIndex, place, lastId) {
            const page = Math.floor(place.id / 4096);
            const slot = next.call(this, place, lastId);
            // The first job of each further page is passed over.
            const isSkipped = slot !== NO_SLOT && Math.floor(place.id / 4096) !== page;
            return isSkipped ? next.call(this, place, lastId) : slot;
          },
        () => runAll(checkList, 300),
      );
    assert.throws(skips, /what stayed all the time is found/);
  });

  it("fails if a clear takes later ids (canary)", () => {
    const takesLater = (): void =>
      broken(
        Engine.prototype,
        "walk",
        (walk) =>
          function (this: Engine, filter, afterId) {
            const right = walk.call(this, filter, afterId);
            Object.defineProperty(right, "lastId", { value: Number.MAX_SAFE_INTEGER });
            return right;
          },
        () => runAll(checkClear, 300),
      );
    assert.throws(takesLater, /no later id is cleared|a clear ends/);
  });

  it("fails if a search resumes at the wrong place (canary)", () => {
    const loses = (): void =>
      broken(
        BodySearch.prototype,
        "search",
        (search) =>
          function (this: BodySearch, body, bodyBytes, text, from, bytesMax) {
            return search.call(this, body, bodyBytes, text, from === 0 ? 0 : from + 1, bytesMax);
          },
        () => runAll(checkList, 300),
      );
    assert.throws(loses, /what stayed all the time is found/);
  });
});

describe("a search in bodies", () => {
  it("finds a text across parts and blocks, with any number of pauses, and nowhere else", (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const { bodies } = newEngine();
    const search = new BodySearch(bodies);
    const bytes = Buffer.alloc((2 << 20) + 77, "a");
    const body = bodies.allocate(bytes.length);
    for (let run = 0; run < 16; run++) {
      const text = Buffer.from(random.pick(["X", "aX", "aXa", "XaX", `${"a".repeat(150)}X`])!);
      const edge = random.pick([0, 65_536, 1 << 20, 2 << 20, bytes.length - text.length])!;
      const at = Math.max(0, Math.min(bytes.length - text.length, edge - random.between(-3, text.length)));
      bytes.fill("a");
      if (run % 4 !== 0) text.copy(bytes, at);
      const arena = newEngine().bodies;
      const big = arena.allocate(bytes.length);
      arena.write(big, 0, bytes, 0, bytes.length);
      const found = searchInSteps(new BodySearch(arena), big, bytes.length, text, random);
      assert.equal(found, bytes.includes(text), `${text.length} bytes at ${at}`);
    }
    bodies.free(body);
    assert.equal(search.search(EMPTY_BODY, 0, Buffer.from("a"), 0, 10), 0);
  });
});

function searchInSteps(
  search: BodySearch,
  body: number,
  bytes: number,
  text: Uint8Array,
  random: SeededRandom,
): boolean {
  for (let at = 0; at < bytes; ) {
    at = search.search(body, bytes, text, at, random.pick([100_000, 65_536, 1 << 20, 300_001])!);
    if (at < 0) return true;
  }
  return false;
}

describe("the most that a turn costs", () => {
  const JOBS = 30_000;

  /** Returns for each step: ids looked at, bytes searched, jobs deleted. */
  function costs(engine: Engine, step: () => boolean): { looks: number; bytes: number; deleted: number }[] {
    const steps: { looks: number; bytes: number; deleted: number }[] = [];
    broken(
      JobIndex.prototype,
      "next",
      (next) =>
        function (this: JobIndex, place, lastId) {
          const before = place.looksLeft;
          const slot = next.call(this, place, lastId);
          steps.at(-1)!.looks += before - place.looksLeft;
          return slot;
        },
      () =>
        broken(
          BodySearch.prototype,
          "search",
          (search) =>
            function (this: BodySearch, body, bodyBytes, text, from, bytesMax) {
              const at = search.call(this, body, bodyBytes, text, from, bytesMax);
              steps.at(-1)!.bytes += at < 0 ? bodyBytes - from : at - from;
              return at;
            },
          () => {
            for (let isDone = false; !isDone; ) {
              steps.push({ looks: 0, bytes: 0, deleted: 0 });
              const before = engine.jobs.live;
              isDone = step();
              steps.at(-1)!.deleted = before - engine.jobs.live;
            }
          },
        ),
    );
    return steps;
  }

  function filled(bodyBytes: number, jobs = JOBS): Engine {
    const engine = newEngine();
    const bytes = Buffer.alloc(bodyBytes, "a");
    for (let id = 1; id <= jobs; id++) {
      const body = bodyBytes === 0 ? EMPTY_BODY : engine.bodies.allocate(bodyBytes);
      engine.bodies.write(body, 0, bytes, 0, bodyBytes);
      const job = { id, pri: id % 7, delaySeconds: 0, delayMillis: 0, ttrSeconds: 1, bodyBytes, atMs: 0 };
      engine.put(engine.session(0), job, body, 0, id % 10 === 0 ? "a" : "b");
    }
    return engine;
  }

  it("is 1,000 deleted jobs and no looks at ids, if whole states go", () => {
    const engine = filled(0);
    const clearing = engine.clearing("b", { states: QUEUED, createdByMs: NEVER, contains: undefined }, NEVER);
    const steps = costs(engine, () => engine.clear(clearing, 1000, 0));
    assert.equal(clearing.cleared, JOBS * 0.9);
    assert.equal(steps.length, 27);
    for (const { looks, deleted } of steps) assert.deepEqual([looks, deleted <= 1000], [0, true]);
  });

  it("is looks at 5,000 ids, if few of them fit", () => {
    const engine = filled(0);
    const filter = { states: QUEUED, createdByMs: 0, contains: undefined };
    const clearing = engine.clearing("a", filter, NEVER);
    const steps = costs(engine, () => engine.clear(clearing, 1000, 0));
    assert.equal(clearing.cleared, JOBS / 10);
    for (const { looks, deleted } of steps)
      assert.ok(looks <= 5000 && deleted <= 1000, `${looks} ${deleted}`);
    assert.ok(steps.length >= JOBS / 5000);
  });

  it("is 1 MB of searched bodies, also within one body", () => {
    for (const [bodyBytes, jobs] of [
      [60_000, 200],
      [9_000_000, 2],
    ] as const) {
      const engine = filled(bodyBytes, jobs);
      const filter = { states: QUEUED, createdByMs: NEVER, contains: Buffer.from("ab") };
      const walk = engine.walk(filter, 0);
      const steps = costs(engine, () => {
        assert.equal(walk.next(undefined, turnBudget(1000)), NO_SLOT);
        return walk.hasEnded;
      });
      for (const { bytes } of steps) assert.ok(bytes <= 1 << 20, `${bytes}`);
      assert.equal(
        steps.reduce((sum, { bytes }) => sum + bytes, 0),
        bodyBytes * jobs,
      );
    }
  });
});

it("a walk continues after a given id, over all tubes if none is named", () => {
  const traffic = new Traffic(new SeededRandom(1));
  for (let jobs = 0; jobs < 20; jobs++) traffic.put();
  const { engine } = traffic;
  const ids = [...idsOf(engine)].sort((a, b) => a - b);
  const walk: JobWalk = engine.walk({ states: ALL_STATES, createdByMs: NEVER, contains: undefined }, ids[4]!);
  const found: number[] = [];
  const budget = turnBudget(1000);
  for (let slot = walk.next(undefined, budget); slot !== NO_SLOT; slot = walk.next(undefined, budget))
    found.push(idOf(engine, slot));
  assert.deepEqual(found, ids.slice(5));
});

// Tests of jobs that change their tube or return when they have expired, or when a tube existed
// only for them.

const EXPIRES_AT_MS = 1000;
const LATER_MS = 2000;
const NO_CHANGE: JobChange = { pri: undefined, ttrSeconds: undefined, delayMs: undefined };

/** Session 0 changes jobs, and watches nothing; session 1 waits for those of `b`. */
class Bench extends TracedEngine {
  readonly client = this.session(0);

  constructor() {
    super();
    this.engine.unuse(this.client);
  }

  add(id: number, tube: string, expiresAtMs: number): void {
    assert.match(this.put(id, { tube }, { expiresAtMs }), /^done/);
  }

  bury(id: number): void {
    this.hold(id, this.client);
    assert.equal(this.engine.bury(this.client, id, 0, 0), Outcome.Done);
  }

  waits(): void {
    const waiting = this.session(1, "b");
    this.engine.unuse(waiting);
    this.engine.reserve(waiting, 60_000, LATER_MS);
  }

  /** Its only attempt is over: it is buried in its tube. */
  die(id: number, tube: string): void {
    this.set(tube, { maxAttempts: 1 });
    this.hold(id, this.client);
    assert.equal(this.engine.release(this.client, id, 0, 0, 0), Outcome.Done);
    this.take();
  }

  update(id: number, change: Partial<JobChange>, nowMs = LATER_MS): string {
    return this.does(() => this.engine.changes.update(this.client, id, { ...NO_CHANGE, ...change }, nowMs));
  }
}

describe("a job that has expired while it was held or buried", () => {
  it("disappears with its tube when its holder releases it", () => {
    for (const change of [{ tube: "a" }, { delayMs: 0 }, { delayMs: 500 }, { tube: "a", delayMs: 500 }]) {
      const bench = new Bench();
      bench.add(1, "a", EXPIRES_AT_MS);
      bench.hold(1, bench.client);
      bench.update(1, change);
      assert.equal(bench.engine.jobs.live, 0);
      assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
      bench.take();
    }
  });

  it("disappears with both tubes when its holder sends it to another, and leaves no rate timer", () => {
    const bench = new Bench();
    bench.set("b", { rate: "1/1000" });
    bench.add(1, "b", 0);
    bench.hold(1, bench.client);
    assert.equal(bench.engine.delete(bench.client, 1, 0), Outcome.Done);
    bench.add(2, "a", EXPIRES_AT_MS);
    bench.hold(2, bench.client);
    bench.update(2, { tube: "b" });
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.take();
  });

  it("disappears when it is kicked, and leaves no rate timer", () => {
    const bench = new Bench();
    bench.set("a", { rate: "1/1000" });
    bench.add(1, "a", EXPIRES_AT_MS);
    bench.bury(1);
    assert.equal(bench.engine.kickJob(1, LATER_MS), Outcome.Done);
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.take();
  });

  it("disappears when it is moved as ready", () => {
    const bench = new Bench();
    bench.add(1, "a", EXPIRES_AT_MS);
    bench.bury(1);
    bench.waits();
    assert.equal(bench.engine.changes.move(bench.engine.find(1), "b", true, LATER_MS), MoveOutcome.Moved);
    assert.doesNotMatch(bench.take(), /gets/);
    assert.equal(bench.engine.jobs.live, 0);
    bench.take();
  });

  it("disappears if it was dead and update-job sends it to a tube where it lives again", () => {
    for (const change of [{ tube: "b" }, { tube: "b", delayMs: 0 }, { tube: "b", delayMs: 500 }]) {
      const bench = new Bench();
      bench.add(1, "a", 0);
      bench.die(1, "a");
      bench.update(1, { ttlMs: EXPIRES_AT_MS }, 0);
      bench.waits();
      assert.doesNotMatch(bench.update(1, change), /gets/);
      assert.equal(bench.engine.jobs.live, 0);
      assert.deepEqual([...bench.engine.tubes.keys()], ["default", "b"]);
      bench.take();
    }
  });

  it("removes the tube to which an update-job sends it", () => {
    const bench = new Bench();
    bench.add(1, "a", 0);
    bench.die(1, "a");
    bench.update(1, { ttlMs: EXPIRES_AT_MS }, 0);
    bench.update(1, { tube: "c" });
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.take();
  });

  it("removes the tube to which it was moved", () => {
    const bench = new Bench();
    bench.add(1, "a", EXPIRES_AT_MS);
    bench.bury(1);
    bench.engine.changes.move(bench.engine.find(1), "c", true, LATER_MS);
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.take();
  });
});

it("a moved ready job is offered in its new tube, also with a delay of 0", () => {
  const bench = new Bench();
  bench.add(1, "a", 0);
  bench.waits();
  assert.match(bench.update(1, { tube: "b", delayMs: 0 }), /1: gets 1/);
});

// Tests of commands in slices, of dead jobs that revive, and of what commands leave behind.

it("touch-all renews each held job once, in slices, though jobs leave meanwhile", () => {
  const traced = new TracedEngine();
  const { engine } = traced;
  const session = traced.session(0);
  for (const id of [1, 2, 3, 4, 5]) {
    traced.put(id, { ttrSeconds: id });
    traced.hold(id);
  }
  traced.wait(500);
  const deadlines = (): string[] => [1, 2, 3, 4, 5].map((id) => /at \d+|gone/.exec(traced.job(id))![0]);
  assert.equal(engine.touchSome(session, true, 2, traced.nowMs), false);
  assert.deepEqual(deadlines(), ["at 1500", "at 2500", "at 3000", "at 4000", "at 5000"]);
  engine.delete(session, 3, traced.nowMs);
  traced.wait(100);
  assert.equal(engine.touchSome(session, false, 1, traced.nowMs), false);
  assert.deepEqual(deadlines(), ["at 1500", "at 2500", "gone", "at 4600", "at 5000"]);
  assert.equal(engine.touchSome(session, false, 1, traced.nowMs), true);
  assert.deepEqual(deadlines(), ["at 1500", "at 2500", "gone", "at 4600", "at 5600"]);
  assert.equal(Math.floor(engine.nextDueAtMs), 1500, "the timer follows");
  assert.equal(engine.touchSome(session, true, 9, traced.nowMs), true, "and all at once");
  assert.deepEqual(deadlines(), ["at 1600", "at 2600", "gone", "at 4600", "at 5600"]);
  assert.equal(engine.touchSome(traced.session(1), true, 9, traced.nowMs), true, "also without a job");
});

it("a dead job that is ready in its own dead-letter tube has its attempts again", () => {
  const traced = new TracedEngine();
  traced.set("t", { maxAttempts: 1, deadLetter: "t" });
  traced.put(1);
  traced.hold(1);
  traced.does((engine, nowMs) => engine.release(engine.session(0), 1, 0, 0, nowMs));
  assert.match(traced.job(1), /^t ready/);
  const revived = (): string => traced.does((engine) => engine.changes.revive(engine.find(1)));
  assert.equal(traced.engine.changes.originOf(traced.engine.find(1)), "t");
  assert.equal(revived(), "true: updated 1");
  assert.equal(traced.engine.changes.originOf(traced.engine.find(1)), "");
  assert.match(traced.job(1), / excused 1$/);
  traced.hold(1);
  assert.equal(revived(), "false", "its holder decides");
});

it("the meters of a tube hear what those of all tubes hear", () => {
  const traced = new TracedEngine();
  traced.put(1, { tube: "metered" });
  traced.wait(5);
  assert.equal(traced.hold(1), "done: waited 5, metered: waited 5");
  traced.wait(7);
  const release = traced.does((engine, nowMs) => engine.release(engine.session(0), 1, 0, 0, nowMs));
  assert.equal(release, "done: held 7, metered: held 7, updated 1");
});

it("a put that the log refuses, before or at its end, leaves nothing behind", () => {
  for (const when of ["begins", "ends"] as const) {
    const traced = new TracedEngine();
    traced.session(0);
    traced.log[when] = false;
    assert.equal(traced.put(1, { tube: "u", delaySeconds: 1 }, { expiresAtMs: 9 }), "noroom");
    assert.deepEqual([traced.job(1), traced.tube("u"), traced.engine.totalJobs], ["gone", "none", 0]);
    assert.equal(traced.engine.nextDueAtMs, Number.POSITIVE_INFINITY);
    traced.log[when] = true;
    assert.equal(traced.put(1, { tube: "u" }), "done: put 1, stored 0");
  }
});

it("a refused move leaves no tube behind, and a tube that is no longer watched no share", () => {
  const traced = new TracedEngine({ orderedTubesMin: 0 });
  const { engine } = traced;
  const session = traced.session(0, "a", "b");
  traced.set("full", { maxBytes: 9 });
  for (const id of [1, 2]) traced.put(id, { tube: id === 1 ? "a" : "b", bodyBytes: 10 });
  const search = engine.walk({ states: ALL_STATES, createdByMs: 0, contains: Buffer.from("x") }, 0);
  assert.deepEqual([search.work(undefined), search.work(engine.findTube("a"))], [Infinity, 3]);
  assert.equal(engine.changes.move(engine.find(1), "full", false, 0), MoveOutcome.Full);
  assert.equal(traced.tube("full"), "none");
  engine.setOrder(session, ReserveOrder.Weighted, 0);
  engine.reserve(session, 0, 0);
  engine.ignore(session, "a");
  engine.delete(session, 1, 0);
  assert.equal(session.turns!.shares.size, 1);
});
