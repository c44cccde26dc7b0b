// Tests of `reserve-order weighted-time`: the time that a worker holds jobs is shared by weight,
// however long the jobs of each tube take.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  TOPOLOGIES,
  type Topology,
  tubesOver,
  type WeightedClient,
  WeightedServer,
} from "./weighted-server.ts";

/** Milliseconds that a job of each tube takes, and the weights. */
const TAKES_MS = [200, 20, 50];
const WEIGHTS = [1, 1, 3];

class Scene {
  readonly server: WeightedServer;
  readonly tubes: string[];
  readonly producer: WeightedClient;
  readonly worker: WeightedClient;
  /** Milliseconds that jobs of each tube were held. */
  readonly heldMs: Map<string, number>;
  /** Jobs that the worker holds, with the time when each is done. */
  #held: {
    readonly id: number;
    readonly tube: string;
    readonly sinceMs: number;
    readonly endsAtMs: number;
  }[] = [];

  constructor(topology: Topology) {
    this.server = new WeightedServer(topology);
    this.tubes = tubesOver(topology.shards, TAKES_MS.length);
    this.producer = this.server.client();
    this.worker = this.server.client();
    this.worker.watch(
      Object.fromEntries(this.tubes.map((tube, index) => [tube, WEIGHTS[index]!])),
      "weighted-time",
    );
    this.heldMs = new Map(this.tubes.map((tube) => [tube, 0]));
  }

  get nowMs(): number {
    return this.server.server.nowMs;
  }

  take({ id, tube }: { readonly id: number; readonly tube: string }): void {
    const endsAtMs = this.nowMs + TAKES_MS[this.tubes.indexOf(tube)]!;
    this.#held.push({ id, tube, sinceMs: this.nowMs, endsAtMs });
  }

  /** Lets time pass until the next job is done; `end` finishes it. */
  finishNext(end: (id: number) => void = (id) => this.worker.delete(id)): void {
    this.#held.sort((a, b) => a.endsAtMs - b.endsAtMs);
    const { id, tube, sinceMs, endsAtMs } = this.#held.shift()!;
    this.server.server.advance(Math.max(0, endsAtMs - this.nowMs));
    end(id);
    this.heldMs.set(tube, this.heldMs.get(tube)! + this.nowMs - sinceMs);
  }

  get held(): number {
    return this.#held.length;
  }

  /** Checks that each tube's share of the time is its weight's, but for `slack` of it. */
  checkShares(slack: number): void {
    const all = [...this.heldMs.values()].reduce((sum, ms) => sum + ms, 0);
    const weights = WEIGHTS.reduce((sum, weight) => sum + weight, 0);
    for (const [index, tube] of this.tubes.entries()) {
      const share = this.heldMs.get(tube)! / all;
      const due = WEIGHTS[index]! / weights;
      assert.ok(
        Math.abs(share / due - 1) <= slack,
        `${tube} has ${share.toFixed(3)} of the time, not ${due.toFixed(3)}`,
      );
    }
  }
}

for (const topology of TOPOLOGIES) {
  describe(`shares by time, ${topology.shards} shards, ${topology.acceptors} acceptors`, () => {
    it("are right for a worker with one job at a time", () => {
      const scene = new Scene(topology);
      for (const [index, tube] of scene.tubes.entries()) scene.producer.put(tube, 400, index);
      for (let job = 0; job < 500; job++) {
        scene.take(scene.worker.reserve());
        scene.finishNext();
      }
      scene.checkShares(0.04);
    });

    it("are right for a worker that fetches batches, and holds many jobs at once", () => {
      const scene = new Scene(topology);
      for (const [index, tube] of scene.tubes.entries()) scene.producer.put(tube, 500, index);
      for (let jobs = 0; jobs < 600; ) {
        const batch = scene.worker.reserveBatch(20 - scene.held);
        for (const job of batch) scene.take(job);
        jobs += batch.length;
        for (let left = 10; left > 0 && scene.held > 0; left--) scene.finishNext();
      }
      while (scene.held > 0) scene.finishNext();
      // Some of the last jobs, up to 200 ms each, are one or two per cent of the time.
      scene.checkShares(0.08);
    });

    it("count touches, releases, burials, TTRs that end and jobs that are taken away", () => {
      const scene = new Scene(topology);
      for (const [index, tube] of scene.tubes.entries()) scene.producer.put(tube, 300, index, 1);
      const ends = [
        (id: number) => scene.worker.say(`touch ${id}`, `release ${id} 0 0`),
        (id: number) => scene.worker.say(`bury ${id} 0`),
        (id: number) => scene.worker.say(`update-job ${id} delay=0.001`),
        (id: number) => scene.worker.say(`update-job ${id} tube=other`),
        () => {
          for (const tube of scene.tubes) scene.producer.say(`clear-tube ${tube} state=reserved`);
        },
        (id: number) => scene.worker.delete(id),
      ];
      for (let job = 0; job < 360; job++) {
        scene.take(scene.worker.reserve());
        scene.finishNext(ends[job % ends.length]);
      }
      scene.checkShares(0.06);
    });

    it("charge the whole TTR of a job whose worker hangs", () => {
      const { server, tubes, producer, worker } = new Scene(topology);
      const [slow, fast] = tubes;
      producer.put(slow!, 1, 0, 1);
      const hung = worker.reserve();
      server.server.advance(1001);
      producer.put(fast!, 30);
      // The job that came back is the older one, but its tube has had a second.
      for (let job = 0; job < 20; job++) {
        const { id, tube } = worker.reserve();
        assert.equal(tube, fast, `job ${job}`);
        server.server.advance(10);
        worker.delete(id);
      }
      assert.match(producer.say(`stats-job ${hung.id}`), /timeouts: 1\n/);
    });

    it("leave nobody without a job, even if jobs take no time", () => {
      const { tubes, producer, worker } = new Scene(topology);
      for (const [index, tube] of tubes.entries()) producer.put(tube, 30, index);
      const given = Array.from({ length: 30 }, () => {
        const { id, tube } = worker.reserve();
        worker.delete(id);
        return tube;
      });
      for (const tube of tubes) assert.ok(given.includes(tube), `${tube} had a turn`);
    });
  });
}
