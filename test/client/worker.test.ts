// Tests of workers of `runnerbean/client`, and of connections that break, on our server and on
// beanstalkd.

import assert from "node:assert/strict";
import { once } from "node:events";
import { it } from "node:test";
import {
  Closed,
  type ConnectionEvent,
  ConnectionLost,
  connect,
  type Job,
  JobCancelled,
  JobLost,
  NotFound,
  work,
} from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { describeOnEach, jobsOf, statsOf, textOf, waits } from "./client-suite.ts";

describeOnEach("the client", { concurrency: true }, (server) => {
  const { open, openBehind } = server;

  it("works on at most concurrency jobs at a time", async (t) => {
    const [queue, tube] = await open(t);
    await queue.putMany(
      tube,
      Array.from({ length: 200 }, (_, index) => `${index}`),
    );
    let now = 0;
    let most = 0;
    let openGate = (): void => {};
    const gate = new Promise<void>((resolve) => {
      openGate = resolve;
    });
    const done = new Set<string>();
    const worker = work(
      queue,
      [tube],
      async (job) => {
        most = Math.max(most, ++now);
        if (now === 7) openGate();
        await gate;
        await new Promise(setImmediate);
        done.add(textOf(job));
        now--;
      },
      { concurrency: 7, batch: 3 },
    );
    await eventually("all are done", () => done.size === 200);
    await worker.stop();
    assert.equal(most, 7);
    assert.deepEqual(await jobsOf(queue, tube), { ready: 0, reserved: 0, buried: 0 });
  });

  it("aborts the handler of a job that is cancelled, which goes then", async (t) => {
    if (server.isPlain) return;
    const [queue, tube] = await open(t);
    const [first, second] = [
      await queue.put(tube, "stops", { ttr: 1 }),
      await queue.put(tube, "ends", { ttr: 1 }),
    ];
    // The tube stays.
    await queue.put(tube, "later", { delay: 900 });
    const reasons: unknown[] = [];
    const complaints: unknown[] = [];
    const worker = work(
      queue,
      [tube],
      async (job, signal) => {
        await job.touch({ progress: 30, note: "half way" });
        const { progress, note } = await job.inspect();
        assert.deepEqual([progress, note], [30, "half way"]);
        const [aborted] = await Promise.all([
          once(signal, "abort"),
          queue.job(job.id).cancel({ reason: "ä b" }),
        ]);
        assert.ok(aborted.length > 0);
        reasons.push((signal.reason as JobCancelled).reason, signal.reason instanceof JobCancelled);
        assert.equal(job.isOver, false);
        if (textOf(job) === "stops") signal.throwIfAborted();
      },
      {
        concurrency: 2,
        onError: (error) => complaints.push(error),
        onWarning: (error) => complaints.push(error),
      },
    );
    const isGone = async (id: number): Promise<boolean> =>
      queue
        .job(id)
        .stats()
        .then(
          () => false,
          () => true,
        );
    await eventually("both are gone", async () => (await isGone(first.id)) && (await isGone(second.id)));
    await worker.stop();
    assert.deepEqual([reasons, complaints], [["ä b", true, "ä b", true], []]);
    assert.deepEqual(await jobsOf(queue, tube), { ready: 0, reserved: 0, buried: 0 });
    // One was done all the same.
    const { cancelled } = await queue.tube(tube).inspect();
    assert.deepEqual([cancelled, (await queue.tube(tube).stats()).cmdDelete], [1, 1]);
  });

  it("handles a failed job as onError says, and buries it otherwise", async (t) => {
    const [queue, tube] = await open(t);
    const warnings: unknown[] = [];
    await queue.putMany(tube, ["release", "delete", "bury", "throw", "own", "good"]);
    const seen = new Map<string, number>();
    const worker = work(
      queue,
      [tube],
      async (job) => {
        const body = textOf(job);
        const times = (seen.get(body) ?? 0) + 1;
        seen.set(body, times);
        if (body === "own") await job.bury({ pri: 1 });
        else if (body !== "good" && times === 1) throw new Error(body);
      },
      {
        onError: async (error, job) => {
          const { message } = error as Error;
          if (message === "release") await job.release();
          if (message === "delete") await job.delete();
          if (message === "throw") throw new Error("in onError");
        },
        onWarning: (error) => warnings.push(error),
      },
    );
    await eventually("all are over", async () => {
      const { ready, reserved } = await jobsOf(queue, tube);
      return seen.size === 6 && ready + reserved === 0;
    });
    await worker.stop();
    assert.equal(seen.get("release"), 2);
    assert.equal((await queue.tube(tube).stats()).currentJobsBuried, 3);
    assert.deepEqual(
      warnings.map((error) => (error as Error).message),
      ["in onError"],
    );
  });

  it("releases a failed job where its tube limits the attempts", async (t) => {
    const [queue, tube] = await open(t);
    if (!(await queue.extensions()).has("set-tube")) return;
    const dead = `${tube}-dead`;
    await queue.tube(tube).set({ maxAttempts: 3, deadLetter: dead });
    const { id } = await queue.put(tube, "x");
    let calls = 0;
    const fail = (): never => {
      throw new Error(`call ${++calls}`);
    };
    const worker = work(queue, [tube, `${tube}-other`], fail, { onWarning: () => {} });
    const job = queue.job(id);
    await eventually("it is dead", async () => (await job.stats()).tube === dead);
    await worker.stop();
    assert.deepEqual(
      (await job.failures()).map(({ reason }) => reason),
      ["call 3", "call 2", "call 1"],
    );
    await queue.tube(tube).set({ maxAttempts: 3, deadLetter: null });
    const { id: second } = await queue.put(tube, "y");
    const never = work(queue, [tube], fail, { retry: false, onWarning: () => {} });
    await eventually("it is buried", async () => (await queue.job(second).stats()).state === "buried");
    await never.stop();
    assert.equal(calls, 4);
  });

  it("tries a failed job again as often as its retry option says, and then buries it", async (t) => {
    const [queue, tube] = await open(t);
    const { id } = await queue.put(tube, "x");
    const failed: number[] = [];
    let calls = 0;
    const delay = (attempt: number): number => {
      failed.push(attempt);
      return 0;
    };
    const fail = (): never => {
      calls++;
      throw new Error("again");
    };
    const worker = work(queue, [tube], fail, { retry: { attempts: 3, delay }, onWarning: () => {} });
    await eventually("it is buried", async () => (await queue.job(id).stats()).state === "buried");
    await worker.stop();
    assert.deepEqual([calls, failed], [3, [1, 2]]);
    for (const attempts of [0, 1.5])
      assert.throws(() => work(queue, [tube], fail, { retry: { attempts } }), {
        message: `${attempts} is not a valid number of attempts: 1 or more`,
      });
    assert.throws(() => work(queue, [tube], fail, { retry: { delay: -1 } }), /delay/);
  });

  it("tells the server why a job failed", async (t) => {
    const [queue, tube] = await open(t);
    const { id } = await queue.put(tube, "x");
    const job = queue.job(id);
    if (!(await queue.extensions()).has("name")) return;
    assert.deepEqual([await job.attempts(), await job.lastError()], [0, undefined]);
    const worker = work(queue, [tube], () => {
      throw new Error("100% voll: \u20ac\r\n\0");
    });
    await eventually("it is buried", async () => (await job.stats()).state === "buried");
    await worker.stop();
    const { cause, attempt, reason } = (await job.lastError())!;
    assert.deepEqual([cause, attempt, reason], ["buried", 1, "100% voll: \u20ac\r\n\0"]);
    assert.equal(await job.attempts(), 1);
    await job.kick();
    const held = await queue.reserveJob(id);
    await held.release({ reason: "\u20ac".repeat(1000) });
    const [last, first] = await job.failures();
    assert.deepEqual([last!.cause, last!.reason], ["released", "\u20ac".repeat(341)]);
    assert.equal(first!.cause, "buried");
  });

  it("keeps a job for longer than its ttr", async (t) => {
    const [queue, tube] = await open(t);
    const { id } = await queue.put(tube, "slow", { ttr: 3 });
    let end = (): void => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    let begun = 0;
    const slow = work(queue, [tube], () => ++begun > 0 && over, { concurrency: 4 });
    await eventually("its time is over", async () => (await queue.job(id).stats()).age >= 4);
    const { state, timeouts } = await queue.job(id).stats();
    assert.deepEqual([state, timeouts, begun], ["reserved", 0, 1]);
    // Other jobs are done meanwhile, beside it.
    await queue.put(tube, "another");
    await eventually("the other one is begun", () => begun === 2);
    end();
    await slow.stop();
    await assert.rejects(queue.job(id).stats(), NotFound);
  });

  it("learns from a touch that a job's ttr was over", async (t) => {
    const [queue, tube] = await open(t);
    await queue.put(tube, "x", { ttr: 1 });
    const job = await queue.reserve();
    await eventually("it is ready again", async () => (await job.stats()).timeouts === 1);
    assert.equal(job.signal.aborted, false, "the client doesn't know yet");
    assert.equal(await queue.touchAll(), 0);
    assert.ok(job.signal.aborted && job.isOver);
    assert.ok(job.signal.reason instanceof JobLost);
    await assert.rejects(job.release(), JobLost);
    // Finished work need not be repeated.
    await job.delete();
  });

  it("stops a worker when its jobs are done", async (t) => {
    const [queue, tube] = await open(t);
    await queue.putMany(tube, ["a", "b", "c"]);
    const begun: string[] = [];
    let end = (): void => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    const worker = work(queue, [tube], (job) => begun.push(textOf(job)) > 0 && over, { concurrency: 2 });
    await eventually("two are begun", () => begun.length === 2);
    let isStopped = false;
    const stopped = worker.stop().then(() => {
      isStopped = true;
    });
    await queue.put(tube, "d");
    assert.equal(isStopped, false);
    end();
    await stopped;
    assert.deepEqual(begun, ["a", "b"]);
    const { currentJobsReady, currentJobsReserved, currentWatching } = await queue.tube(tube).stats();
    assert.deepEqual([currentJobsReady, currentJobsReserved, currentWatching], [2, 0, 0]);
  });

  it("gives unfinished jobs back after the grace period", async (t) => {
    const [queue, tube] = await open(t);
    const { id } = await queue.put(tube, "endless");
    let signal: AbortSignal | undefined;
    const warnings: unknown[] = [];
    const worker = work(
      queue,
      [tube],
      async (_, given) => {
        signal = given;
        await once(given, "abort");
        throw given.reason;
      },
      { onWarning: (error) => warnings.push(error) },
    );
    await eventually("it is begun", () => signal !== undefined);
    await worker.stop({ graceMs: 1 });
    assert.ok(signal?.reason instanceof JobLost);
    const stats = await queue.job(id).stats();
    assert.deepEqual([stats.state, stats.reserves, stats.timeouts, stats.buries], ["ready", 1, 0, 0]);
    if ((await queue.extensions()).has("update-job")) assert.equal(stats.releases, 1, "no lost attempt");
  });

  it("stops a waiting worker at once", async (t) => {
    const [queue, tube] = await open(t);
    const worker = work(queue, [tube], () => assert.fail("there is no job"));
    await eventually("it waits", async () => (await waits(queue, tube)) === 1);
    await worker.stop();
    await eventually("nobody watches", async () => (await statsOf(queue, tube)) === undefined);
    await worker.stop();
  });

  it("reconnects, and watches and uses the same tubes", async (t) => {
    const events: string[] = [];
    const [queue, tube, proxy] = await openBehind(t, { onConnection: ({ state }) => events.push(state) });
    await queue.put(tube, "before");
    await queue.put(tube, "buried");
    const job = await queue.reserve();
    const waiting = queue.reserveMany(5, { timeout: 30 }).then(async ([second]) => second!.bury());
    await waiting;
    const signalled = once(job.signal, "abort");
    proxy.cut();
    await signalled;
    assert.ok(job.signal.reason instanceof JobLost);
    await assert.rejects(job.touch(), JobLost);
    // `use`: these two concern the tube in use.
    assert.equal(await queue.tube(tube).kick(1), 1);
    await queue.put(tube, "after");
    const again: Job<Uint8Array>[] = [];
    // With extensions, a lost job comes alone.
    while (again.length < 3) again.push(...(await queue.reserveMany(5)));
    assert.deepEqual(again.map(textOf), ["before", "buried", "after"]);
    assert.ok(events.includes("lost") && events.at(-1) === "connected", `${events}`);
  });

  it("waits again for a job after the connection breaks", async (t) => {
    const [queue, tube, proxy] = await openBehind(t);
    const [direct] = await open(t);
    const waiting = queue.reserve();
    await eventually("it waits", async () => (await waits(direct, tube)) === 1);
    proxy.cut();
    await direct.put(tube, "x");
    assert.equal(textOf(await waiting), "x");
  });

  it("reports a command in flight as sent with unknown outcome", async (t) => {
    const [queue, tube, proxy] = await openBehind(t);
    await queue.put(tube, "first");
    // From here on, the client knows where job ids are valid.
    await assert.rejects(queue.job(1_000_000).stats(), NotFound);
    proxy.holdReplies();
    const putting = queue.put(tube, "second");
    const reading = queue.job(1_000_000).stats();
    const [direct] = await open(t);
    await eventually("the server has it", async () => (await direct.tube(tube).stats()).totalJobs === 2);
    proxy.cut();
    await assert.rejects(putting, (error) => error instanceof ConnectionLost && error.sent);
    // Commands that change nothing are sent again.
    proxy.letRepliesGo();
    await assert.rejects(reading, NotFound);
  });

  it("lets commands wait for a connection in order, up to offlineMs", async (t) => {
    const lost = new Set<string>();
    const [queue, tube, proxy] = await openBehind(t, {
      offlineMs: 60_000,
      onConnection: (event) => lost.add(`queue ${event.state}`),
    });
    const onConnection = (event: ConnectionEvent): unknown => lost.add(`hasty ${event.state}`);
    const hasty = await connect(proxy.address, { retryMs: [1, 20], offlineMs: 20, onConnection });
    t.after(() => hasty.close());
    await Promise.all([queue.put(tube, "0"), hasty.put(tube, "0")]);
    proxy.isRefusing = true;
    proxy.cut();
    await eventually("both know it", () => lost.has("queue lost") && lost.has("hasty lost"));
    await assert.rejects(hasty.put(tube, "lost"), (error) => error instanceof ConnectionLost && !error.sent);
    const putting = Array.from({ length: 50 }, (_, index) => queue.put(tube, `${index + 1}`));
    await assert.rejects(hasty.put(tube, "lost"), /no connection within 20 ms/);
    proxy.isRefusing = false;
    await Promise.all(putting);
    const jobs: Job<Uint8Array>[] = [];
    while (jobs.length < 52) jobs.push(...(await queue.reserveMany(100)));
    assert.deepEqual(
      jobs.slice(2).map(textOf),
      Array.from({ length: 50 }, (_, index) => `${index + 1}`),
    );
  });

  it("continues to work after the connection broke, and repeats lost jobs", async (t) => {
    const [queue, tube, proxy] = await openBehind(t);
    await queue.putMany(
      tube,
      Array.from({ length: 20 }, (_, index) => `${index}`),
    );
    const begun: string[] = [];
    const lost: unknown[] = [];
    const worker = work(
      queue,
      [tube],
      async (job, signal) => {
        begun.push(textOf(job));
        if (begun.length > 4) return;
        await once(signal, "abort");
        lost.push(signal.reason);
        throw signal.reason;
      },
      { concurrency: 4 },
    );
    await eventually("four are begun", () => begun.length === 4);
    proxy.cut();
    await eventually("all are done", () => new Set(begun).size === 20 && begun.length === 24);
    await worker.stop();
    assert.equal(lost.length, 4);
    assert.ok(lost.every((reason) => reason instanceof JobLost));
    assert.deepEqual(await jobsOf(queue, tube), { ready: 0, reserved: 0, buried: 0 });
  });

  it("loses nothing on a network that keeps breaking", async (t) => {
    const [queue, tube, network] = await openBehind(t, { retryMs: [1, 5] });
    const [direct] = await open(t);
    const count = 150;
    const done = new Set<string>();
    let begun = 0;
    const unexpected: unknown[] = [];
    const worker = work(
      queue,
      [tube],
      async (job, signal) => {
        if (++begun % 20 === 0) network.cut();
        await new Promise(setImmediate);
        signal.throwIfAborted();
        done.add(textOf(job));
      },
      {
        concurrency: 5,
        onError: (error) => unexpected.push(error),
        onWarning: (error) => {
          const isExpected =
            error instanceof ConnectionLost || error instanceof JobLost || error instanceof NotFound;
          if (!isExpected) unexpected.push(error);
        },
      },
    );
    for (let body = 0; body < count; ) {
      try {
        await queue.put(tube, `${body}`);
        body++;
      } catch (error) {
        assert.ok(error instanceof ConnectionLost && error.sent);
      }
    }
    await eventually("all are done", async () => {
      const { ready, reserved } = await jobsOf(direct, tube);
      return done.size === count && ready + reserved === 0;
    });
    await worker.stop();
    assert.deepEqual(unexpected, []);
    assert.ok(network.connections > count / 20, "it broke");
    assert.equal((await jobsOf(direct, tube)).buried, 0);
  });

  it("ends waits, gives jobs back and takes no more when closed", async (t) => {
    const [direct, tube] = await open(t);
    const queue = await connect(server.address);
    queue.watch(tube);
    const { id } = await queue.put(tube, "x");
    await queue.reserve();
    const waiting = assert.rejects(queue.reserve(), Closed);
    const put = queue.put(tube, "the last");
    await queue.close();
    await Promise.all([waiting, put]);
    await assert.rejects(queue.put(tube, "x"), Closed);
    await assert.rejects(queue.reserve(), Closed);
    const unused = await connect(server.address);
    await unused.close();
    await assert.rejects(unused.reserve(), Closed);
    await eventually("it is ready", async () => (await direct.job(id).stats()).state === "ready");
    assert.equal((await direct.tube(tube).stats()).totalJobs, 2);
  });
});
