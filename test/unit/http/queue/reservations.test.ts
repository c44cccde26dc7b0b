// Tests of reserves over HTTP: how many jobs they take, and what they leave behind: connections
// that watch tubes, for the next request of the same tubes, and not too many.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { ControlClient, Liveness, SILENT_MS_MAX } from "../../../../src/http/link/control-client.ts";
import { Bodies, WireClients, type WireConnection } from "../../../../src/http/link/wire-connection.ts";
import { GiveBacks } from "../../../../src/http/queue/lease-changes.ts";
import {
  Handout,
  Reservations,
  type ReservedJob,
  type ReserveOptions,
  reservedJob,
} from "../../../../src/http/queue/reservations.ts";
import { LeaseTable } from "../../../../src/http/state/lease-table.ts";
import { soon } from "../../../support/eventually.ts";
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
    await soon("the reserve ends", () => {
      this.server.settle();
      return isOver;
    });
    await over;
    return jobs;
  }
}

/** A scene, and the connections that it has opened. */
function sceneThatNotes(): { readonly scene: Scene; readonly opened: readonly WireConnection[] } {
  const scene = new Scene();
  const opened: WireConnection[] = [];
  const open = scene.wire.open.bind(scene.wire);
  scene.wire.open = () => {
    opened.push(open());
    return opened.at(-1)!;
  };
  return { scene, opened };
}

it("A reserve that is over waits no more", async () => {
  const scene = new Scene();
  await scene.reserve(["a"]);
  assert.equal(scene.reservations.waits, 0);
});

it("A kept connection that has ended is used no more", async () => {
  const { scene, opened } = sceneThatNotes();
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
  const { scene, opened } = sceneThatNotes();
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

// Tests that no limit refuses a give-back: one question per shard is in progress, however many jobs
// go back; and that only the shard itself answers pings, which detect a hung shard.

const JOBS = 2000;
/** The limit of questions in flight. */
const QUESTIONS = 1000;

function scene() {
  const server = new HandDrivenServer(1, undefined, { http: true });
  const control = new ControlClient(server.http!, () => {});
  const leases = new LeaseTable(() => 1000);
  const giveBacks = new GiveBacks(leases, control);
  const wire = new WireClients(server.http!, () => {});
  const client = server.connect(true);
  const say = (text: string): string => {
    client.say(text);
    server.settle();
    return client.take();
  };
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 200; round++) {
      server.settle();
      await nextTurn();
    }
  };
  /** Questions that the shard does not get to: no turn is taken. */
  const askMuch = (): void => {
    for (let question = 0; question < QUESTIONS + 1; question++)
      control.ask(0, "totals", undefined).catch(() => {});
  };
  return { server, control, leases, giveBacks, wire, say, settle, askMuch };
}

describe("jobs of a client that has left", () => {
  it("all go back while the limit of questions is in flight", async () => {
    const { server, control, leases, giveBacks, wire, say, settle, askMuch } = scene();
    say("put 0 0 3600 1\r\nx\r\n".repeat(JOBS));
    const ways = { leases, giveBacks, control, nowMs: () => 1000 };
    const handout = new Handout(ways, { owner: "", address: "" });
    const reserving = new Reservations(wire).reserve({
      ...{
        worker: handout.worker,
        tubes: ["default"],
        waitSeconds: 0,
        max: JOBS,
        bytesMax: 1e6,
        room: () => JOBS,
      },
      signal: handout.signal,
      onJob: (job) => handout.add(job),
    });
    await settle();
    await reserving;
    assert.equal(leases.size, JOBS);
    askMuch();
    const { underWay } = control;
    handout.drop();
    assert.equal(control.underWay, underWay + 1, "one question for all");
    assert.equal(leases.size, JOBS, "leases count until the shard has answered");
    await settle();
    assert.deepEqual([leases.size, leases.abandoned, control.underWay], [0, JOBS, 0]);
    assert.match(say("stats-tube default\r\n"), new RegExp(`current-jobs-ready: ${JOBS}\n`));
    assert.equal(server.shards[0]!.engine.jobCounts[JobState.Reserved], 0);
  });
});

describe("a hanging shard", () => {
  it("is noticed while the limit of questions is in flight", async () => {
    const { control, askMuch, settle } = scene();
    let nowMs = 0;
    const liveness = new Liveness(control, () => nowMs);
    askMuch();
    liveness.ping();
    await nextTurn();
    nowMs = SILENT_MS_MAX + 1;
    liveness.ping();
    assert.deepEqual(liveness.silent, [0]);
    await settle();
    assert.deepEqual(liveness.silent, [], "it has answered");
  });
});

describe("a body without a slot", () => {
  it("takes no room from later ones", async () => {
    const { server, control, wire, say, settle } = scene();
    const bytes = 1_000_000;
    say(`put 0 0 60 ${bytes}\r\n${"x".repeat(bytes)}\r\n`);
    const bodies = new Bodies(wire, control, server.http!.places);
    const core = server.http!;
    const { connect } = core;
    core.connect = () => undefined;
    // More than all that may be under way.
    const refused = Array.from({ length: 140 }, () => bodies.read(1).catch((error: Error) => error));
    await settle();
    for (const error of await Promise.all(refused)) assert.ok(error instanceof Error);
    core.connect = connect;
    const two = [bodies.read(1), bodies.read(1)];
    for (const body of two) body.catch(() => {});
    await settle();
    for (const body of await Promise.all(two)) assert.equal(body?.length, bytes);
  });
});

// Tests that a job that a lease gets has each of the facts in its line.

const body = Buffer.from("hello");
const FACTS = {
  ...{ id: 2 ** 40 + 1, tube: "mails", reserves: 3, pri: 4_294_967_295, ttr: 5, timeLeftMs: -678 },
  ...{ ageMs: 9012, timeouts: 6, releases: 7, buries: 8, kicks: 10, disconnects: 11, body },
};
const LINE = `RESERVED ${FACTS.id} 5 4294967295 5 -678 9012 3 6 7 8 10 11 mails`;

it("a reserved job has each of its facts, and its context", () => {
  assert.deepEqual(reservedJob({ line: LINE, body }), { ...FACTS, meta: [] });
  assert.deepEqual(reservedJob({ line: `${LINE} meta=a:b meta=c:d=e`, body }), {
    ...FACTS,
    meta: ["a:b", "c:d=e"],
  });
});

it("other replies bring no job", () => {
  for (const line of ["TIMED_OUT", "DEADLINE_SOON", "RESERVEDX 1"])
    assert.equal(reservedJob({ line, body: undefined }), undefined);
  assert.equal(reservedJob({ line: LINE, body: undefined }), undefined);
  assert.equal(reservedJob({ line: "OK 5", body }), undefined);
});
