// Tests of jobs that change their tube or return when they have expired, or when a tube existed
// only for them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Outcome } from "../../../src/engine/engine.ts";
import { MoveOutcome } from "../../../src/engine/job-walk.ts";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import { TracedEngine } from "./traced-engine.ts";

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
