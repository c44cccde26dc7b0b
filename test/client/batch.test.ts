// Tests of batches in the client.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BatchConflict, type Job, NotFound, NotSupported } from "../../src/client/client.ts";
import { describeOnEach, textOf } from "./client-suite.ts";

describeOnEach("batches of the client", {}, (server) => {
  const { testOurs } = server;

  if (server.isPlain)
    it("are an extension", async (t) => {
      const [queue, tube] = await server.open(t);
      await assert.rejects(queue.batch("b").open(), NotSupported);
      await assert.rejects(queue.put(tube, "x", { after: "b" }), NotSupported);
      await assert.rejects(queue.batches().next(), NotSupported);
    });

  testOurs("release what waits for them, once all members are done", async (t) => {
    const [queue, tube] = await server.open(t);
    const batch = queue.batch(`import-${tube}`);
    await batch.open({ keep: 60.5 });
    await batch.put(`${tube}-rows/1`, "row 1");
    await queue.putMany(`${tube}-rows/2`, ["row 2", "row 3"], { batch: batch.name });
    await queue.put(tube, "report", { after: batch.name });
    await queue.put(tube, "clean up", { afterAny: batch.name, pri: 5 });
    const { number, age, ...opened } = await batch.inspect();
    assert.ok(number > 0 && age >= 0);
    assert.deepEqual(opened, {
      ...{ name: batch.name, state: "open", outcome: "none", members: 3, open: 3, done: 0, failed: 0 },
      ...{ buried: 0, waiting: 2, keep: 60.5, forgetsIn: 0 },
    });
    await batch.commit();
    await batch.commit();
    queue.watch(tube, `${tube}-rows/1`, `${tube}-rows/2`);
    for (let count = 0; count < 3; count++) {
      const job = await queue.reserve();
      assert.match(textOf(job), /^row/);
      assert.equal((await batch.inspect()).state, "committed");
      await job.delete();
    }
    const released: Job<Uint8Array>[] = [await queue.reserve(), await queue.reserve()];
    assert.deepEqual(released.map(textOf).sort(), ["clean up", "report"]);
    const { state, outcome, done, waiting, forgetsIn } = await batch.inspect();
    assert.deepEqual([state, outcome, done, waiting], ["complete", "success", 3, 0]);
    assert.ok(forgetsIn > 0 && forgetsIn <= 61);
  });

  testOurs("bury what waits for their success if a member fails, with the reason", async (t) => {
    const [queue, tube] = await server.open(t);
    const batch = queue.batch(`failing-${tube}`);
    await batch.open();
    const { id } = await batch.put(`${tube}-rows`, "x");
    const report = await queue.put(tube, "report", { after: batch.name });
    await queue.put(tube, "clean up", { afterAny: batch.name });
    await queue.job(id).delete();
    await batch.commit();
    assert.equal(textOf(await queue.reserve()), "clean up");
    assert.equal((await batch.inspect()).outcome, "failure");
    const { reason } = (await queue.job(report.id).lastError())!;
    assert.match(reason, /1 of 1/);
  });

  testOurs("are cancelled, and listed in order, page by page", async (t) => {
    const [queue, tube] = await server.open(t);
    const names = Array.from({ length: 1003 }, (_, index) => `${index}-${tube}`);
    for (let at = 0; at < names.length; at += 100)
      await Promise.all(names.slice(at, at + 100).map((name) => queue.batch(name).open({ keep: 0.001 })));
    await queue.batch(names[0]!).put(`${tube}-rows`, "x");
    const seen = new Map<string, number>();
    for await (const { name, number, state, outcome } of queue.batches()) {
      if (!names.includes(name)) continue;
      assert.deepEqual([state, outcome], ["open", "none"]);
      assert.ok(number > (([...seen.values()].at(-1) as number | undefined) ?? 0));
      seen.set(name, number);
    }
    assert.deepEqual([...seen.keys()].sort(), [...names].sort());
    await Promise.all(names.map((name) => queue.batch(name).cancel()));
  });

  testOurs("are refused with what is wrong", async (t) => {
    const [queue, tube] = await server.open(t);
    const batch = queue.batch(`wrong-${tube}`);
    await assert.rejects(batch.inspect(), NotFound);
    await assert.rejects(
      batch.put(tube, "x"),
      (error) => error instanceof NotFound && /BATCH_NOT_FOUND/.test(error.message),
    );
    await batch.open();
    await assert.rejects(
      batch.open(),
      (error) => error instanceof BatchConflict && error.reply === "BATCH_EXISTS",
    );
    await batch.commit();
    await assert.rejects(batch.put(tube, "x"), BatchConflict);
    await assert.rejects(batch.cancel(), BatchConflict);
    for (const name of ["", "a b", "-a", "ü"]) assert.throws(() => queue.batch(name), TypeError);
    await queue.put(tube, "still connected");
  });
});
