// Tests of a tube's groups against a list that is sorted each time, and of their fairness.

import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { JobState, JobTable, NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { GroupedReady, JobGroups, NO_GROUP } from "../../../../src/engine/queues/job-groups.ts";
import { PriHeap, ReadyHeap } from "../../../../src/engine/queues/job-heaps.ts";
import { COST_MAX } from "../../../../src/protocol/limits.ts";
import { NOTHING_SET } from "../../../../src/schema/setting.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

/** Adds a job that says what its group weighs; returns the group's number. */
function joined(groups: JobGroups, key: string, weight: number, by?: number): number {
  const number = groups.join(key);
  groups.weigh(number, weight, by);
  return number;
}

/** Ready and held jobs of one tube, as an engine moves them. */
class Bench {
  readonly jobs = new JobTable();
  readonly ready: GroupedReady;
  #lastId = 0;

  constructor(plain: readonly { readonly pri: number }[] = []) {
    const heap = new ReadyHeap(this.jobs);
    for (const { pri } of plain) heap.push(this.#insert(pri));
    this.ready = new GroupedReady(this.jobs, heap, 0);
  }

  #insert(pri: number): number {
    const slot = this.jobs.allocate();
    const page = this.jobs.pageOf(slot);
    page.id[rowOf(slot)] = ++this.#lastId;
    page.pri[rowOf(slot)] = pri;
    page.state[rowOf(slot)] = JobState.Ready;
    return slot;
  }

  idOf(slot: number): number {
    return this.jobs.pageOf(slot).id[rowOf(slot)]!;
  }

  put(key: string, weight = 1, pri = 0, cost = 1): number {
    const slot = this.#insert(pri);
    const extras = this.jobs.pageOf(slot).makeExtras();
    extras.extraCost[rowOf(slot)] = cost - 1;
    extras.groupRow[rowOf(slot)] = key === "" ? NO_GROUP : joined(this.ready.groups, key, weight);
    this.ready.push(slot);
    return slot;
  }

  take(slot = this.ready.top): number {
    this.ready.remove(slot);
    this.ready.groups.hold(this.ready.groupOf(slot), this.jobs.costOf(slot));
    return slot;
  }

  giveBack(slot: number): void {
    this.ready.groups.unhold(this.ready.groupOf(slot), this.jobs.costOf(slot));
    this.ready.push(slot);
  }

  end(slot: number): void {
    const number = this.ready.groupOf(slot);
    this.ready.groups.unhold(number, this.jobs.costOf(slot));
    if (number !== NO_GROUP) this.ready.groups.leave(number);
    const { state, extras } = this.jobs.pageOf(slot);
    state[rowOf(slot)] = JobState.Free;
    if (extras !== undefined) {
      extras.groupRow[rowOf(slot)] = NO_GROUP;
      extras.clear(rowOf(slot));
    }
    this.jobs.free(slot);
  }
}

interface ModelJob {
  readonly slot: number;
  readonly id: number;
  readonly pri: number;
  readonly key: string;
  readonly cost: number;
  held: boolean;
}

interface ModelGroup {
  weight: number;
  turn: number;
}

/** The same told from all jobs, each time anew. */
class Model {
  readonly jobs = new Map<number, ModelJob>();
  readonly groups = new Map<string, ModelGroup>([["", { weight: 1, turn: 0 }]]);
  inWorkMax = Number.POSITIVE_INFINITY;
  #time = 0;
  #byTurns = false;

  get #earliest(): number {
    return this.#time - (this.#byTurns ? COST_MAX : 0);
  }

  inWork(key: string): number {
    const held = [...this.jobs.values()].filter((job) => job.held && job.key === key);
    return held.reduce((sum, { cost }) => sum + cost, 0);
  }

  #ready(key: string): ModelJob[] {
    return [...this.jobs.values()]
      .filter((job) => !job.held && job.key === key)
      .sort((a, b) => a.pri - b.pri || a.id - b.id);
  }

  isBlocked(key: string, inWork = this.inWork(key)): boolean {
    return key !== "" && inWork > 0 && inWork + this.#ready(key)[0]!.cost > this.inWorkMax;
  }

  #group(key: string): ModelGroup {
    return this.groups.get(key)!;
  }

  put(job: ModelJob, weight: number): void {
    if (!this.groups.has(job.key)) this.groups.set(job.key, { weight, turn: this.#time });
    if (job.key !== "") this.#group(job.key).weight = weight;
    this.becomeReady(job);
    this.jobs.set(job.id, job);
  }

  becomeReady(job: ModelJob): void {
    job.held = false;
    if (job.key !== "" && job.cost > 1) this.#byTurns = true;
    const group = this.#group(job.key);
    const others = this.#ready(job.key).filter((each) => each !== job);
    if (others.length === 0) group.turn = Math.max(group.turn, this.#earliest);
  }

  next(beyondLimits = false): ModelJob | undefined {
    return this.#firstOf(
      [...this.groups.keys()].filter(
        (key) => this.#ready(key).length > 0 && (beyondLimits || !this.isBlocked(key)),
      ),
    );
  }

  #firstOf(keys: readonly string[]): ModelJob | undefined {
    const heads = keys.map((key) => this.#ready(key)[0]!);
    const share = ({ key }: ModelJob): number =>
      this.#byTurns ? 0 : this.inWork(key) / this.#group(key).weight;
    return heads.sort(
      (a, b) =>
        a.pri - b.pri ||
        (Math.abs(share(a) - share(b)) < 1e-9 ? 0 : share(a) - share(b)) ||
        this.#group(a.key).turn - this.#group(b.key).turn ||
        a.id - b.id,
    )[0];
  }

  take(job: ModelJob): void {
    // As it stands when the job has left: of the groups that have something to give, and its own.
    job.held = true;
    const waiting = [...this.groups.keys()].filter((key) => {
      if (this.#ready(key).length === 0) return false;
      return !this.isBlocked(key, this.inWork(key) - (key === job.key ? job.cost : 0));
    });
    const all = new Set([...waiting, job.key]);
    const group = this.#group(job.key);
    const start = Math.max(group.turn, this.#earliest);
    group.turn = start + job.cost / group.weight;
    this.#time += job.cost / [...all].reduce((sum, key) => sum + this.#group(key).weight, 0);
    if (this.#byTurns) {
      const others = this.#firstOf(waiting.filter((key) => key !== job.key));
      const next = others === undefined ? start : this.#group(others.key).turn;
      this.#time = Math.max(this.#time, Math.min(start, next));
    }
    this.#forget();
  }

  end(job: ModelJob): void {
    this.jobs.delete(job.id);
    this.#forget();
  }

  #forget(): void {
    const used = new Set([...this.jobs.values()].map(({ key }) => key));
    for (const [key, { turn }] of this.groups)
      if (key !== "" && !used.has(key) && turn <= this.#time) this.groups.delete(key);
  }
}

const KEYS = ["", "a", "b", "c", "d"] as const;

/** The groups and their model, which are told the same. */
class Twins {
  readonly #random: SeededRandom;
  readonly #bench: Bench;
  readonly #model = new Model();

  constructor(random: SeededRandom) {
    this.#random = random;
    this.#bench = new Bench(
      Array.from({ length: random.between(0, 3) }, () => ({ pri: random.between(0, 2) })),
    );
    const { jobs } = this.#bench;
    jobs.forEach((slot) => {
      this.#putInModel(slot, "", jobs.pageOf(slot).pri[rowOf(slot)]!, 1);
    });
  }

  #putInModel(slot: number, key: string, pri: number, weight: number, cost = 1): void {
    this.#model.put({ slot, id: this.#bench.idOf(slot), pri, key, cost, held: false }, weight);
  }

  step(): void {
    const random = this.#random;
    const jobs = [...this.#model.jobs.values()];
    const kind = random.weighted({ put: 5, take: 4, takeAny: 0.5, giveBack: 1.5, end: 2.5, limit: 0.3 });
    if (kind === "put") this.#put();
    else if (kind === "limit") this.#limit();
    else if (kind === "take") this.#take(this.#model.next());
    else if (kind === "takeAny") this.#take(random.pick(jobs.filter(({ held }) => !held)));
    else this.#done(random.pick(jobs.filter(({ held }) => held)), kind === "giveBack");
  }

  #put(): void {
    const random = this.#random;
    const [key, weight, pri] = [random.pick(KEYS), random.pick([1, 1, 2, 3]), random.pick([0, 0, 0, 1])];
    const cost = random.pick([1, 1, 1, 2, 5]);
    this.#putInModel(this.#bench.put(key, weight, pri, cost), key, pri, weight, cost);
  }

  #limit(): void {
    this.#model.inWorkMax = this.#random.pick([1, 2, 3, Number.POSITIVE_INFINITY]);
    this.#bench.ready.groups.limit({ ...NOTHING_SET, groupMaxReserved: this.#model.inWorkMax });
    while (this.#bench.ready.groups.unsettled > 0)
      this.#bench.ready.groups.settle(this.#random.between(1, 3), 0);
  }

  #take(job: ModelJob | undefined): void {
    if (job === undefined) return;
    this.#bench.take(job.slot);
    this.#model.take(job);
  }

  #done(job: ModelJob | undefined, comesBack: boolean): void {
    if (job === undefined) return;
    if (comesBack) {
      this.#bench.giveBack(job.slot);
      this.#model.becomeReady(job);
    } else {
      this.#bench.end(job.slot);
      this.#model.end(job);
    }
  }

  compare(told: string): void {
    const bench = this.#bench;
    const model = this.#model;
    const { top, best, size, groups } = bench.ready;
    assert.equal(top === NO_SLOT ? undefined : bench.idOf(top), model.next()?.id, told);
    assert.equal(best === NO_SLOT ? undefined : bench.idOf(best), model.next(true)?.id, told);
    assert.equal(size, [...model.jobs.values()].filter((job) => !job.held).length, told);
    assert.equal(groups.size, model.groups.size - 1, told);
  }
}

