// Tests of what two policies do to one job or tube together: keys, attempts and dead letters of
// jobs that move, waits and delays, limits and pauses.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { JobState, NO_SLOT } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { spanOf } from "../../../../src/engine/policies/policies.ts";
import type { Session } from "../../../../src/engine/state/session.ts";
import { Travel } from "../../../../src/engine/transfers.ts";
import { DeathReason } from "../../../../src/protocol/job-attribute.ts";
import type { Span } from "../../../../src/protocol/request.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import { fixedCounters } from "../../../../src/schema/job.ts";
import { TracedEngine } from "../traced-engine.ts";

class Bench extends TracedEngine {
  /** Puts a job with the key `k`. */
  putKeyed(id: number, tube: string, fields: Partial<JobAttributes> = {}, untilReserve = false): string {
    const keyed = new JobAttributes();
    keyed.setKey(Buffer.from("k"), 0, 1, untilReserve);
    return this.put(id, { tube }, Object.assign(keyed, fields)).split(":")[0]!;
  }

  move(id: number, tube: string): void {
    this.does((engine, nowMs) => engine.changes.move(engine.find(id), tube, false, nowMs));
  }

  release(id: number, delaySeconds = 0, reason?: Span): string {
    return this.does((engine, nowMs) =>
      engine.release(engine.session(0), id, 0, delaySeconds, nowMs, reason),
    );
  }

  bury(id: number): string {
    return this.does((engine, nowMs) => engine.bury(engine.session(0), id, 0, nowMs));
  }

  /** The session waits for a job. */
  waits(session: Session): void {
    this.engine.reserve(session, Number.POSITIVE_INFINITY, this.nowMs);
    this.take();
  }

  /** Whether the tube has a job with the key `k`. */
  hasKey(tube: string): boolean {
    const keyed = new JobAttributes();
    keyed.setKey(Buffer.from("k"), 0, 1, false);
    return this.engine.hasKey(tube, keyed);
  }

  failures(id: number): number {
    return this.engine.policies.failures.of(this.engine.find(id)).length;
  }
}

describe("a job with a key that moves to another tube", () => {
  it("has its key there, and not where it was", () => {
    const bench = new Bench();
    bench.session(0);
    bench.putKeyed(1, "t");
    bench.move(1, "u");
    assert.deepEqual([bench.hasKey("t"), bench.hasKey("u")], [false, true]);
    assert.equal(bench.putKeyed(2, "u"), "duplicate");
    assert.equal(bench.putKeyed(2, "t"), "done");
  });

  it("has none there after a reservation that ended it", () => {
    const bench = new Bench();
    bench.putKeyed(1, "t", {}, true);
    bench.hold(1);
    bench.release(1);
    bench.move(1, "u");
    assert.deepEqual([bench.hasKey("t"), bench.hasKey("u")], [false, false]);
    assert.equal(bench.putKeyed(2, "u"), "done");
  });

  it("goes on without if another job has it there, there are too many, or no memory is left", () => {
    for (const why of ["taken", "full", "memory"]) {
      const bench = new Bench();
      bench.session(0);
      bench.putKeyed(1, "t");
      const { table } = bench.engine.policies.keys;
      if (why === "taken") bench.putKeyed(2, "u");
      else if (why === "full") Object.defineProperty(table, "isFull", { value: true });
      else
        table.add = () => {
          throw new RangeError("no memory");
        };
      bench.move(1, "u");
      assert.match(bench.job(1), /^u ready/, why);
      assert.deepEqual([bench.hasKey("t"), bench.hasKey("u")], [false, why === "taken"], why);
    }
  });

  it("has none while it is dead, and its key again where it lives on", () => {
    const bench = new Bench();
    bench.set("t", { maxAttempts: 1, deadLetter: "u" });
    bench.putKeyed(1, "t");
    bench.hold(1);
    bench.release(1);
    assert.match(bench.job(1), /^u ready/);
    assert.deepEqual([bench.hasKey("t"), bench.hasKey("u")], [false, false]);
    bench.move(1, "v");
    assert.deepEqual([bench.hasKey("u"), bench.hasKey("v")], [false, true]);
  });
});

it("a dead job that comes from another shard leaves its key to others, and a living one takes it", () => {
  for (const reason of [DeathReason.None, DeathReason.Attempts]) {
    const bench = new Bench();
    bench.session(0);
    const attributes = new JobAttributes();
    attributes.setKey(Buffer.from("k"), 0, 1, false);
    Object.assign(attributes, { reason, origin: reason === 0 ? Buffer.alloc(0) : Buffer.from("t") });
    const facts = { id: 1, pri: 0, delaySeconds: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0, tube: "u" };
    const counts = { counters: fixedCounters({ reserves: 2 }), file: 0 };
    const job = { ...facts, ...counts, state: JobState.Buried, deadlineAtMs: 0 };
    const arrival = { travel: Travel.Death, asReady: false, delayMs: undefined };
    bench.does((engine) => engine.transfers.arrive(job, EMPTY_BODY, attributes, arrival, 0));
    assert.match(bench.job(1), /^u ready/);
    assert.equal(bench.hasKey("u"), reason === DeathReason.None);
  }
});

