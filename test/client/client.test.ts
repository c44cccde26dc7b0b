// Tests of the client `runnerbean/client` on our server and on beanstalkd: the same, except for
// extensions.

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, describe, it, type TestContext } from "node:test";
import { shardOfTube } from "../../src/base/tube-hash.ts";
import {
  BadFormat,
  Closed,
  type ConnectionEvent,
  ConnectionLost,
  type ConnectOptions,
  connect,
  type Job,
  JobLost,
  JobTooBig,
  json,
  NotFound,
  NotSupported,
  type Queue,
  TubeFull,
  type TubeStats,
  work,
} from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { missing, NEEDS, type Need } from "../support/machine/need.ts";
import { type ServerKind, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { BrokenNetwork } from "./broken-network.ts";

const SHARDS = 3;

const SERVERS: readonly { kind: ServerKind; need: Need; flags: readonly string[] }[] = [
  { kind: "beanstalkd-1.12", need: NEEDS.beanstalkd, flags: [] },
  { kind: "ours", need: NEEDS.ours, flags: ["--shards", `${SHARDS}`, "--acceptors", "2"] },
];

type TextQueue = Queue<Uint8Array, Uint8Array | string>;

const textOf = (job: Job<Uint8Array> | undefined): string => Buffer.from(job?.body ?? []).toString();

/** A name behind that of a tube, on the same shard. */
function besides(tube: string, name: string): string {
  const shardOf = (text: string): number => shardOfTube(Buffer.from(text), 0, text.length, SHARDS);
  for (let number = 0; ; number++) {
    const other = `${tube}-${name}${number}`;
    if (shardOf(other) === shardOf(tube)) return other;
  }
}

for (const { kind, need, flags } of SERVERS) {
  const title = `the client on ${[kind, ...flags].join(" ")}`;
  describe(title, { concurrency: true, skip: missing(need) ?? false }, () => {
    const isPlain = kind !== "ours";
    let server: ServerProcess | undefined;
    let names = 0;

    before(async () => {
      server = await startServer({ kind, flags });
    });
    after(async () => {
      await server?.stop();
    });

    /** A queue for one test, and a tube that no other uses. */
    async function open(t: TestContext, options: ConnectOptions = {}): Promise<[TextQueue, string]> {
      const queue = await connect(`127.0.0.1:${server!.port}`, options);
      t.after(() => queue.close());
      const tube = `t${names++}`;
      queue.watch(tube);
      return [queue, tube];
    }

    /** The same, with a proxy in between. */
    async function openBehind(
      t: TestContext,
      options: ConnectOptions = {},
    ): Promise<[TextQueue, string, BrokenNetwork]> {
      const proxy = await BrokenNetwork.before(server!);
      t.after(() => proxy.close());
      const queue = await connect(proxy.address, { retryMs: [1, 20], ...options });
      t.after(() => queue.close());
      const tube = `t${names++}`;
      queue.watch(tube);
      return [queue, tube, proxy];
    }

    it("puts, reserves and deletes bytes unchanged", async (t) => {
      const [queue, tube] = await open(t);
      const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      for (const body of [all, new Uint8Array(0), Buffer.from("a\r\nb")]) {
        const { id, duplicate } = await queue.put(tube, body);
        assert.equal(duplicate, false);
        const job = await queue.reserve();
        assert.equal(job.id, id);
        assert.equal(typeof id, "number");
        assert.equal(Object.getPrototypeOf(job.body), Uint8Array.prototype);
        assert.deepEqual([...job.body], [...body]);
        assert.equal(job.tube, tube);
        await job.delete();
        assert.ok(job.isOver);
      }
      await queue.put(tube, "grüße");
      assert.equal(textOf(await queue.reserve()), "grüße");
    });

    it("reserves by pri, and after a delay", async (t) => {
      const [queue, tube] = await open(t);
      await queue.put(tube, "late", { delay: 100 });
      await queue.put(tube, "second");
      await queue.put(tube, "first", { pri: 0, ttr: 120 });
      const jobs = await queue.reserveMany(10, { timeout: 0 });
      assert.deepEqual(jobs.map(textOf), ["first", "second"]);
      assert.equal((await jobs[0]!.stats()).ttr, 120);
      assert.equal((await jobs[1]!.stats()).pri, 1024);
      assert.equal((await queue.tube(tube).stats()).currentJobsDelayed, 1);
      assert.deepEqual(await queue.reserveMany(10, { timeout: 0 }), []);
      assert.equal(await queue.reserve({ timeout: 0 }), undefined);
    });

    it("encodes and decodes with a codec; an undecodable job can be buried", async (t) => {
      const [plain, tube] = await open(t);
      const queue = await connect(`127.0.0.1:${server!.port}`, { codec: json<{ to: string }>() });
      t.after(() => queue.close());
      queue.watch(tube);
      await queue.put(tube, { to: "bean" });
      await plain.put(tube, "{");
      const good = await queue.reserve();
      assert.deepEqual(good.body, { to: "bean" });
      assert.deepEqual(await queue.job(good.id).peek(), { to: "bean" });
      const bad = await queue.reserve();
      assert.throws(() => bad.body, SyntaxError);
      await bad.bury();
      assert.equal((await queue.job(bad.id).stats()).state, "buried");
      await assert.rejects(queue.put(tube, undefined as never), TypeError);
    });

    it("offers all commands of beanstalkd for a job", async (t) => {
      const [queue, tube] = await open(t);
      const { id } = await queue.put(tube, "x", { pri: 7, ttr: 90 });
      const job = await queue.reserve();
      await job.touch();
      await job.release({ delay: 60.2 });
      await assert.rejects(job.touch(), JobLost);
      const released = await queue.job(id).stats();
      assert.deepEqual(
        [released.state, released.pri, released.delay, released.releases, released.tube],
        ["delayed", 7, 61, 1, tube],
      );
      assert.equal(textOf({ body: (await queue.tube(tube).peek("delayed"))!.body } as Job<Uint8Array>), "x");
      assert.equal(await queue.tube(tube).peek("ready"), undefined);
      await queue.job(id).kick();
      const again = await queue.reserve();
      await again.bury({ pri: 3 });
      assert.equal((await queue.tube(tube).peek("buried"))?.id, id);
      assert.equal(await queue.tube(tube).kick(10), 1);
      assert.equal((await queue.job(id).stats()).pri, 3);
      const held = await queue.reserveJob(id);
      assert.equal((await queue.job(id).stats()).state, "reserved");
      await held.delete();
      await assert.rejects(queue.job(id).stats(), NotFound);
      await queue.tube(tube).pause(1.5);
      const { pause, cmdPauseTube, name } = await queue.tube(tube).stats();
      assert.deepEqual([pause, cmdPauseTube, name], [2, 1, tube]);
      assert.ok((await queue.tubes()).includes(tube));
      const stats = await queue.stats();
      assert.ok(stats.totalJobs >= 1);
      assert.equal(typeof stats["id"], "string");
    });

    it("puts many from an iterable, in its order", async (t) => {
      const [queue, tube] = await open(t);
      const count = 2000;
      async function* bodies(): AsyncGenerator<string> {
        for (let i = 0; i < count; i++) yield `${i}`;
      }
      const ids: number[] = [];
      const told = await queue.putMany(tube, bodies(), { pri: 5 }, ({ id }, index) => {
        ids[index] = id;
      });
      assert.deepEqual(told, { inserted: count, duplicates: 0 });
      assert.deepEqual(
        ids,
        ids.toSorted((a, b) => a - b),
      );
      const jobs: Job<Uint8Array>[] = [];
      while (jobs.length < count) jobs.push(...(await queue.reserveMany(count - jobs.length)));
      assert.deepEqual(
        jobs.map((job) => job.id),
        ids,
      );
      assert.equal(textOf(jobs[count - 1]), `${count - 1}`);
      assert.equal(await queue.touchAll(), count);
      assert.deepEqual(await jobs[0]!.delete(), undefined);
      assert.equal(await queue.touchAll(), count - 1);
    });

    it("has at most 1 MiB of putMany in flight", async (t) => {
      const [queue, tube, proxy] = await openBehind(t);
      await queue.put(tube, "so that the tube is in use");
      proxy.holdReplies();
      let given = 0;
      const body = new Uint8Array(60_000);
      function* bodies(): Generator<Uint8Array> {
        for (; given < 100; given++) yield body;
      }
      const all = queue.putMany(tube, bodies());
      const most = 2 ** 20 / body.length;
      await eventually("a megabyte on its way", () => proxy.bytes > (most - 1) * body.length);
      assert.ok(given <= most + 1, `${given} bodies were taken`);
      proxy.letRepliesGo();
      assert.equal((await all).inserted, 100);
      assert.ok(proxy.bytes > 100 * body.length);
    });

    it("ends putMany at the first error, and reports what was put", async (t) => {
      const [queue, tube] = await open(t);
      const put: number[] = [];
      let given = 0;
      function* bodies(): Generator<Uint8Array> {
        for (; given < 1000; given++) yield new Uint8Array(given === 3 ? 70_000 : 60_000);
      }
      const all = queue.putMany(tube, bodies(), {}, (_, index) => put.push(index));
      await assert.rejects(all, JobTooBig);
      assert.ok(given < 100, `${given} bodies were taken`);
      assert.deepEqual(put.slice(0, 4), [0, 1, 2, 4]);
      assert.equal((await queue.tube(tube).stats()).totalJobs, put.length);
      const failing = (async function* () {
        yield "one";
        throw new Error("the source failed");
      })();
      await assert.rejects(queue.putMany(tube, failing), /the source failed/);
      const unsure = (): never => {
        throw new Error("no options");
      };
      await assert.rejects(queue.putMany(tube, ["x"], unsure), /no options/);
      await assert.rejects(queue.putMany(tube, [5 as never]), TypeError);
      assert.equal((await queue.tube(tube).stats()).totalJobs, put.length + 1);
    });

    it("deletes many, and names the jobs that it couldn't delete", async (t) => {
      const [queue, tube] = await open(t);
      const ids: number[] = [];
      await queue.putMany(tube, Array(1500).fill("x"), {}, ({ id }) => ids.push(id));
      const none = 4_000_000_000;
      assert.deepEqual(await queue.deleteMany([...ids, none, ids[0]!]), [none, ids[0]]);
      assert.deepEqual(await queue.deleteMany([]), []);
      assert.equal((await jobsOf(queue, tube)).ready, 0);
    });

    it("refuses wrong names, numbers and bodies without sending them", async (t) => {
      const [queue, tube] = await open(t);
      await assert.rejects(queue.put("a b", "x"), TypeError);
      await assert.rejects(queue.put(`${tube}\r\ndelete 1`, "x"), TypeError);
      await assert.rejects(queue.put(tube, "x", { pri: -1 }), RangeError);
      await assert.rejects(queue.put(tube, "x", { ttr: 1.5 }), RangeError);
      await assert.rejects(queue.put(tube, { length: 3 } as never), TypeError);
      await assert.rejects(queue.put(tube, "x", { unique: "a b" }), TypeError);
      await assert.rejects(queue.put(tube, "x", { "no pe": 1 } as never), TypeError);
      await assert.rejects(queue.put(tube, "x", { nope: 1 } as never), NotSupported);
      await assert.rejects(queue.deleteMany([1.5]), RangeError);
      assert.throws(() => queue.job(-1), RangeError);
      assert.throws(() => queue.watch(), TypeError);
      assert.equal((await queue.put(tube, "y")).duplicate, false, "the connection goes on");
    });

    it("throws NotSupported for each extension that the server lacks", async (t) => {
      const [queue, tube] = await open(t);
      const { id } = await queue.put(tube, "x");
      const has = await queue.extensions();
      if (isPlain) assert.equal(has.size, 0);
      else assert.ok(has.has("put-in-tube"));
      const one = queue.tube(tube);
      const calls: [verb: string, call: () => Promise<unknown>][] = [
        ["put-in-tube", () => queue.put(tube, "x", { unique: "a" })],
        ["inspect-job", () => queue.job(id).inspect()],
        ["update-job", () => queue.job(id).update({ pri: 1 })],
        ["list-jobs", () => queue.jobs(tube).next()],
        ["clear-tube", () => one.clear()],
        ["move-jobs", () => one.move("other")],
        ["move-jobs", () => one.redrive()],
        ["set-tube", () => one.set({ maxJobs: 1 })],
        ["inspect-tube", () => one.inspect()],
      ];
      for (const [verb, call] of calls) if (!has.has(verb)) await assert.rejects(call, NotSupported, verb);
      await queue.job(id).delete();
    });

    it("never lets a command wait behind a reserve", async (t) => {
      const [queue, tube] = await open(t);
      await queue.putMany(tube, ["a", "b"]);
      const [a, b] = await queue.reserveMany(2);
      const waiting = [queue.reserve(), queue.reserve()];
      await a!.touch();
      await b!.release();
      const got = await Promise.race(waiting);
      assert.equal(got.id, b!.id);
      await queue.put(tube, "c");
      const all = await Promise.all(waiting);
      assert.deepEqual(all.map(textOf).sort(), ["b", "c"]);
      for (const job of [a!, ...all]) await job.delete();
    });

    it("opens no connection for a reserve that doesn't wait", async (t) => {
      const [queue, tube] = await open(t);
      await queue.putMany(tube, Array(20).fill("x"));
      for (let job = 0; job < 20; job++) assert.ok(await queue.reserve({ timeout: 0 }));
      assert.equal(await queue.reserve({ timeout: 0 }), undefined);
      assert.equal((await queue.tube(tube).stats()).currentWatching, 1);
      assert.equal(await queue.touchAll(), 20);
    });

    it("ends a wait on an AbortSignal, and loses nothing", async (t) => {
      const [queue, tube] = await open(t);
      const already = AbortSignal.abort(new Error("no more"));
      await assert.rejects(queue.reserve({ signal: already }), /no more/);
      for (let round = 0; round < 5; round++) {
        const stop = new AbortController();
        const waiting = queue.reserve({ signal: stop.signal });
        if (round > 0) await eventually("a client that waits", async () => (await waits(queue, tube)) === 1);
        stop.abort();
        await assert.rejects(waiting, { name: "AbortError" });
      }
      await queue.put(tube, "x");
      const job = await queue.reserve({ timeout: 10 });
      assert.equal(textOf(job), "x");
      // A later abort has no effect.
      const stop = new AbortController();
      await queue.put(tube, "y");
      const held = await queue.reserve({ signal: stop.signal });
      stop.abort();
      await held.touch();
    });

    it("loses no job that arrives with an abort", async (t) => {
      const [queue, tube] = await open(t);
      const [other] = await open(t);
      let given = 0;
      for (let round = 0; round < 60; round++) {
        const stop = new AbortController();
        const waiting = queue.reserve({ signal: stop.signal }).catch(() => undefined);
        await Promise.all([
          other.put(tube, `${round}`),
          new Promise<void>((resolve) => setImmediate(resolve)).then(() => round % 2 === 0 && stop.abort()),
        ]);
        stop.abort();
        const job = await waiting;
        if (job !== undefined) given++;
        await (job ?? (await queue.reserve({ timeout: 10 })))!.delete();
      }
      t.diagnostic(`${given} of 60 jobs came before the abort`);
      assert.deepEqual(await jobsOf(queue, tube), { ready: 0, reserved: 0, buried: 0 });
    });

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
      // What was done need not be done again.
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
      proxy.holdReplies();
      const putting = queue.put(tube, "second");
      const reading = queue.job(1_000_000).stats();
      const [direct] = await open(t);
      await eventually("the server has it", async () => (await direct.tube(tube).stats()).totalJobs === 2);
      proxy.cut();
      await assert.rejects(putting, (error) => error instanceof ConnectionLost && error.sent);
      // What changes nothing is asked again.
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
      await assert.rejects(
        hasty.put(tube, "lost"),
        (error) => error instanceof ConnectionLost && !error.sent,
      );
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
      const queue = await connect(`127.0.0.1:${server!.port}`);
      queue.watch(tube);
      const { id } = await queue.put(tube, "x");
      await queue.reserve();
      const waiting = assert.rejects(queue.reserve(), Closed);
      const put = queue.put(tube, "the last");
      await queue.close();
      await Promise.all([waiting, put]);
      await assert.rejects(queue.put(tube, "x"), Closed);
      await assert.rejects(queue.reserve(), Closed);
      const unused = await connect(`127.0.0.1:${server!.port}`);
      await unused.close();
      await assert.rejects(unused.reserve(), Closed);
      await eventually("it is ready", async () => (await direct.job(id).stats()).state === "ready");
      assert.equal((await direct.tube(tube).stats()).totalJobs, 2);
    });

    /** For what beanstalkd does not have. */
    const testOurs = (name: string, verb: string, run: (t: TestContext) => Promise<void>): void => {
      if (isPlain) return;
      it(name, async (t) => {
        const [queue] = await open(t);
        assert.ok((await queue.extensions()).has(verb));
        await run(t);
      });
    };

    testOurs("lists the jobs of all tubes, and those of a group", "list-jobs", async (t) => {
      const [queue, tube] = await open(t);
      const group = `é %20 ${tube}`.replaceAll(" ", "_");
      const { id } = await queue.put(`${tube}/a`, "x", { group });
      const other = await queue.put(`${tube}/b`, "x", { group });
      await queue.put(tube, "x");
      const listed: unknown[] = [];
      for await (const job of queue.jobs("*", { group })) listed.push([job.id, job.tube]);
      assert.deepEqual(listed, [
        [id, `${tube}/a`],
        [other.id, `${tube}/b`],
      ]);
      assert.equal(await queue.tube(`${tube}/a`).clear({ group: "other" }), 0);
      assert.equal(await queue.tube(`${tube}/a`).clear({ group }), 1);
    });

    testOurs("lists the jobs of a tube, each once, and deletes by a filter", "list-jobs", async (t) => {
      const [queue, tube] = await open(t);
      const ids: number[] = [];
      const bodies = Array.from({ length: 2500 }, (_, index) =>
        index % 500 === 0 ? `50 % of ${index}` : "x",
      );
      await queue.putMany(tube, bodies, { pri: 3, ttr: 90 }, ({ id }) => ids.push(id));
      const listed: number[] = [];
      for await (const job of queue.jobs(tube)) listed.push(job.id);
      assert.deepEqual(listed, ids);

      const found: string[] = [];
      for await (const job of queue.jobs(tube, { contains: "50 %", state: ["ready", "buried"], show: 7 })) {
        assert.deepEqual([job.state, job.pri, job.ttr, job.reserves], ["ready", 3, 90, 0]);
        found.push(Buffer.from(job.shown).toString());
        assert.equal(job.bytes, (await job.stats()).id === ids[0] ? 9 : job.bytes);
        if (job.id === ids[0]) await job.delete();
      }
      assert.deepEqual(found, Array(5).fill("50 % of"));
      assert.equal((await queue.jobs(tube, { older: 1000 }).next()).done, true);
      assert.equal(await queue.tube(tube).clear({ contains: new TextEncoder().encode("50 %"), limit: 3 }), 3);
      assert.equal(await queue.tube(tube).clear(), 2496);
      assert.equal(await queue.tube(tube).clear(), 0);
    });

    testOurs("frees a job from a worker that is stuck", "clear-tube", async (t) => {
      const [queue, tube] = await open(t);
      await queue.put(tube, "x");
      const job = await queue.reserve();
      assert.equal(await queue.tube(tube).clear({ state: "reserved" }), 1);
      await assert.rejects(job.touch(), NotFound);
      assert.ok(job.signal.aborted);
    });

    testOurs("puts a unique job once", "put-in-tube", async (t) => {
      const [queue, tube] = await open(t);
      const first = await queue.put(tube, "x", { unique: "käse:1" });
      assert.deepEqual(await queue.put(tube, "y", { unique: "käse:1" }), { id: first.id, duplicate: true });
      await queue.job(first.id).delete();
      const second = await queue.put(tube, "y", {
        unique: "käse:1",
        uniqueFor: 3600.5,
        uniqueUntil: "delete",
      });
      assert.equal(second.duplicate, false);
      await queue.job(second.id).delete();
      const counts = await queue.putMany(tube, ["a", "b", "c"], (body) => ({
        unique: body === "b" ? "käse:1" : `${body}`,
      }));
      assert.deepEqual(counts, { inserted: 2, duplicates: 1 });
    });

    testOurs("sets what a tube does by itself", "set-tube", async (t) => {
      const [queue, tube] = await open(t);
      await queue.tube(`${tube}*`).set({ maxJobs: 1 });
      await queue.put(tube, "x", { ttl: 600 });
      await assert.rejects(queue.put(tube, "y"), TubeFull);
      await queue.tube(tube).clear();
      await queue.tube(`${tube}*`).set({ ttl: 0.05, expire: "delete" });
      await queue.put(tube, "x");
      await eventually("it expires", async () => (await jobsOf(queue, tube)).ready === 0);
      await queue.tube(`${tube}*`).set({ ttl: null, maxJobs: null, maxAttempts: 1, backoff: 0.5 });
      const { id } = await queue.put(tube, "z");
      await queue.put(tube, "z");
      await (await queue.reserveJob(id)).release();
      assert.equal((await queue.job(id).stats()).state, "buried", "its only attempt was used up");
      await assert.rejects(queue.tube(`${tube}*`).stats(), TypeError);
      await assert.rejects(queue.tube(tube).set({ maxJobs: "x" as never }), BadFormat);
    });

    testOurs("moves jobs, and brings dead ones back", "move-jobs", async (t) => {
      const [queue, tube] = await open(t);
      const from = queue.tube(tube);
      const [to, dead] = [besides(tube, "to"), besides(tube, "dead")];
      await queue.putMany(tube, ["a", "b", "c"], { pri: 9 });
      assert.equal(await from.move(to, { contains: "b" }), 1);
      assert.equal(await from.move(to, { limit: 1 }), 1);
      assert.equal((await queue.tube(to).stats()).currentJobsReady, 2);
      assert.equal((await queue.tube(to).peek("ready"))?.body.length, 1);
      await from.set({ maxAttempts: 1, deadLetter: dead });
      const job = await queue.reserve();
      await job.release();
      await eventually("it is dead", async () => (await jobsOf(queue, dead)).ready === 1);
      assert.equal((await queue.job(job.id).stats()).tube, dead);
      assert.equal(await queue.tube(dead).redrive(), 1);
      assert.equal((await queue.reserve({ timeout: 10 }))?.id, job.id);
      await assert.rejects(from.move("a b"), TypeError);
    });

    testOurs("inspects and updates jobs", "update-job", async (t) => {
      const [queue, tube] = await open(t);
      const { id } = await queue.put(tube, "hello", { pri: 5, unique: "17" });
      await queue.job(id).update({ pri: 1, ttr: 7 });
      const seen = await queue.job(id).inspect();
      assert.deepEqual([seen.pri, seen.ttr, seen.tube, seen["bytes"]], [1, 7, tube, 5]);
      if ("unique" in seen) assert.equal(seen["unique"], "17", "text, although it is made of digits");
      const { bytes } = await queue.tube(tube).inspect();
      assert.equal(bytes, 5);
      const job = await queue.reserve();
      await job.update({ ttr: 90 });
      assert.equal(job.isOver, false);
      assert.ok((await job.stats()).timeLeft > 60);
      await job.update({ delay: 0.001 });
      assert.ok(job.isOver);
      await eventually("it is ready", async () => (await job.stats()).state === "ready");
      await assert.rejects(queue.job(4_000_000_000).update({ pri: 1 }), NotFound);
    });

    testOurs("works on many jobs over one connection", "reserve-batch", async (t) => {
      const [queue, tube] = await open(t);
      await queue.putMany(tube, Array(30).fill("x"));
      let begun = 0;
      let end = (): void => {};
      const over = new Promise<void>((resolve) => {
        end = resolve;
      });
      const worker = work(queue, [tube], () => ++begun > 0 && over, { concurrency: 31, batch: 10 });
      await eventually(
        "all are begun, and it waits for one more",
        async () => begun === 30 && (await waits(queue, tube)) === 1,
      );
      assert.equal((await queue.tube(tube).stats()).currentWatching, 1);
      await queue.put(tube, "x");
      await eventually("that is begun too", () => begun === 31);
      end();
      await worker.stop();
      assert.deepEqual(await jobsOf(queue, tube), { ready: 0, reserved: 0, buried: 0 });
    });

    testOurs("gives back without a lost attempt", "update-job", async (t) => {
      const [queue, tube] = await open(t);
      await queue.tube(tube).set({ maxAttempts: 1 });
      const { id } = await queue.put(tube, "x");
      let begun = 0;
      const worker = work(queue, [tube], () => ++begun > 0 && new Promise(() => {}));
      await eventually("it is begun", () => begun === 1);
      await worker.stop({ graceMs: 0 });
      assert.equal((await queue.job(id).stats()).state, "ready");
    });

    /** A tube disappears when it is empty and unwatched. */
    const statsOf = async (queue: TextQueue, tube: string): Promise<TubeStats | undefined> =>
      await queue
        .tube(tube)
        .stats()
        .catch((error) => (error instanceof NotFound ? undefined : Promise.reject(error)));
    const waits = async (queue: TextQueue, tube: string): Promise<number> =>
      (await statsOf(queue, tube))?.currentWaiting ?? 0;
    const jobsOf = async (
      queue: TextQueue,
      tube: string,
    ): Promise<{ ready: number; reserved: number; buried: number }> => {
      const stats = await statsOf(queue, tube);
      return {
        ready: stats?.currentJobsReady ?? 0,
        reserved: stats?.currentJobsReserved ?? 0,
        buried: stats?.currentJobsBuried ?? 0,
      };
    };
  });
}
