// Tests of `reserve-order weighted`: the shares are exact, on one shard and over several.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  TOPOLOGIES,
  type Topology,
  tubesOver,
  type WeightedClient,
  WeightedServer,
} from "./weighted-server.ts";

const WEIGHTS = [1, 3, 6];
const JOBS = 1000;

/** A worker whose three tubes have enough jobs, on different shards if there are several. */
function threeTubes(topology: Topology): {
  worker: WeightedClient;
  tubes: string[];
  producer: WeightedClient;
} {
  const server = new WeightedServer(topology);
  const tubes = tubesOver(topology.shards, WEIGHTS.length);
  const producer = server.client();
  const worker = server.client();
  worker.watch(Object.fromEntries(tubes.map((tube, index) => [tube, WEIGHTS[index]!])), "weighted");
  return { worker, tubes, producer };
}

/** Checks the shares after each of these jobs. */
function checkShares(tubes: readonly string[], given: readonly string[], weights: readonly number[]): void {
  const sum = weights.reduce((all, weight) => all + weight, 0);
  const counts = new Map(tubes.map((tube) => [tube, 0]));
  for (const [index, tube] of given.entries()) {
    counts.set(tube, counts.get(tube)! + 1);
    for (const [position, each] of tubes.entries()) {
      const due = ((index + 1) * weights[position]!) / sum;
      const offBy = Math.abs(counts.get(each)! - due);
      assert.ok(offBy <= 1, `after ${index + 1} jobs, ${each} is off by ${offBy.toFixed(2)} jobs`);
    }
  }
}

for (const topology of TOPOLOGIES) {
  describe(`shares by jobs, ${topology.shards} shards, ${topology.acceptors} acceptors`, () => {
    it("are exact to one job at any time", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      for (const [index, tube] of tubes.entries()) producer.put(tube, 110 * WEIGHTS[index]!, index);
      const given: string[] = [];
      while (given.length < JOBS) {
        const { id, tube } = worker.reserve();
        given.push(tube);
        worker.delete(id);
      }
      checkShares(tubes, given, WEIGHTS);
      assert.deepEqual(
        tubes.map((tube) => given.filter((each) => each === tube).length),
        [100, 300, 600],
      );
    });

    it("are exact although the weights don't divide the cost of a job", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      const weights = [997, 840];
      for (const [index, weight] of weights.entries()) {
        worker.say(`watch ${tubes[index]} weight=${weight}`);
        producer.put(tubes[index]!, 600, index);
      }
      const given = Array.from({ length: JOBS }, () => worker.reserve().tube);
      checkShares(tubes.slice(0, 2), given, weights);
    });

    it("are the same in batches and single reserves", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      for (const [index, tube] of tubes.entries()) producer.put(tube, 110 * WEIGHTS[index]!, 2 - index);
      const given: string[] = [];
      for (const count of [1, 7, 100, 2, 300, 90, 400, 30, 70]) {
        const jobs = worker.reserveBatch(count);
        assert.equal(jobs.length, count);
        given.push(...jobs.map(({ tube }) => tube), worker.reserve().tube);
      }
      assert.ok(given.length >= JOBS);
      checkShares(tubes, given, WEIGHTS);
    });

    it("begin at the floor for a tube that was empty", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      const [a, b, c] = tubes;
      producer.put(a!, 200);
      producer.put(c!, 900);
      for (let job = 0; job < 350; job++) assert.notEqual(worker.reserve().tube, b);
      producer.put(b!, 100);
      const given = Array.from({ length: 200 }, () => worker.reserve().tube);
      checkShares(tubes, given, WEIGHTS);
    });

    it("begin at the floor after a wait, too", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      const [a, , c] = tubes;
      for (let job = 0; job < 100; job++) {
        worker.say("reserve");
        producer.put(a!, 1);
        assert.match(worker.socket.takeReceived().toString(), /^RESERVED/);
      }
      producer.put(a!, 100);
      producer.put(c!, 100);
      const given = Array.from({ length: 70 }, () => worker.reserve().tube);
      checkShares([a!, c!], given, [1, 6]);
    });

    it("leave nobody without a job", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      worker.say(`watch ${tubes[2]} weight=200`);
      producer.put(tubes[0]!, 3, 4_294_967_295);
      producer.put(tubes[2]!, 430);
      for (let time = 0; time < 2; time++) {
        const given = Array.from({ length: 201 }, () => worker.reserve().tube);
        assert.equal(given.filter((tube) => tube === tubes[0]).length, 1);
      }
    });

    it("begin anew with a new order, which strict ends", () => {
      const { worker, tubes, producer } = threeTubes(topology);
      for (const [index, tube] of tubes.entries()) producer.put(tube, 300, index);
      for (let job = 0; job < 10; job++) worker.reserve();
      worker.say("reserve-order strict");
      for (let job = 0; job < 100; job++) assert.equal(worker.reserve().tube, tubes[0]);
      worker.say("reserve-order weighted");
      checkShares(
        tubes,
        Array.from({ length: 100 }, () => worker.reserve().tube),
        WEIGHTS,
      );
    });
  });
}