describe("a job that dies", () => {
  it("stays where it dies for the second time, whatever dead-letter tube that has", () => {
    const bench = new Bench();
    bench.set("t", { maxAttempts: 1, deadLetter: "u" });
    bench.set("u", { maxAttempts: 2, deadLetter: "v" });
    bench.put(1);
    bench.hold(1);
    bench.release(1);
    bench.hold(1);
    bench.release(1);
    assert.match(bench.job(1), /^u buried/);
    assert.equal(bench.tube("v"), "none");
  });

  it("did not lose an attempt when the server stopped, or its client never got it", () => {
    const bench = new Bench();
    bench.set("t", { maxAttempts: 1 });
    bench.put(1);
    bench.hold(1);
    bench.does((engine, nowMs) => engine.giveBackOne(engine.session(0), 1, nowMs));
    assert.match(bench.job(1), /^t ready .* excused 1/);
    bench.hold(1);
    bench.session(0).endsWithServer = true;
    bench.does((engine, nowMs) => engine.giveBack(engine.session(0), 1, nowMs));
    assert.match(bench.job(1), /^t ready .* excused 2/);
    bench.session(0).endsWithServer = false;
    bench.hold(1);
    bench.does((engine, nowMs) => engine.giveBack(engine.session(0), 1, nowMs));
    assert.match(bench.job(1), /^t buried/, "a lost connection is an attempt");
  });

  it("has all its attempts again in the tube that it is moved to", () => {
    const bench = new Bench();
    bench.set("t", { maxAttempts: 2 });
    bench.set("u", { maxAttempts: 2 });
    bench.put(1);
    for (let attempt = 0; attempt < 2; attempt++) {
      bench.hold(1);
      bench.release(1);
    }
    assert.match(bench.job(1), /^t buried/);
    bench.move(1, "u");
    assert.match(bench.job(1), /^u ready .* excused 2/);
    bench.hold(1);
    bench.release(1);
    assert.match(bench.job(1), /^u ready/, "that was the first of two");
  });

  it("lets a waiting client have the next job of a tube that gives one at a time", () => {
    for (const settings of [{ maxAttempts: 1 }, { maxAttempts: 1, deadLetter: "u" }, { backoffMs: 5000 }]) {
      const bench = new Bench();
      const waiting = bench.session(1, "t");
      bench.set("t", { maxReserved: 1, ...settings });
      bench.put(1);
      bench.put(2);
      bench.hold(1);
      bench.waits(waiting);
      assert.match(bench.release(1), /1: gets 2/, JSON.stringify(settings));
    }
  });
});

describe("backoff", () => {
  it("gives way to a delay of the client, and is what the job's delay shows", () => {
    const bench = new Bench();
    bench.set("t", { backoffMs: 8000, backoffMaxMs: 8000 });
    bench.put(1);
    bench.hold(1);
    bench.release(1, 1);
    assert.match(bench.job(1), /^t delayed delay 1 .* at 1000/);
    bench.wait(1000);
    bench.hold(1);
    bench.release(1);
    const [, delay, at = ""] = /delay (\d+) .* at (\d+)/.exec(bench.job(1))!;
    assert.ok(Number(at) > 7000 - 1 && Number(at) <= 9000, at);
    assert.equal(Number(delay), Math.floor((Number(at) - 1000) / 1000));
  });

  it("begins anew after a kick, also without a limit of attempts", () => {
    const bench = new Bench();
    bench.set("t", { backoffMs: 1000 });
    bench.put(1);
    const waitMs = (): number => {
      bench.hold(1);
      bench.release(1);
      return Number(/at (\d+)/.exec(bench.job(1))![1]) - bench.nowMs;
    };
    for (const [least, most] of [
      [750, 1000],
      [1500, 2000],
      [3000, 4000],
    ] as const) {
      const ms = waitMs();
      assert.ok(ms >= least && ms <= most, `${ms}`);
      bench.wait(ms);
    }
    bench.hold(1);
    bench.bury(1);
    bench.does((engine, nowMs) => engine.kickJob(1, nowMs));
    assert.ok(waitMs() <= 1000);
  });
});

it("a kick of a job that nobody has reserved makes nothing of its attempts", () => {
  const bench = new Bench();
  bench.set("t", { maxAttempts: 2 });
  bench.put(1, { delaySeconds: 9 });
  bench.does((engine, nowMs) => engine.kickJob(1, nowMs));
  assert.match(bench.job(1), /^t ready delay 9 kicks 1/);
  const { extras } = bench.engine.jobs.pageOf(bench.engine.find(1));
  assert.ok(extras === undefined, "it needs no extras");
});

