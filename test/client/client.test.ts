// Tests of the client `runnerbean/client` on our server and on beanstalkd: the same, except for
// extensions.

import assert from "node:assert/strict";
import { it } from "node:test";
import {
  connect,
  type Job,
  JobLost,
  JobTooBig,
  json,
  NotFound,
  NotSupported,
  type PutOptions,
} from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { describeOnEach, jobsOf, textOf, waits } from "./client-suite.ts";

describeOnEach("the client", { concurrency: true }, (server) => {
  const { open, openBehind } = server;

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
    const queue = await connect(server.address, { codec: json<{ to: string }>() });
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
    for (const options of [
      { uniqueFor: 5 },
      { uniqueUntil: "reserve" },
      { onDuplicate: "keep" },
      { debounceMax: 1 },
    ])
      await assert.rejects(
        queue.put(tube, "x", options as PutOptions),
        /TypeError: \w+ has no effect without unique/,
      );
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
    if (server.isPlain) assert.equal(has.size, 0);
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
      ["reserve-batch", () => queue.reserveMany(2, { oneGroup: true, timeout: 0 })],
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
});
