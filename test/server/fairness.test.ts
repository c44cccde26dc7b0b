// Tests of the running server's fairness under load: no client starves beside a greedy neighbour,
// and timers fire in time.
//
// HUGE=1000000 is the number of jobs of the huge tube at every topology. fairness-order.test.ts
// covers the order of service.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { build, type Histogram } from "hdr-histogram-js";
import { asciiBytes, shardOfTube } from "../../src/base/bytes.ts";
import { BackgroundLoad, type LoadData } from "../support/machine/background-load.ts";
import { SchedulingDelay } from "../support/machine/scheduling-delay.ts";
import { FairTime } from "../support/machine/waited-for-cores.ts";
import { clientOf, idOf, withServer } from "../support/server/fair-server.ts";
import type { ServerProcess } from "../support/server/server-process.ts";
import type { Reply, WireClient } from "../support/server/wire-client.ts";
import { PLAYED_TOPOLOGIES, TOPOLOGIES, type Topology, topologyName } from "../support/topologies.ts";
import { atNight, skipVariant } from "../support/whole.ts";

const { HUGE } = process.env;

/** The smallest and the largest show a shard, or an acceptor, that keeps others waiting. */
const MEASURED = atNight(TOPOLOGIES, PLAYED_TOPOLOGIES);

/**
 * A tube is on one shard, whose work with its jobs is the same beside others: so very many once are
 * enough.
 */
function hugeJobs({ shards }: Topology): number {
  return Number(HUGE ?? (shards === 1 ? atNight(1_000_000, 250_000) : 100_000));
}

/**
 * A neighbour's put, reserve and delete may take so long beside any load, without the time for
 * which server and client wait for a core. They take 1 ms on a machine of one's own and a few tens
 * where server, load and test share two processors; a shard that does 250,000 jobs in one go takes
 * 300 ms.
 */
const NEIGHBOUR_MS_MAX = 180;
/**
 * Delay that due work may have beyond the machine's time to wake a thread, and beyond what server
 * and client wait for a core, ms.
 */
const LATE_MS_MAX = 10;
/**
 * Never early, but for the rounding of two clocks, and for what the machine takes to go on with a
 * thread that has lost its processor: a shard looks at its clock at the beginning of a turn.
 */
const EARLY_MS_MAX = 1;
/**
 * A measurement on a machine that was busy with something else says nothing: it is done again, so
 * often at most.
 */
const ATTEMPTS = 5;

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

// --- no client starves ---------------------------------------------------------------------------

interface Neighbour {
  readonly name: string;
  readonly client: WireClient;
  readonly latency: Histogram;
  slowestDuring: string;
}

/** A histogram of microseconds. */
const histogram = (): Histogram => build({ lowestDiscernibleValue: 1, highestTrackableValue: 600e6 });

const inMs = (microseconds: number): string => (microseconds / 1000).toFixed(1);

/**
 * Puts, reserves and deletes one job after the other beside a load, and notes how long each takes.
 */
