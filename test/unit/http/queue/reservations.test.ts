// Tests of what reserves over HTTP leave behind: connections that watch tubes, for the next request
// of the same tubes, and not too many.

import assert from "node:assert/strict";
import { it } from "node:test";
import { WireClients } from "../../../../src/http/link/wire-clients.ts";
import type { WireConnection } from "../../../../src/http/link/wire-connection.ts";
import { Reservations, type ReservedJob } from "../../../../src/http/queue/reservations.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const TUBES = 1000;
const KEPT_TUBES_MAX = 10_000;

class Scene {
  readonly server = new HandDrivenServer(1, undefined, { http: true });
  readonly wire = new WireClients(this.server.http!, () => {});
  readonly reservations = new Reservations(this.wire);

  async reserve(tubes: readonly string[]): Promise<void> {
    const { signal } = new AbortController();
    const jobs: ReservedJob[] = [];
    const options = { tubes, waitSeconds: 0, max: 1, bytesMax: 1, room: () => 1, signal };
    let isOver = false;
    const over = this.reservations.reserve({ ...options, onJob: (job) => jobs.push(job) }).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      this.server.settle();
      await Promise.resolve();
    }
    await over;
    assert.deepEqual(jobs, []);
  }
}

it("A reserve that is over waits no more", async () => {
  const scene = new Scene();
  await scene.reserve(["a"]);
  assert.equal(scene.reservations.waits, 0);
});

it("A kept connection that has ended is used no more", async () => {
  const scene = new Scene();
  const opened: WireConnection[] = [];
  const open = scene.wire.open.bind(scene.wire);
  scene.wire.open = () => {
    opened.push(open());
    return opened.at(-1)!;
  };
  await scene.reserve(["a"]);
  await scene.reserve(["a"]);
  assert.equal(opened.length, 1);
  opened[0]!.finish();
  scene.server.settle();
  assert.ok(opened[0]!.isOver);
  await scene.reserve(["a"]);
  assert.equal(opened.length, 2);
});

it("Connections that were kept for ten seconds make room for others", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const scene = new Scene();
  for (let time = 0; time < 12; time++) {
    await scene.reserve(Array.from({ length: TUBES }, (_, n) => `t-${time}-${n}`));
    assert.equal(scene.server.http!.open, 1, `at time ${time}`);
    t.mock.timers.tick(10_000);
    scene.server.settle();
    assert.equal(scene.server.http!.open, 0);
  }
});

it("Tubes of other names in each request do not pile up", async () => {
  const scene = new Scene();
  const { server, reservations } = scene;
  for (let request = 0; request < 20; request++)
    await scene.reserve(Array.from({ length: TUBES }, (_, n) => `t-${request}-${n}`));
  server.settle();
  assert.ok(server.http!.open <= KEPT_TUBES_MAX / TUBES, `${server.http!.open} connections`);
  const tubes = server.shards[0]!.engine.tubes.size;
  assert.ok(tubes <= KEPT_TUBES_MAX + 1, `${tubes} tubes`);
  const open = server.http!.open;
  await scene.reserve(Array.from({ length: TUBES }, (_, n) => `t-0-${n}`));
  assert.equal(server.http!.open, open, "the same request gets the kept connection");
  reservations.stop();
  server.settle();
});

it("Connections that end while they are kept make room for others", async () => {
  const scene = new Scene();
  const opened: WireConnection[] = [];
  const open = scene.wire.open.bind(scene.wire);
  scene.wire.open = () => {
    opened.push(open());
    return opened.at(-1)!;
  };
  const tubes = Array.from({ length: TUBES }, (_, n) => `t-${n}`);
  const times = 2 * (KEPT_TUBES_MAX / TUBES);
  for (let time = 0; time < times; time++) {
    await scene.reserve(tubes);
    opened.at(-1)!.finish();
    scene.server.settle();
  }
  assert.equal(opened.length, times);
  await scene.reserve(tubes);
  scene.server.settle();
  assert.equal(scene.server.http!.open, 1, "the last one is kept");
  scene.reservations.stop();
  scene.server.settle();
});