describe("JobGroups", () => {
  it("matches a list sorted by pri, share of work, turn and id", () => {
    for (let seed = 1; seed <= 60; seed++) {
      const twins = new Twins(new SeededRandom(seed));
      for (let step = 0; step < 150; step++) {
        twins.step();
        twins.compare(`seed ${seed}, step ${step}`);
      }
    }
  });

  it("keeps the shares in work of two backlogged groups within one job of each other, by their weights", () => {
    const bench = new Bench();
    for (let i = 0; i < 500; i++) {
      bench.put("loud", 1);
      bench.put("heavy", 3);
    }
    const random = new SeededRandom(7);
    const held: number[] = [];
    const inWork = (key: string): number =>
      held.filter((slot) => bench.ready.groups.describe(bench.ready.groupOf(slot))!.key === key).length;
    for (let step = 0; step < 600; step++) {
      if (held.length < 20) held.push(bench.take());
      else bench.end(held.splice(random.between(0, held.length - 1), 1)[0]!);
      if (held.length === 20) assert.ok(Math.abs(inWork("loud") - inWork("heavy") / 3) <= 1);
    }
  });

  /** Shares of the work that groups get whose jobs have these costs, while all have jobs. */
  function sharesOf(
    costs: readonly number[],
    workers: number,
    durationOf: (cost: number) => number,
  ): number[] {
    const WORK = 60_000;
    const bench = new Bench();
    const put = (cost: number): number => bench.put(`cost ${cost}`, 1, 0, cost);
    for (const cost of costs) for (let i = 0; i < workers; i++) put(cost);
    const done = new Map(costs.map((cost) => [cost, 0]));
    const held: { readonly slot: number; readonly endsAt: number }[] = [];
    for (let [now, all] = [0, 0]; all < WORK; ) {
      while (held.length < workers) {
        const slot = bench.take();
        const cost = bench.jobs.costOf(slot);
        held.push({ slot, endsAt: now + durationOf(cost) });
        done.set(cost, done.get(cost)! + cost);
        all += cost;
        put(cost);
      }
      held.sort((a, b) => a.endsAt - b.endsAt);
      const first = held.shift()!;
      now = first.endsAt;
      bench.end(first.slot);
    }
    const all = [...done.values()].reduce((sum, work) => sum + work, 0);
    return costs.map((cost) => done.get(cost)! / all);
  }

  it("gives groups whose jobs cost 1, 5 and 25 the same work, within 2 %", (t) => {
    const durations = {
      "the same time": () => 1,
      "as long as it costs": (cost: number) => cost,
      "shorter the more it costs": (cost: number) => 1 / cost,
    };
    for (const [what, durationOf] of Object.entries(durations))
      for (const workers of [1, 4, 10, 31, 100]) {
        const shares = sharesOf([1, 5, 25], workers, durationOf);
        const told = `${workers} workers, a job takes ${what}: ${shares.map((share) => share.toFixed(4)).join(" : ")}`;
        t.diagnostic(told);
        for (const share of shares) assert.ok(Math.abs(share * 3 - 1) <= 0.02, told);
      }
  });

  it("serves a backlog beside groups that are always new, and forgets those, with costs", () => {
    const bench = new Bench();
    for (let i = 0; i < 100; i++) bench.put("backlog", 1, 0, 2);
    let served = 0;
    for (let n = 0; n < 1000; n++) {
      // Two new groups wait at any time.
      bench.put(`new ${n}`, 1, 0, 2);
      const slot = bench.take();
      if (bench.ready.groups.describe(bench.ready.groupOf(slot))!.key === "backlog") served++;
      bench.end(slot);
    }
    assert.ok(served >= 20, `${served} jobs of the backlog in 1000`);
    while (bench.ready.size > 0) bench.end(bench.take());
    assert.ok(bench.ready.groups.size <= 20, `${bench.ready.groups.size} groups without jobs`);
  });

  it("serves a small group after at most one job per worker of a large one", () => {
    const WORKERS = 8;
    const bench = new Bench();
    for (let i = 0; i < 10_000; i++) bench.put("loud");
    const held = Array.from({ length: WORKERS }, () => bench.take());
    const quiet = bench.put("quiet");
    bench.end(held.shift()!);
    assert.equal(bench.take(), quiet, "the next worker that is free gets it");
  });

  it("makes a group that returns now and then wait for its turn", () => {
    const bench = new Bench();
    for (let i = 0; i < 100; i++) for (const key of ["a", "b", "c"]) bench.put(key);
    const given: Record<string, number> = { a: 0, b: 0, c: 0, trickle: 0 };
    // Always one job, put anew as soon as the last one is done.
    bench.put("trickle");
    for (let i = 0; i < 80; i++) {
      const slot = bench.take();
      const { key } = bench.ready.groups.describe(bench.ready.groupOf(slot))!;
      given[key]!++;
      bench.end(slot);
      if (key === "trickle") bench.put("trickle");
    }
    for (const key of ["a", "b", "c"]) assert.ok(given["trickle"]! <= given[key]! + 1, JSON.stringify(given));
  });

  it("forgets an empty group for a new one at the limit", () => {
    const bench = new Bench();
    const jobs = Array.from({ length: 10 }, () => bench.put("a"));
    bench.put("b");
    assert.ok(bench.ready.groups.isFull("c", 2), "both have jobs");
    for (const slot of jobs) bench.end(bench.take(slot));
    assert.equal(bench.ready.groups.size, 2, "time has not passed its turn");
    assert.ok(!bench.ready.groups.isFull("b", 1), "an existing group needs no room");
    assert.ok(!bench.ready.groups.isFull("c", 2), "one of the two has none");
    assert.equal(bench.ready.groups.size, 1);
    assert.ok(bench.ready.groups.isFull("c", 1));
  });

  it("looks at as few jobs among 5,000 groups at their limits as among 50", () => {
    const looksOf = (groups: number): number => {
      const bench = new Bench();
      bench.ready.groups.limit({ ...NOTHING_SET, groupMaxReserved: 1 });
      for (let i = 0; i < groups * 2; i++) bench.put(`key-${i >> 1}`);
      while (bench.ready.top !== NO_SLOT) bench.take();
      assert.equal(bench.ready.groups.blocked, groups);
      bench.put("");
      const pageOf = mock.method(bench.jobs, "pageOf");
      assert.notEqual(bench.ready.best, NO_SLOT);
      return pageOf.mock.callCount();
    };
    assert.ok(looksOf(50) > 0, "looks are counted");
    assert.equal(looksOf(5000), looksOf(50));
  });

  it("forgets empty groups, however many keys there are", () => {
    const bench = new Bench();
    let most = 0;
    for (let i = 0; i < 20_000; i++) {
      bench.put(`key-${i}`);
      if (i < 50) continue;
      bench.end(bench.take());
      most = Math.max(most, bench.ready.groups.size);
    }
    // Fifty have a job to give; those that are remembered are as many as time takes to pass them.
    assert.ok(most <= 150, `${most} groups`);
  });

  /**
   * Heavy groups hold time back while others come and go; then they leave, and time passes all
   * turns at once.
   */
  function manyPassed(count: number): Bench {
    const bench = new Bench();
    const anchors = Array.from({ length: 50 }, (_, i) => bench.put(`anchor-${i}`, 1000, 9));
    for (let i = 0; i < count; i++) {
      bench.put(`key-${i}`, 7);
      bench.end(bench.take());
    }
    for (const slot of anchors) {
      const group = bench.ready.groupOf(slot);
      bench.ready.remove(slot);
      bench.ready.groups.leave(group);
    }
    assert.ok(bench.ready.groups.size >= count - 100);
    for (let i = 0; i < 3; i++) {
      bench.put("last");
      bench.end(bench.take());
    }
    return bench;
  }

  it("forgets some empty groups at once, and the others in slices", () => {
    const { groups } = manyPassed(5000).ready;
    assert.ok(groups.size > 4000 && groups.hasPassed);
    let slices = 0;
    for (; groups.hasPassed; slices++) assert.ok(groups.forgetPassed(500) <= 500);
    assert.ok(slices >= 8, `${slices} slices`);
    assert.ok(groups.size <= 1);
  });

  it("ignores a group whose turn has passed, before and after its slice", () => {
    const bench = manyPassed(1000);
    const { groups } = bench.ready;
    const number = groups.join("key-999");
    assert.equal(groups.describe(number)?.weight, 1);
    assert.equal(groups.describe(joined(groups, "key-998", 3))?.weight, 3);
  });

  it("makes room for a new group after its limit was lowered, a few at a time", () => {
    const { groups } = manyPassed(5000).ready;
    const before = groups.size;
    assert.ok(!groups.isFull("new", 10));
    assert.ok(groups.size < before && groups.size > before - 500);
    for (let puts = 0; groups.size >= 10; puts++) {
      assert.ok(puts < 1000, "it comes to that");
      assert.ok(!groups.isFull("new", 10));
    }
  });
});

it("has after a start the weight of its youngest job, whatever the order in the log", () => {
  for (const ids of [
    [3, 7, 5],
    [7, 5, 3],
    [5, 3, 7],
  ]) {
    const groups = new JobGroups(new JobTable(), new PriHeap(new JobTable()), 0);
    for (const id of ids) joined(groups, "g", id * 10, id);
    // A job that was moved there says nothing.
    const number = groups.join("g");
    assert.equal(groups.describe(number)!.weight, 70);
    joined(groups, "g", 20);
    assert.equal(groups.describe(number)!.weight, 20, "a put says what it weighs from then on");
  }
});