async function liveBeside(server: ServerProcess, neighbour: Neighbour, load: BackgroundLoad): Promise<void> {
  const { client, latency } = neighbour;
  while (!load.isDone) {
    const { phase } = load;
    const time = new FairTime(server.pid);
    const { line } = await client.put("small");
    assert.equal((await client.ask("reserve")).line, `RESERVED ${idOf(line)} 5`);
    assert.equal((await client.ask(`delete ${idOf(line)}`)).line, "DELETED");
    const microseconds = Math.round(time.passedMs * 1000);
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
  const load = new BackgroundLoad({
    address: server.address,
    kind,
    tube: tubeOn(0, topology, kind),
    jobs,
  });
  try {
    await Promise.all([load.done, ...neighbours.map((neighbour) => liveBeside(server, neighbour, load))]);
  } finally {
    await load.abandon();
    for (const { client } of neighbours) client.close();
  }
  for (const { name, latency, slowestDuring } of neighbours) {
    const [p50, p99] = [50, 99].map((percent) => inMs(latency.getValueAtPercentile(percent)));
    t.diagnostic(
      `${kind}, ${name}: ${latency.totalCount} rounds, p50 ${p50} ms, p99 ${p99} ms, max ${inMs(latency.maxValue)} ms (during ${slowestDuring})`,
    );
  }
  for (const { name, latency, slowestDuring } of neighbours) {
    assert.ok(latency.totalCount > 50, `${name}: only ${latency.totalCount} rounds`);
    assert.ok(
      latency.maxValue <= NEIGHBOUR_MS_MAX * 1000,
      `${name}: a put, reserve and delete took ${inMs(latency.maxValue)} ms of ${NEIGHBOUR_MS_MAX} during ${slowestDuring}`,
    );
  }
}

const LOADS: readonly [LoadData["kind"], (topology: Topology) => number, string][] = [
  ["greedy", () => 4000, "one connection that pipelines more than all others"],
  ["huge", hugeJobs, "one tube with very many jobs"],
];

for (const [index, [kind, jobsAt, what]] of LOADS.entries()) {
  describe(`${what} starves nobody`, { skip: skipVariant(index, LOADS.length) }, () => {
    for (const topology of MEASURED) {
      const jobs = jobsAt(topology);
      it(`${topologyName(topology)}, ${jobs.toLocaleString("en")} jobs`, async (t) => {
        await timed(t, () =>
          withServer(t, topology, (server) => measureNeighbours(t, server, topology, kind, jobs)),
        );
      });
    }
  });
}

// --- in time -------------------------------------------------------------------------------------

const DUE_CLIENTS = 60;
const TTR_SECONDS = 2;
/** Between two clients, so that few of them are due at the same moment. */
const APART_MS = 20;

interface Lateness {
  readonly deadlineSoon: Histogram;
  readonly ttr: Histogram;
  earliestMs: number;
}

/**
 * A job is reserved and left: its holder must hear DEADLINE_SOON a second before its end, and
 * another get it at its end.
 */
async function oneDue(server: ServerProcess, number: number, lateness: Lateness): Promise<void> {
  const tube = `due${number}`;
  const [holder, next] = [await clientOf(server, tube), await clientOf(server, tube)];
  await sleep(number * APART_MS);
  await holder.put("x", { ttr: TTR_SECONDS });
  const sentMs = performance.now();
  const { line } = await holder.ask("reserve");
  const repliedMs = performance.now();
  // Reserved at some time between the two.
  const comes = async (noted: Histogram, afterMs: number, reply: Promise<Reply>): Promise<string> => {
    const dueMs = repliedMs + afterMs;
    let time: FairTime | undefined;
    const atDue = setTimeout(() => {
      time = new FairTime(server.pid);
    }, dueMs - performance.now());
    const { line: told } = await reply;
    clearTimeout(atDue);
    const nowMs = performance.now();
    lateness.earliestMs = Math.max(lateness.earliestMs, sentMs + afterMs - nowMs);
    // Nothing was late if it came before this client looked at its clock.
    noted.recordValue(Math.round((time?.withCoresMs ?? 0) * 1000));
    return told;
  };
  const nextGets = comes(lateness.ttr, TTR_SECONDS * 1000, next.ask("reserve"));
  const warned = comes(lateness.deadlineSoon, (TTR_SECONDS - 1) * 1000, holder.ask("reserve"));
  assert.equal(await warned, "DEADLINE_SOON");
  assert.equal(await nextGets, line);
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
      const limitMs = LATE_MS_MAX + wakeMs(percent);
      assert.ok(
        lateMs <= limitMs,
        `${name}: p${percent} is ${lateMs.toFixed(1)} ms late, of ${limitMs.toFixed(1)}`,
      );
    }
  }
  if (lateness.earliestMs > EARLY_MS_MAX + wakeMs(100)) throw new Error(`${lateness.earliestMs} ms early`);
}

describe("DEADLINE_SOON and the end of a TTR come in time while others are served", () => {
  for (const [index, topology] of MEASURED.entries()) {
    it(topologyName(topology), { skip: skipVariant(index, 2) }, async (t) => {
      await timed(t, () => withServer(t, topology, (server) => measureLateness(t, server)));
    });
  }
});