it("a release counts as a failure if it has a reason, and not if that is empty", () => {
  const bench = new Bench();
  bench.put(1);
  for (const [reason, has] of [
    [undefined, false],
    ["", false],
    ["why", true],
  ] as const) {
    bench.hold(1);
    bench.release(1, 0, reason === undefined ? undefined : spanOf(Buffer.from(reason)));
    assert.equal(bench.failures(1) > 0, has, `${reason}`);
  }
});

describe("a rate", () => {
  const limited = (): Bench => {
    const bench = new Bench();
    bench.session(0, "t");
    bench.set("t", { rate: "1/10", burst: 1 });
    for (const id of [1, 2, 3]) bench.put(id);
    return bench;
  };

  it("counts each time that it closes its tube, once", () => {
    const bench = limited();
    assert.doesNotMatch(bench.tube("t"), /rateWaits/);
    bench.hold(1);
    assert.match(bench.tube("t"), /rateWaits 1$/);
    for (let ms = 0; ms < 3; ms++) bench.wait(1000);
    bench.release(1);
    bench.put(4);
    assert.match(bench.tube("t"), /rateWaits 1$/, "it is closed all the time");
    bench.wait(10_000);
    bench.hold(2);
    assert.match(bench.tube("t"), /rateWaits 2$/);
  });

  it("wakes nobody in a pause, and gives a job at its end", () => {
    const bench = limited();
    bench.hold(1);
    bench.does((engine, nowMs) => engine.pause("t", 60, nowMs));
    const session = bench.session(1, "t");
    bench.waits(session);
    assert.equal(bench.wait(30_000), "", "tokens that come meanwhile open nothing");
    assert.match(bench.wait(30_000), /1: gets 2/);
  });
});

describe("a reserve-job", () => {
  it("finds no job that waits for a batch, before or in its delay", () => {
    const bench = new Bench();
    const { batches } = bench.engine;
    const facts = {
      number: 1,
      name: "b1",
      keepMs: 0,
      openedAtMs: 0,
      completeAtMs: 0,
      allFailed: 0,
      allDone: 0,
    };
    batches.assume({ ...facts, state: BatchState.Open, outcome: BatchOutcome.None });
    bench.put(1, {}, { afterName: "b1" });
    assert.equal(bench.hold(1), "notfound");
    assert.match(bench.job(1), /^t delayed/);
  });

  it("finds no job whose time to live is over, though more were due than a turn allows", () => {
    const bench = new Bench({ turnDueMax: 2 });
    bench.session(0, "t");
    for (const id of [1, 2, 3, 4]) bench.put(id, {}, { expiresAtMs: 1000 });
    bench.put(5);
    bench.nowMs = 1000;
    bench.engine.beginTurn();
    assert.match(bench.hold(4), /^notfound/);
    assert.deepEqual(
      [1, 2, 3, 4].map((id) => bench.engine.find(id) === NO_SLOT),
      [true, true, false, false],
      "two are due in a turn",
    );
    const listed = [3, 4, 5].map((id) => ({ id, pri: 0, bodyBytes: 0 }));
    const slots: number[] = [];
    bench.engine.batchReserves.take(bench.session(0), listed, true, bench.nowMs, slots);
    assert.deepEqual(bench.ids(slots), [0, 0, 5], "and neither does a batch");
  });
});

describe("pauses that end together", () => {
  const paused = (turnDueMax: number): Bench => {
    const bench = new Bench({ turnDueMax });
    for (const [tube, ids] of Object.entries({ t: [1, 4], u: [2, 3], v: [5, 6] })) {
      for (const id of ids) bench.put(id, { tube, pri: id });
      bench.does((engine, nowMs) => engine.pause(tube, 1, nowMs));
    }
    for (const index of [1, 2, 3, 4, 5]) bench.waits(bench.session(index, "t", "u", "v"));
    bench.nowMs = 1000;
    bench.engine.beginTurn();
    return bench;
  };

  it("give all jobs that are waited for, the best first", () => {
    const bench = paused(100);
    bench.engine.runDue(1000);
    assert.equal(
      bench.take().replaceAll(/waited \d+, /g, ""),
      [1, 2, 3, 4, 5].map((index) => `${index}: gets ${index}`).join(", "),
    );
  });

  it("are no more in a turn than it allows", () => {
    const bench = paused(2);
    const paused_ = (): number =>
      ["t", "u", "v"].filter((name) => bench.engine.findTube(name)!.paused).length;
    bench.engine.runDue(1000);
    assert.equal(paused_(), 1);
    bench.engine.beginTurn();
    bench.engine.runDue(1000);
    assert.equal(paused_(), 0);
  });
});
