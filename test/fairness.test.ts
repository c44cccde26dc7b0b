// Order and fairness of the running server: a better job is never passed over, the longest waiter is served first, nobody
// is starved by a greedy neighbour, and what is due comes in time under load.
//
// HUGE=1000000 is the number of jobs of the huge tube at every topology, SEED=n plays the random part again.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { build, type Histogram } from "hdr-histogram-js";
import { asciiBytes } from "../src/base/bytes.ts";
import { shardOfTube } from "../src/base/tube-hash.ts";
import { BackgroundLoad, type LoadData } from "./support/background-load.ts";
import { canRun, NEEDS } from "./support/need.ts";
import { findPassedOver, type ReadyTime, type Reserved } from "./support/passed-over.ts";
import { SchedulingDelay } from "./support/scheduling-delay.ts";
import { SeededRandom } from "./support/seeded-random.ts";
import { type ServerProcess, startServer } from "./support/server-process.ts";
import { TOPOLOGIES, type Topology, topologyFlags, topologyName } from "./support/topologies.ts";
import { WireClient } from "./support/wire-client.ts";

const { HUGE, SEED = "415926535" } = process.env;

/** A tube is on one shard, whose work with its jobs is the same beside others: so a million once is enough. */
function hugeJobs({ shards }: Topology): number {
  return Number(HUGE ?? (shards === 1 ? 1_000_000 : 100_000));
}

/**
 * A neighbour's put, reserve and delete may take so long beside any load, besides what the machine takes to wake a thread. They take 1 ms on a machine of one's own and a few
 * tens where server, load and test share two processors; a shard that does a million jobs in one go takes 600 ms and more.
 */
const NEIGHBOUR_MS_MAX = 250;
/** How late what is due may come, besides what the machine takes to wake a thread. */
const LATE_MS_MAX = 10;
/** Threads that have to be woken one after the other: the shard, the acceptor, the client. */
const WAKES = 3;
/** Never early, but for the rounding of two clocks. */
const EARLY_MS_MAX = 1;
/** A measurement on a machine that was busy with something else says nothing: it is done again, so often at most. */
const ATTEMPTS = 5;

async function withServer(
  t: TestContext,
  topology: Topology,
  body: (server: ServerProcess) => Promise<void>,
): Promise<void> {
  if (!canRun(t, NEEDS.ours)) return;
  const server = await startServer({ kind: "ours", flags: topologyFlags(topology) });
  try {
    await body(server);
  } finally {
    await server.kill();
  }
}

/** Does a measurement that asserts on time, and again if it fails. */
async function timed(t: TestContext, measure: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await measure();
      return;
    } catch (error) {
      if (!(error instanceof assert.AssertionError) || attempt === ATTEMPTS) throw error;
      t.diagnostic(`too slow, so the machine may be busy, again: ${error.message}`);
    }
  }
}

/** A name of a tube on the shard. */
function tubeOn(shard: number, topology: Topology, prefix: string): string {
  for (let number = 0; ; number++) {
    const name = asciiBytes(`${prefix}${number}`);
    if (shardOfTube(name, 0, name.length, topology.shards) === shard) return `${prefix}${number}`;
  }
}

async function clientOf(server: ServerProcess, tube: string): Promise<WireClient> {
  const client = await WireClient.connect(server.address);
  for (const line of [`use ${tube}`, `watch ${tube}`, "ignore default"]) await client.ask(line);
  return client;
}

const idOf = (line: string): number => Number(/^[A-Z]+ (\d+)/.exec(line)?.[1]);

// --- a better job is never passed over ------------------------------------------------------------------------------

const TUBES = ["a", "b", "c", "d", "e", "f"] as const;
const PRODUCERS = 4;
const CONSUMERS = 6;
const JOBS_PER_PRODUCER = 500;
/** Jobs that each producer puts before the first is reserved. */
const STOCK_PER_PRODUCER = 100;
/** A consumer stops when this long nothing came. */
const DRY_SECONDS = 1;

/**
 * What happened, by the number of times that a job became ready: a put makes it ready for the first time, and its n-th
 * reserve is answered before the holder makes it ready for the (n + 1)-th time. Replies to different clients may
 * overtake each other, so that the order in which the replies are read would not tell which reserve took which.
 */
class History {
  readonly reserves: Reserved[] = [];
  readonly #ready: (Omit<ReadyTime, "untilMs"> & { readonly time: number })[] = [];
  /** For each job, when its reserves were sent. */
  readonly #reservesSent = new Map<number, number[]>();

  becameReady(time: number, id: number, pri: number, tube: string, repliedMs: number): void {
    this.#ready.push({ time, id, pri, tube, fromMs: repliedMs });
  }

