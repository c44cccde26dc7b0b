// Tests of an engine's reservations, timers, pauses and kicks.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineBench } from "./engine-bench.ts";

describe("Engine ends reservations", () => {
  it("after the deadline, not at it, and counts", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 2 });
    bench.reserve(holder);
    bench.jump(2000);
    assert.equal(bench.touch(holder, 1), "done");
    bench.jump(2000.5);
    assert.equal(bench.touch(holder, 1), "not found");
    assert.equal(bench.engine.jobTimeouts, 1);
    assert.equal(bench.delete(bench.session(2, "t"), 1), "done");
    bench.check();
  });

  it("of one session in the order of deadlines", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    const [slow, fast] = [bench.put(holder, { ttr: 5, pri: 0 }), bench.put(holder, { ttr: 3, pri: 9 })];
    bench.reserve(holder);
    bench.reserve(holder);
    const waiters = [2, 3].map((index) => bench.session(index, "t", "t"));
    for (const waiter of waiters) bench.reserve(waiter);
    assert.deepEqual(bench.jump(10_000), [`session 2: job ${fast}`, `session 3: job ${slow}`]);
  });

  it("and gives the job to its own late holder if it waits", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 10 });
    bench.reserve(holder);
    assert.equal(bench.reserve(holder), "waits");
    // A stall beyond margin and deadline: the job wins over the warning.
    assert.deepEqual(bench.jump(11_000), ["session 1: job 1"]);
  });
});

describe("Engine warns of a deadline (protocol/README.md 4.4)", () => {
  it("one second before it while the holder waits", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 3 });
    bench.reserve(holder);
    assert.equal(bench.reserve(holder), "waits");
    assert.deepEqual(bench.jump(1999), []);
    assert.deepEqual(bench.jump(1), ["session 1: deadline soon"]);
  });

  it("at once in the margin, before a timeout, but after a job", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 1 });
    bench.put(holder);
    bench.reserve(holder);
    assert.equal(bench.reserve(holder, 0), "job 2");
    assert.equal(bench.reserve(holder, 0), "deadline soon");
  });

  it("anew after a touch", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 4 });
    bench.reserve(holder);
    bench.jump(2500);
    bench.touch(holder, 1);
    assert.equal(bench.reserve(holder, 1), "waits");
    assert.deepEqual(bench.jump(1000), ["session 1: timed out"]);
    assert.equal(bench.reserve(holder, 5), "waits");
    assert.deepEqual(bench.jump(1999), []);
    assert.deepEqual(bench.jump(1), ["session 1: deadline soon"]);
  });

  it("instead of a timeout of the same moment", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 3 });
    bench.reserve(holder);
    bench.reserve(holder, 2);
    assert.deepEqual(bench.jump(2000), ["session 1: deadline soon"]);
  });

  it("although a paused tube has a job", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t", "p");
    bench.put(holder, { ttr: 1 });
    bench.reserve(holder);
    bench.put(bench.session(2, "p"));
    bench.engine.pause("p", 100, 0);
    assert.equal(bench.reserve(holder), "deadline soon");
  });

  it("to the acceptor of a wait over several shards, once", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    bench.put(holder, { ttr: 3 });
    bench.reserve(holder);
    bench.engine.waitShared(holder, 2500, 0);
    assert.deepEqual(bench.jump(2000), ["session 1: wait due"]);
    assert.deepEqual(bench.jump(600), []);
    bench.engine.stopSharedWait(holder, 0);
    bench.check();
  });
});

describe("Engine runs timers", () => {
  it("of delayed jobs by deadline, not by priority (protocol/README.md 11)", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "t");
    const later = bench.put(producer, { pri: 0, delay: 3 });
    const sooner = bench.put(producer, { pri: 9, delay: 2 });
    const waiters = [1, 2].map((index) => bench.session(index, "t", "t"));
    for (const waiter of waiters) bench.reserve(waiter);
    assert.deepEqual(bench.jump(1999), []);
    assert.deepEqual(bench.jump(5000), [`session 1: job ${sooner}`, `session 2: job ${later}`]);
  });

  it("of delayed jobs and pauses before those of sessions", () => {
    const bench = new EngineBench();
    const waiter = bench.session(1, "t", "t", "p");
    bench.put(bench.session(2, "t"), { delay: 1 });
    assert.equal(bench.reserve(waiter, 1), "waits");
    assert.deepEqual(bench.jump(1000), ["session 1: job 1"]);
    bench.put(bench.session(3, "p"));
    bench.engine.pause("p", 1, bench.nowMs);
    bench.delete(bench.session(3, "p"), 2);
    bench.put(bench.session(3, "p"));
    assert.equal(bench.reserve(waiter, 1), "waits");
    assert.deepEqual(bench.jump(1000), ["session 1: job 3"]);
  });

  it("and reports when the next is due", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    assert.equal(bench.engine.nextDueAtMs, Number.POSITIVE_INFINITY);
    bench.put(session, { delay: 10 });
    assert.equal(bench.engine.nextDueAtMs, 10_000);
    bench.engine.pause("t", 4, 0);
    assert.equal(bench.engine.nextDueAtMs, 4000);
    bench.reserve(session, 2);
    assert.equal(bench.engine.nextDueAtMs, 2000);
    assert.deepEqual(bench.jump(2000), ["session 1: timed out"]);
    assert.equal(bench.engine.nextDueAtMs, 4000);
    bench.jump(2000);
    assert.equal(bench.engine.nextDueAtMs, 10_000);
    bench.jump(6000);
    assert.equal(bench.engine.nextDueAtMs, Number.POSITIVE_INFINITY);
    bench.reserve(session);
    assert.equal(Math.floor(bench.engine.nextDueAtMs), 70_000);
  });

  it("with the largest delay and TTR", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    bench.put(session, { delay: 4294967295, ttr: 4294967295 });
    bench.put(session, { ttr: 4294967295 });
    bench.reserve(session);
    assert.equal(bench.engine.nextDueAtMs, 4294967295000);
    bench.jump(4294967294999);
    assert.equal(bench.engine.jobCounts[4], 1);
  });
});

