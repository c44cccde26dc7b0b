// Tests of reserves over HTTP: how many jobs they take, and what they leave behind: connections
// that watch tubes, for the next request of the same tubes, and not too many.

import assert from "node:assert/strict";
import { it } from "node:test";
import { WireClients, type WireConnection } from "../../../../src/http/link/wire-connection.ts";
import {
  Reservations,
  type ReservedJob,
  type ReserveOptions,
} from "../../../../src/http/queue/reservations.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const TUBES = 1000;
const KEPT_TUBES_MAX = 10_000;

class Scene {
  readonly server = new HandDrivenServer(1, undefined, { http: true });
  readonly wire = new WireClients(this.server.http!, () => {});
  readonly reservations = new Reservations(this.wire);

  async reserve(tubes: readonly string[]): Promise<void> {
    assert.deepEqual(await this.take({ tubes }), []);
  }

  async take(asked: Partial<ReserveOptions>): Promise<ReservedJob[]> {
    const { signal } = new AbortController();
    const jobs: ReservedJob[] = [];
    const onJob = (job: ReservedJob): void => void jobs.push(job);
    const taking = { waitSeconds: 0, max: 1, bytesMax: 1, room: () => 1, signal, onJob };
    const options = { worker: "w", tubes: ["default"], ...taking };
    let isOver = false;
    const over = this.reservations.reserve({ ...options, ...asked }).finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    while (!isOver) {
      this.server.settle();
      await Promise.resolve();
    }
    await over;
    return jobs;
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

/** A scene with that many ready jobs in the default tube, of `bytes` each. */
function withJobs(count: number, bytes: number): Scene {
  const scene = new Scene();
  const client = scene.server.connect(true);
  client.say(`put 0 0 3600 ${bytes}\r\n${"x".repeat(bytes)}\r\n`.repeat(count));
  scene.server.settle();
  return scene;
}

it("A reserve takes as many jobs as asked for, as there are, and as there is room for", async () => {
  const ready = 70;
  for (const max of [1, 2, 31, 32, 33, 34, 64, 65, 66, 69, 70, 71, 1000])
    for (const leases of [1, 33, 1000]) {
      const scene = withJobs(ready, 1);
      let out = 0;
      const room = (): number => leases - out;
      const onJob = (): void => void out++;
      await scene.take({ max, bytesMax: 1e6, room, onJob });
      assert.equal(out, Math.min(max, ready, leases), `${max} with room for ${leases}`);
      scene.reservations.stop();
    }
});

it("A reserve takes no more jobs once their bodies have the bytes asked for", async () => {
  for (const [bytesMax, expected] of [
    [1, 1],
    [1000, 1],
    [1001, 2],
    [1999, 2],
    [2000, 2],
    [2001, 3],
    [10_000, 10],
    [64_000, 64],
  ] as const) {
    const scene = withJobs(70, 1000);
    const jobs = await scene.take({ max: 1000, bytesMax, room: () => 1000 });
    assert.equal(jobs.length, expected, `${bytesMax} bytes`);
    scene.reservations.stop();
  }
});

it("A connection that can't watch its tubes is closed, and not used again", async () => {
  const scene = new Scene();
  const opened: { line: string; closed: number }[] = [];
  const { open } = scene.wire;
  scene.wire.open = () => {
    const stand = { line: opened.length === 0 ? "OUT_OF_MEMORY" : "WATCHING 1", closed: 0, isOver: false };
    opened.push(stand);
    const command = (): Promise<object> => Promise.resolve({ line: stand.line });
    const repeat = (): Promise<void> => Promise.resolve();
    const close = (): void => void stand.closed++;
    const nameWorker = (): void => {};
    return Object.assign(stand, {
      command,
      nameWorker,
      repeat,
      close,
      finish() {},
    }) as unknown as WireConnection;
  };
  await assert.rejects(scene.take({ tubes: ["a", "b"] }), /can't be watched now: OUT_OF_MEMORY/);
  assert.deepEqual([opened.length, opened[0]!.closed, scene.reservations.waits], [1, 1, 0]);
  await scene.reserve(["a", "b"]);
  assert.deepEqual([opened.length, opened[1]!.closed], [2, 0]);
  scene.wire.open = open;
});

it("A kept connection stays for ten seconds after its last reserve", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const scene = new Scene();
  for (let round = 0; round < 4; round++) {
    await scene.reserve(["a"]);
    t.mock.timers.tick(9_999);
    scene.server.settle();
    assert.equal(scene.server.http!.open, 1, `round ${round}`);
  }
  t.mock.timers.tick(1);
  scene.server.settle();
  assert.equal(scene.server.http!.open, 0);
});

it("Kept connections watch ten thousand tubes together, and not one more", async () => {
  const scene = new Scene();
  const kept = KEPT_TUBES_MAX / TUBES;
  for (let request = 0; request < kept; request++)
    await scene.reserve(Array.from({ length: TUBES }, (_, n) => `t-${request}-${n}`));
  scene.server.settle();
  assert.equal(scene.server.http!.open, kept);
  await scene.reserve(["one-more"]);
  scene.server.settle();
  assert.equal(scene.server.http!.open, kept);
  scene.reservations.stop();
  scene.server.settle();
  assert.equal(scene.server.http!.open, 0);
});