  /** Returns for which time the job was reserved. */
  reserved(reserve: Reserved): number {
    this.reserves.push(reserve);
    const sent = this.#reservesSent.get(reserve.id) ?? [];
    this.#reservesSent.set(reserve.id, sent);
    return sent.push(reserve.sentMs);
  }

  readyTimes(): ReadyTime[] {
    return this.#ready.map(({ time, ...ready }) => ({
      ...ready,
      untilMs: this.#reservesSent.get(ready.id)?.[time - 1] ?? Number.POSITIVE_INFINITY,
    }));
  }
}

async function produce(
  server: ServerProcess,
  random: SeededRandom,
  history: History,
  onStock: () => void,
): Promise<void> {
  const client = await WireClient.connect(server.address);
  for (let count = 0; count < JOBS_PER_PRODUCER; count++) {
    if (count === STOCK_PER_PRODUCER) onStock();
    const tube = random.pick(TUBES);
    const pri = random.between(0, 50);
    await client.ask(`use ${tube}`);
    const { line } = await client.put(`${pri} ${tube}`, { pri });
    history.becameReady(1, idOf(line), pri, tube, performance.now());
    // At first faster than the consumers, at last slower, so that jobs wait as well as clients.
    if (count > STOCK_PER_PRODUCER && random.chance(0.4)) await sleep(random.between(0, 3));
  }
  client.close();
}

async function consume(server: ServerProcess, random: SeededRandom, history: History): Promise<void> {
  const client = await WireClient.connect(server.address);
  const watched = new Set(TUBES.filter(() => random.chance(0.6)));
  watched.add(random.pick(TUBES));
  for (const tube of watched) await client.ask(`watch ${tube}`);
  await client.ask("ignore default");
  for (;;) {
    const sentMs = performance.now();
    const { line, body } = await client.ask(
      random.chance(0.2) ? "reserve-with-timeout 0" : `reserve-with-timeout ${DRY_SECONDS}`,
    );
    const repliedMs = performance.now();
    if (line === "TIMED_OUT" && repliedMs - sentMs > DRY_SECONDS * 900) break;
    if (line === "TIMED_OUT") continue;
    const id = idOf(line);
    const [pri, tube] = (body ?? "").toString().split(" ") as [string, string];
    const time = history.reserved({ id, pri: Number(pri), watched, sentMs, repliedMs });
    if (random.chance(0.3)) {
      // It goes back with the priority that its body tells.
      assert.equal((await client.ask(`release ${id} ${pri} 0`)).line, "RELEASED");
      history.becameReady(time + 1, id, Number(pri), tube, performance.now());
    } else {
      assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    }
  }
  client.close();
}

describe("a better job is never passed over", { timeout: 120_000 }, () => {
  for (const topology of TOPOLOGIES) {
    it(`${topologyName(topology)} (SEED=${SEED})`, async (t) => {
      await withServer(t, topology, async (server) => {
        const random = new SeededRandom(Number(SEED));
        const history = new History();
        const seeded = (): SeededRandom => new SeededRandom(random.between(0, 2 ** 31));
        const produced: Promise<void>[] = [];
        const stocked = Array.from(
          { length: PRODUCERS },
          () => new Promise<void>((resolve) => produced.push(produce(server, seeded(), history, resolve))),
        );
        await Promise.all(stocked);
        await Promise.all([
          ...produced,
          ...Array.from({ length: CONSUMERS }, () => consume(server, seeded(), history)),
        ]);
        const { compared, passedOver } = findPassedOver(history.readyTimes(), history.reserves);
        t.diagnostic(`${history.reserves.length} reserves, ${compared} pairs of a reserve and a ready job`);
        assert.deepEqual(passedOver.slice(0, 5), []);
        assert.ok(compared > 10_000, `only ${compared} pairs say anything`);
      });
    });
  }

  it("and the check is not blind: it finds a better job that was there, and no other (canary)", () => {
    const watched = new Set(["a"]);
    const reserve = { id: 2, pri: 5, watched, sentMs: 10, repliedMs: 20 };
    const ready = { id: 1, pri: 5, tube: "a", fromMs: 9, untilMs: 21 };
    const found = (change: Partial<ReadyTime>): number =>
      findPassedOver([{ ...ready, ...change }], [reserve]).passedOver.length;
    assert.equal(found({}), 1);
    assert.equal(found({ untilMs: Number.POSITIVE_INFINITY }), 1);
    for (const change of [{ fromMs: 11 }, { untilMs: 15 }, { tube: "b" }, { pri: 6 }, { id: 3 }])
      assert.equal(found(change), 0, JSON.stringify(change));
    assert.equal(found({ id: 3, pri: 4 }), 1);
  });
});

// --- the longest waiter is served first -----------------------------------------------------------------------------