describe("Engine pauses tubes", () => {
  it("keeping waiters until the end, then serving the best job first over all of them", () => {
    const bench = new EngineBench();
    const waiter = bench.session(1, "t", "p", "q");
    const producer = bench.session(2, "p");
    bench.session(3, "q");
    bench.engine.pause("p", 1, 0);
    bench.engine.pause("q", 1, 0);
    bench.reserve(waiter);
    bench.put(producer, { pri: 9 });
    bench.engine.use(producer, "q");
    bench.put(producer, { pri: 1 });
    assert.deepEqual(bench.takeEffects(), []);
    assert.deepEqual(bench.jump(999), []);
    assert.deepEqual(bench.jump(1), ["session 1: job 2"]);
  });

  it("with the latest length, and not at all with 0", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "p", "p");
    bench.put(session);
    bench.engine.pause("p", 100, 0);
    bench.engine.pause("p", 1, 0);
    assert.equal(bench.reserve(session), "waits");
    assert.deepEqual(bench.jump(1000), ["session 1: job 1"]);
    bench.engine.pause("p", 100, bench.nowMs);
    bench.release(session, 1);
    assert.equal(bench.reserve(session), "waits");
    bench.engine.pause("p", 0, bench.nowMs);
    assert.deepEqual(bench.takeEffects(), ["session 1: job 1"]);
  });

  it("only against reserve", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "p", "p");
    bench.put(session);
    bench.engine.pause("p", 100, 0);
    assert.equal(bench.reserveJob(session, 1), "done");
    assert.equal(bench.release(session, 1), "done");
    assert.equal(bench.delete(session, 1), "done");
    assert.equal(bench.engine.pause("nowhere", 1, 0), false);
  });

  it("until the tube is no longer needed", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "q");
    bench.engine.pause("q", 100, 0);
    bench.engine.use(session, "default");
    assert.equal(bench.engine.findTube("q"), undefined);
    bench.engine.use(session, "q");
    assert.equal(bench.engine.findTube("q")!.paused, false);
    assert.equal(bench.engine.nextDueAtMs, Number.POSITIVE_INFINITY);
    bench.check();
  });
});

describe("Engine kicks (protocol/README.md 6)", () => {
  it("buried jobs in the order of their burial, and no delayed ones with them", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    for (let i = 0; i < 5; i++) bench.put(session);
    for (let i = 0; i < 5; i++) bench.reserve(session);
    bench.put(session, { delay: 10 });
    for (const id of [3, 1, 5, 2]) bench.bury(session, id, id);
    const buried = (): number[] =>
      [3, 1, 5, 2].filter((id) => bench.engine.findTube("t")!.buried.first === bench.engine.find(id));
    assert.deepEqual(buried(), [3]);
    assert.equal(bench.kick(session, 2), 2);
    assert.deepEqual(buried(), [5]);
    assert.equal(bench.engine.kickJob(2, 0), 0);
    assert.equal(bench.kick(session, 100), 1);
    assert.equal(bench.kick(session, 0), 0);
    assert.equal(bench.kick(session, 100), 1);
    bench.check();
    assert.deepEqual(
      [1, 2, 3, 4].map(() => bench.reserve(session)),
      ["job 6", "job 1", "job 2", "job 3"],
    );
  });

  it("delayed jobs soonest first", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    for (const delay of [30, 10, 20]) bench.put(session, { delay });
    assert.equal(bench.kick(session, 1), 1);
    assert.equal(bench.reserve(session), "job 2");
  });

  it("one after the other, each offered before the next", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    const [older, better] = [bench.put(session), bench.put(session)];
    bench.reserve(session);
    bench.reserve(session);
    bench.bury(session, older, 9);
    bench.bury(session, better, 1);
    bench.reserve(session);
    assert.equal(bench.kick(session, 2), 2);
    assert.deepEqual(bench.takeEffects(), [`session 1: job ${older}`]);
  });
});

describe("Engine forgets", () => {
  it("a session: its jobs are ready, its tubes are gone, its wait is over", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "mine", "mine", "other");
    const [first, second] = [bench.put(session), bench.put(session)];
    bench.reserve(session);
    bench.reserve(session);
    bench.delete(session, second);
    bench.reserve(session);
    bench.engine.closeSession(session, 0);
    assert.deepEqual(bench.takeEffects(), []);
    assert.equal(bench.engine.waitingAlone, 0);
    assert.deepEqual([...bench.engine.tubes.keys()], ["default", "mine"]);
    assert.equal(bench.delete(bench.session(2, "default"), first), "done");
    assert.deepEqual([...bench.engine.tubes.keys()], ["default"]);
    bench.check();
  });

  it("only the wait of a half-closed session", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    bench.reserve(session);
    bench.engine.halfClose(session, 0);
    assert.deepEqual(bench.takeEffects(), ["session 1: timed out"]);
    assert.equal(bench.reserve(session), "timed out");
    bench.put(session);
    assert.equal(bench.reserve(session), "job 1");
  });
});

describe("the delay of a put", () => {
  it("counts from its sending, even if its shard's turn began earlier", () => {
    const bench = new EngineBench();
    const session = bench.session(1, "t", "t");
    bench.put(session, { delay: 2, sentAfterMs: 30 });
    bench.reserve(session);
    assert.deepEqual(bench.jump(2029), []);
    assert.deepEqual(bench.jump(1), ["session 1: job 1"]);
  });
});
