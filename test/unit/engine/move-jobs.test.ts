// Tests of jobs that change their tube or return when they have expired, or when a tube existed
// only for them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine, Outcome, ReserveOutcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobAttributes } from "../../../src/engine/jobs/job-attributes.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import type { Session } from "../../../src/engine/waiting/session.ts";
import { MoveOutcome } from "../../../src/engine/walks/tube-moving.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";

const EXPIRES_AT_MS = 1000;
const LATER_MS = 2000;
const NO_CHANGE: JobChange = {
  pri: undefined,
  ttrSeconds: undefined,
  delayMs: undefined,
  ttlMs: undefined,
  tube: undefined,
};

/**
 * An engine, and two clients: one that changes jobs, and uses and watches nothing; one that waits
 * for those of `b`.
 */
class Bench {
  /** Ids of the jobs that were given to the one that waits. */
  readonly given: number[] = [];
  readonly engine: Engine;
  readonly client: Session;
  #sequence = 0;

  constructor() {
    this.engine = new Engine({
      effects: {
        reserved: (_, slot) => this.given.push(this.engine.jobs.pageOf(slot).id[rowOf(slot)]!),
        timedOut() {},
        deadlineSoon() {},
        waitDue() {},
        claim: () => true,
        stillWaiting: () => true,
        nextTubeSequence: () => ++this.#sequence,
      },
      ownsDefaultTube: true,
    });
    this.client = this.engine.session(0);
  }

  put(id: number, tube: string, expiresAtMs: number): void {
    const attributes = new JobAttributes();
    attributes.expiresAtMs = expiresAtMs;
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    assert.equal(this.engine.put(this.client, job, EMPTY_BODY, 0, tube, attributes), Outcome.Done);
  }

  hold(id: number): void {
    assert.equal(this.engine.reserveJob(this.client, id, 0), Outcome.Done);
  }

  bury(id: number): void {
    this.hold(id);
    assert.equal(this.engine.bury(this.client, id, 0, 0), Outcome.Done);
  }

  wait(): void {
    const waiting = this.engine.session(1);
    this.engine.watch(waiting, "b");
    assert.equal(this.engine.reserve(waiting, 60_000, LATER_MS), ReserveOutcome.Waits);
  }

  /** Its only attempt is over: it is buried in its tube. */
  die(id: number, tube: string): void {
    setTubes(this.engine, tube, { maxAttempts: 1 }, 0);
    this.hold(id);
    assert.equal(this.engine.release(this.client, id, 0, 0, 0), Outcome.Done);
  }

  update(id: number, change: Partial<JobChange>, nowMs = LATER_MS): void {
    const outcome = this.engine.update(this.client, id, { ...NO_CHANGE, ...change }, nowMs);
    assert.equal(outcome, Outcome.Done);
  }

  check(): void {
    checkInvariants(this.engine, [0, 1]);
  }
}

describe("a job that has expired while it was held or buried", () => {
  it("disappears with its tube when its holder releases it", () => {
    for (const change of [{ tube: "a" }, { delayMs: 0 }, { delayMs: 500 }, { tube: "a", delayMs: 500 }]) {
      const bench = new Bench();
      bench.put(1, "a", EXPIRES_AT_MS);
      bench.hold(1);
      bench.update(1, change);
      assert.equal(bench.engine.jobs.live, 0);
      assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
      bench.check();
    }
  });

  it("disappears with both tubes when its holder sends it to another, and leaves no rate timer", () => {
    const bench = new Bench();
    setTubes(bench.engine, "b", { rate: "1/1000" }, 0);
    bench.put(1, "b", 0);
    bench.hold(1);
    assert.equal(bench.engine.delete(bench.client, 1, 0), Outcome.Done);
    bench.put(2, "a", EXPIRES_AT_MS);
    bench.hold(2);
    bench.update(2, { tube: "b" });
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.check();
  });

  it("disappears when it is kicked, and leaves no rate timer", () => {
    const bench = new Bench();
    setTubes(bench.engine, "a", { rate: "1/1000" }, 0);
    bench.put(1, "a", EXPIRES_AT_MS);
    bench.bury(1);
    assert.equal(bench.engine.kickJob(1, LATER_MS), Outcome.Done);
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.check();
  });

  it("disappears when it is moved as ready", () => {
    const bench = new Bench();
    bench.put(1, "a", EXPIRES_AT_MS);
    bench.bury(1);
    bench.wait();
    assert.equal(bench.engine.move(bench.engine.find(1), "b", true, LATER_MS), MoveOutcome.Moved);
    assert.deepEqual(bench.given, []);
    assert.equal(bench.engine.jobs.live, 0);
    bench.check();
  });

  it("disappears if it was dead and update-job sends it to a tube where it lives again", () => {
    for (const change of [{ tube: "b" }, { tube: "b", delayMs: 0 }, { tube: "b", delayMs: 500 }]) {
      const bench = new Bench();
      bench.put(1, "a", 0);
      bench.die(1, "a");
      bench.update(1, { ttlMs: EXPIRES_AT_MS }, 0);
      bench.wait();
      bench.update(1, change);
      assert.deepEqual(bench.given, []);
      assert.equal(bench.engine.jobs.live, 0);
      assert.deepEqual([...bench.engine.tubes.keys()], ["default", "b"]);
      bench.check();
    }
  });

  it("removes the tube to which an update-job sends it", () => {
    const bench = new Bench();
    bench.put(1, "a", 0);
    bench.die(1, "a");
    bench.update(1, { ttlMs: EXPIRES_AT_MS }, 0);
    bench.update(1, { tube: "c" });
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.check();
  });

  it("removes the tube to which it was moved", () => {
    const bench = new Bench();
    bench.put(1, "a", EXPIRES_AT_MS);
    bench.bury(1);
    bench.engine.move(bench.engine.find(1), "c", true, LATER_MS);
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.check();
  });
});

it("a moved ready job is offered in its new tube, also with a delay of 0", () => {
  const bench = new Bench();
  bench.put(1, "a", 0);
  bench.wait();
  bench.update(1, { tube: "b", delayMs: 0 });
  assert.deepEqual(bench.given, [1]);
  bench.check();
});