const WAITERS = 60;

async function waitingOn(client: WireClient, tube: string): Promise<number> {
  const text = (await client.ask(`stats-tube ${tube}`)).body?.toString() ?? "";
  return Number(/^current-waiting: (\d+)$/m.exec(text)?.[1]);
}

describe("the longest waiter is served first", { timeout: 60_000 }, () => {
  for (const topology of TOPOLOGIES) {
    it(topologyName(topology), async (t) => {
      await withServer(t, topology, async (server) => {
        const producer = await clientOf(server, "line");
        const waiters: WireClient[] = [];
        for (let number = 1; number <= WAITERS; number++) {
          const waiter = await clientOf(server, "line");
          // Some wait in many tubes, on one shard or on several, and in the order of the same line.
          const others = number % 3 === 0 ? 12 : number % 3;
          for (let other = 0; other < others; other++) await waiter.ask(`watch other${other}`);
          waiter.send("reserve\r\n");
          while ((await waitingOn(producer, "line")) < number) await sleep(1);
          waiters.push(waiter);
        }
        // Two leave, and close the gap for those behind them.
        for (const gone of [40, 10]) waiters.splice(gone, 1)[0]!.close();
        while ((await waitingOn(producer, "line")) > waiters.length) await sleep(1);
        for (const index of waiters.keys())
          assert.equal((await producer.put("x", { pri: index })).line, `INSERTED ${index + 1}`);
        const got = await Promise.all(waiters.map(async (waiter) => idOf((await waiter.readReply()).line)));
        assert.deepEqual(
          got,
          got.map((_, index) => index + 1),
        );
        for (const waiter of waiters) waiter.close();
        producer.close();
      });
    });
  }
});

// --- nobody is starved ----------------------------------------------------------------------------------------------

interface Neighbour {
  readonly name: string;
  readonly client: WireClient;
  readonly latency: Histogram;
  slowestDuring: string;
}

/** A histogram of microseconds. */
const histogram = (): Histogram => build({ lowestDiscernibleValue: 1, highestTrackableValue: 600e6 });

const inMs = (microseconds: number): string => (microseconds / 1000).toFixed(1);

/** Puts, reserves and deletes one job after the other beside a load, and notes how long each takes. */
async function liveBeside(neighbour: Neighbour, load: BackgroundLoad): Promise<void> {
  const { client, latency } = neighbour;
  while (!load.isDone) {
    const { phase } = load;
    const startedAt = performance.now();
    const { line } = await client.put("small");
    assert.equal((await client.ask("reserve")).line, `RESERVED ${idOf(line)} 5`);
    assert.equal((await client.ask(`delete ${idOf(line)}`)).line, "DELETED");
    const microseconds = Math.round((performance.now() - startedAt) * 1000);
    if (microseconds > latency.maxValue) neighbour.slowestDuring = phase;
    latency.recordValue(microseconds);
    await sleep(1);
  }
}

async function measureNeighbours(
  t: TestContext,
  server: ServerProcess,
  topology: Topology,
  kind: LoadData["kind"],
  jobs: number,
): Promise<void> {
  const neighbours: Neighbour[] = [];
  for (const [name, shard] of [
    ["same shard", 0],
    ["other shard", 1],
  ] as const) {
    if (shard >= topology.shards) continue;
    const client = await clientOf(server, tubeOn(shard, topology, "small"));
    neighbours.push({ name, client, latency: histogram(), slowestDuring: "" });
  }
  const machine = new SchedulingDelay();
  const load = new BackgroundLoad({
    address: server.address,
    kind,
    tube: tubeOn(0, topology, kind),
    jobs,
  });
  try {
    await Promise.all([load.done, ...neighbours.map((neighbour) => liveBeside(neighbour, load))]);
  } finally {
    await load.abandon();
    for (const { client } of neighbours) client.close();
  }
  const wakeMs = (await machine.stop())(100);
  const limitMs = NEIGHBOUR_MS_MAX + WAKES * wakeMs;
  for (const { name, latency, slowestDuring } of neighbours) {
    const [p50, p99] = [50, 99].map((percent) => inMs(latency.getValueAtPercentile(percent)));
    t.diagnostic(
      `${kind}, ${name}: ${latency.totalCount} rounds, p50 ${p50} ms, p99 ${p99} ms, max ${inMs(latency.maxValue)} ms (during ${slowestDuring})`,
    );
  }
  t.diagnostic(`a thread that only sleeps: max ${wakeMs.toFixed(1)} ms late`);
  for (const { name, latency, slowestDuring } of neighbours) {
    assert.ok(latency.totalCount > 50, `${name}: only ${latency.totalCount} rounds`);
    assert.ok(
      latency.maxValue <= limitMs * 1000,
      `${name}: a put, reserve and delete took ${inMs(latency.maxValue)} ms of ${limitMs.toFixed(1)} during ${slowestDuring}`,
    );
  }
}

