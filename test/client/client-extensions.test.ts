// Tests of what `runnerbean/client` offers beyond beanstalkd's commands.

import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { BadFormat, NotFound, NotSupported, TubeFull, work } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { besides, describeOnEach, jobsOf, textOf, waits } from "./client-suite.ts";

describeOnEach("the client", { concurrency: true }, (server) => {
  const { open } = server;

  /** For what beanstalkd does not have. */
  const testOurs = (name: string, verb: string, run: (t: TestContext) => Promise<void>): void => {
    if (server.isPlain) return;
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
    const bodies = Array.from({ length: 2500 }, (_, index) => (index % 500 === 0 ? `50 % of ${index}` : "x"));
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
    assert.deepEqual(await queue.put(tube, "y", { unique: "käse:1" }), {
      id: first.id,
      duplicate: true,
      outcome: "duplicate",
    });
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

  testOurs("gives the context of a job back", "name", async (t) => {
    const [queue, tube] = await open(t);
    const meta = { tenant: "köln:1", empty: "", __proto: "x" };
    await queue.put(tube, "a", { meta, unique: "k", pri: 1 });
    await queue.put(tube, "b", { pri: 2 });
    const { id } = await queue.put(`${tube}-other`, "c", { meta });
    const jobs = await queue.reserveMany(2);
    assert.deepEqual(
      jobs.map((job) => [textOf(job), job.tube, job.meta]),
      [
        ["a", tube, meta],
        ["b", tube, {}],
      ],
    );
    assert.deepEqual((await queue.reserveJob(id)).meta, meta);
    await assert.rejects(queue.reserveJob(id), NotFound);
    await jobs[0]!.release();
    const worker = work(queue, [tube], (job) => assert.deepEqual(job.meta, meta));
    await eventually("it is done", async () => (await jobsOf(queue, tube)).ready === 0);
    await worker.stop();
    assert.deepEqual((await jobsOf(queue, tube)).buried, 0);
  });

  testOurs("waits until a batch is full, or has waited long enough", "reserve-batch", async (t) => {
    const [queue, tube] = await open(t);
    const waiting = queue.reserveMany(10, { min: 3, linger: 60 });
    await queue.putMany(tube, ["a", "b"]);
    // On the connection of the job, other commands would end the wait.
    await queue.reserve({ timeout: 1 }).then((job) => job!.release());
    await queue.put(tube, "c");
    assert.deepEqual((await waiting).map(textOf), ["a", "b", "c"]);
    await queue.put(tube, "d");
    const few = await queue.reserveMany(10, { min: 3, linger: 0.01 });
    assert.deepEqual(few.map(textOf), ["d"]);
    assert.deepEqual(await queue.reserveMany(10, { linger: 60, timeout: 0.01 }), []);
    await assert.rejects(queue.reserveMany(2, { min: 3 }), /^RangeError: min is 3, more than 2 jobs$/);
    await assert.rejects(queue.reserveMany(2, { min: 0.5 }), /^RangeError: min is 0.5, not a number/);
  });

  testOurs("reserves jobs of one group", "reserve-batch", async (t) => {
    const [queue, tube] = await open(t);
    for (const [body, group] of ["ax", "by", "cx", "dy"]) await queue.put(tube, body!, { group: group! });
    const batch = async (): Promise<string[]> =>
      (await queue.reserveMany(10, { oneGroup: true, timeout: 10 })).map(textOf);
    assert.deepEqual(await batch(), ["a", "c"]);
    await queue.put(tube, "e");
    assert.deepEqual(await batch(), ["b", "d"]);
    assert.deepEqual(await batch(), ["e"]);
  });

  testOurs("takes as much context as the server", "name", async (t) => {
    const [queue, tube] = await open(t);
    const names = ["a", "b", "c", "d", "e"];
    const meta = { ...Object.fromEntries(names.map((name) => [name, "x".repeat(198)])), f: "123456" };
    const { id } = await queue.put(tube, "x", { meta });
    assert.deepEqual((await queue.reserveJob(id)).meta, meta);
    await assert.rejects(queue.put(tube, "x", { meta: { ...meta, f: "1234567" } }), RangeError);
    await assert.rejects(
      queue.put(tube, "x", { meta: { tenant: "a b" } }),
      /^TypeError: meta "tenant": "a b"/,
    );
    const untyped = { meta: { tenant: 5 } } as object;
    await assert.rejects(queue.put(tube, "x", untyped), TypeError);
  });

  it("refuses context if the server can't keep it", async (t) => {
    const [queue, tube] = await open(t);
    const put = queue.put(tube, "x", { meta: { tenant: "a" } });
    if (!server.isPlain) return void (await put);
    await assert.rejects(put, NotSupported);
    await queue.put(tube, "x");
    assert.deepEqual((await queue.reserve()).meta, {});
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

  testOurs("tells a group that is called none from no group", "put-in-tube", async (t) => {
    const [queue, tube] = await open(t);
    const { id: bare } = await queue.put(tube, "x");
    const nothing = await queue.job(bare).inspect();
    for (const key of ["unique", "group", "holder", "worker", "origin", "reason", "expiresIn"])
      assert.ok(!(key in nothing), key);
    await queue.tube("none").set({ maxAttempts: 1, deadLetter: tube });
    const { id } = await queue.put("none", "x", { group: "none", unique: 'né"' });
    const { tube: name, group, unique } = await queue.job(id).inspect();
    assert.deepEqual([name, group, unique], ["none", "none", 'né"']);
    await (await queue.reserveJob(id)).release();
    await eventually("it is dead", async () => (await queue.job(id).stats()).tube === tube);
    assert.equal((await queue.job(id).inspect())["origin"], "none");
  });

  testOurs("names the batches of a job, also those made of digits", "open-batch", async (t) => {
    const [queue, tube] = await open(t);
    const [first, second] = [queue.batch(`${Date.now()}`), queue.batch(`${Date.now() + 1}`)];
    await first.open();
    await second.open();
    const { id } = await second.put(tube, "x", { after: first.name });
    const { batch, waitsFor } = await queue.job(id).inspect();
    assert.deepEqual([batch, waitsFor], [second.name, first.name]);
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
});
