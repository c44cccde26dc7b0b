// Tests of weighted tubes in the client.

import assert from "node:assert/strict";
import { it } from "node:test";
import { NotSupported, work } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { describeOnEach, type TextQueue } from "./client-suite.ts";

describeOnEach("weighted tubes of the client", {}, (server) => {
  const { testOurs } = server;

  async function filled(queue: TextQueue, tube: string): Promise<[gold: string, basic: string]> {
    const tubes = [`${tube}-gold`, `${tube}-basic`] as const;
    for (const each of tubes) await queue.putMany(each, Array(400).fill("x"));
    return [...tubes];
  }

  const takes = async (queue: TextQueue, count: number, tube: string): Promise<number> => {
    const jobs = await queue.reserveMany(count);
    assert.equal(jobs.length, count);
    await queue.deleteMany(jobs.map(({ id }) => id));
    return jobs.filter((job) => job.tube === tube).length;
  };

  if (server.isPlain)
    it("are an extension", async (t) => {
      const [queue, tube] = await server.open(t);
      queue.watch({ [tube]: 3, other: 1 });
      await assert.rejects(queue.reserve({ timeout: 0 }), NotSupported);
      queue.watch(tube);
      assert.equal(await queue.reserve({ timeout: 0 }), undefined);
    });

  testOurs("share jobs by weight, until the weights change", async (t) => {
    const [queue, tube] = await server.open(t);
    const [gold, basic] = await filled(queue, tube);
    queue.watch({ [gold]: 3, [basic]: 1 });
    assert.equal(await takes(queue, 100, gold), 75);
    queue.watch({ [gold]: 1, [basic]: 4 });
    assert.equal(await takes(queue, 100, gold), 20);
    queue.watch({ [gold]: 1, [basic]: 1 });
    assert.equal(await takes(queue, 100, gold), 50);
    queue.watch(gold, basic);
    assert.equal(await takes(queue, 100, gold), 100, "the oldest first");
  });

  testOurs("share jobs by weight after the connection was lost", async (t) => {
    const [queue, tube, network] = await server.openBehind(t);
    const [gold, basic] = await filled(queue, tube);
    queue.watch({ [gold]: 3, [basic]: 1 });
    assert.equal(await takes(queue, 8, gold), 6);
    network.cut();
    assert.equal(await takes(queue, 100, gold), 75);
  });

  testOurs("share the jobs of a worker", async (t) => {
    const [queue, tube] = await server.open(t);
    const [gold, basic] = await filled(queue, tube);
    const order: string[] = [];
    const worker = work(queue, { [gold]: 3, [basic]: 1 }, (job) => order.push(job.tube!));
    await eventually("it has done 400", () => order.length >= 400);
    await worker.stop();
    assert.equal(order.slice(0, 400).filter((each) => each === gold).length, 300);
    const timed = work(queue, { [gold]: 1, [basic]: 1 }, () => {}, { order: "weighted-time" });
    await eventually("all are done", async () => {
      const { currentJobsReady = 0 } = await queue
        .tube(basic)
        .stats()
        .catch(() => ({}) as { currentJobsReady?: number });
      return currentJobsReady === 0;
    });
    await timed.stop();
  });

  it("refuse weights that no tube can have", async (t) => {
    const [queue, tube] = await server.open(t);
    for (const weight of [0, 1001, 1.5, Number.NaN, -1])
      assert.throws(
        () => queue.watch({ [tube]: weight }),
        /the weight of .* not a whole number from 1 to 1000/,
      );
    assert.throws(() => queue.watch({}), TypeError);
    assert.throws(() => queue.watch(), TypeError);
    assert.throws(() => queue.watch({ "a b": 1 }), TypeError);
  });
});