const LOADS: readonly [LoadData["kind"], (topology: Topology) => number, string][] = [
  ["greedy", () => 4000, "one connection that pipelines more than all others"],
  ["huge", hugeJobs, "one tube with very many jobs"],
];

for (const [kind, jobsAt, what] of LOADS) {
  describe(`${what} starves nobody`, { timeout: 200_000 }, () => {
    for (const topology of TOPOLOGIES) {
      const jobs = jobsAt(topology);
      it(`${topologyName(topology)}, ${jobs.toLocaleString("en")} jobs`, async (t) => {
        await timed(t, () =>
          withServer(t, topology, (server) => measureNeighbours(t, server, topology, kind, jobs)),
        );
      });
    }
  });
}

// --- in time --------------------------------------------------------------------------------------------------------

const DUE_CLIENTS = 60;
const TTR_SECONDS = 2;
/** Between two clients, so that few of them are due at the same moment. */
const APART_MS = 20;

interface Lateness {
  readonly deadlineSoon: Histogram;
  readonly ttr: Histogram;
  earliestMs: number;
}

/** A job is reserved and left: its holder must hear DEADLINE_SOON a second before its end, and another get it at its end. */
async function oneDue(server: ServerProcess, number: number, lateness: Lateness): Promise<void> {
  const tube = `due${number}`;
  const [holder, next] = [await clientOf(server, tube), await clientOf(server, tube)];
  await sleep(number * APART_MS);
  await holder.put("x", { ttr: TTR_SECONDS });
  const sentMs = performance.now();
  const { line } = await holder.ask("reserve");
  const repliedMs = performance.now();
  // Reserved at some time between the two.
  const came = (noted: Histogram, afterMs: number): void => {
    const nowMs = performance.now();
    lateness.earliestMs = Math.max(lateness.earliestMs, sentMs + afterMs - nowMs);
    noted.recordValue(Math.max(0, Math.round((nowMs - repliedMs - afterMs) * 1000)));
  };
  const nextGets = next.ask("reserve");
  assert.equal((await holder.ask("reserve")).line, "DEADLINE_SOON");
  came(lateness.deadlineSoon, (TTR_SECONDS - 1) * 1000);
  assert.equal((await nextGets).line, line);
  came(lateness.ttr, TTR_SECONDS * 1000);
  holder.close();
  next.close();
}

async function measureLateness(t: TestContext, server: ServerProcess): Promise<void> {
  const lateness: Lateness = { deadlineSoon: histogram(), ttr: histogram(), earliestMs: 0 };
  const load = new BackgroundLoad({ address: server.address, kind: "mixed", tube: "mixed", jobs: 0 });
  const machine = new SchedulingDelay();
  try {
    await Promise.all(Array.from({ length: DUE_CLIENTS }, (_, number) => oneDue(server, number, lateness)));
    await load.stop();
  } finally {
    await load.abandon();
  }
  const wakeMs = await machine.stop();
  const noted = [
    ["DEADLINE_SOON", lateness.deadlineSoon],
    ["TTR", lateness.ttr],
  ] as const;
  const percentile = (late: Histogram, percent: number): number => late.getValueAtPercentile(percent) / 1000;
  for (const [name, late] of noted) {
    const [p50, p95] = [50, 95].map((percent) => percentile(late, percent).toFixed(1));
    t.diagnostic(`${name}: p50 ${p50} ms late, p95 ${p95} ms, max ${inMs(late.maxValue)} ms`);
  }
  t.diagnostic(
    `a thread that only sleeps: p50 ${wakeMs(50).toFixed(1)} ms late, p95 ${wakeMs(95).toFixed(1)} ms`,
  );
  for (const [name, late] of noted) {
    assert.equal(late.totalCount, DUE_CLIENTS);
    for (const percent of [50, 95]) {
      const lateMs = percentile(late, percent);
      const limitMs = LATE_MS_MAX + WAKES * wakeMs(percent);
      assert.ok(
        lateMs <= limitMs,
        `${name}: p${percent} is ${lateMs.toFixed(1)} ms late, of ${limitMs.toFixed(1)}`,
      );
    }
  }
  if (lateness.earliestMs > EARLY_MS_MAX) throw new Error(`${lateness.earliestMs} ms early`);
}

describe("DEADLINE_SOON and the end of a TTR come in time while others are served", {
  timeout: 60_000,
}, () => {
  for (const topology of TOPOLOGIES) {
    it(topologyName(topology), async (t) => {
      await timed(t, () => withServer(t, topology, (server) => measureLateness(t, server)));
    });
  }
});
