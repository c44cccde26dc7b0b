// The server and its log, as the API shows them.

import { memoryUsage } from "node:process";
import type { Static } from "typebox";
import type { ShardTotals } from "../../../message/control.ts";
import { BATCH_BOUNDS_RECORDS, LogFigures, SYNC_BOUNDS_SECONDS } from "../../../message/log-figures.ts";
import {
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  rolesOf,
  type Topology,
} from "../../../message/topology.ts";
import { ringBytesOf } from "../../link/ring-bytes.ts";
import { putReadinessOf, readinessOf } from "../../queue/health.ts";
import type { Service } from "../../queue/service.ts";
import { unsyncedSeconds } from "../../state/unsynced-seconds.ts";
import { type Log, RATED, type Server } from "../schemas.ts";

/** Period of the rates, seconds. */
const RATE_SECONDS = 5;

/** `totals` is undefined until the shards answer questions. */
export function serverView(service: Service, totals: ShardTotals | undefined): Static<typeof Server> {
  const { facts, state, topology } = service;
  return {
    name: "runnerbean",
    version: facts.version,
    node: process.version,
    id: facts.instanceId,
    hostname: facts.hostname,
    pid: facts.pid,
    startedAt: new Date(facts.startedAtMs).toISOString(),
    uptime: Math.floor((service.nowMs() - facts.startedAtMonotonicMs) / 1000),
    status: readinessOf(service).status,
    replayed: state.replayed,
    readyForPuts: putReadinessOf(service).ok,
    draining: service.words.isSet(ControlWord.Draining),
    listeners: [...state.listeners],
    transport: state.transport,
    shards: topology.shards,
    acceptors: topology.acceptors,
    maxJobSize: topology.jobBytesMax,
    options: facts.options,
    memory: {
      resident: memoryUsage.rss(),
      jobs: totals?.jobsMemoryBytes ?? 0,
      bodies: totals?.bodiesMemoryBytes ?? 0,
      rings: ringBytesOf(topology),
      httpHeap: memoryUsage().heapUsed,
      used: service.memory.usedBytes,
      // JSON has no Infinity.
      limit: Number.isFinite(service.memory.limitBytes) ? service.memory.limitBytes : null,
      full: service.memory.isFull,
    },
    jobs: totals?.jobs ?? { ready: 0, reserved: 0, delayed: 0, buried: 0 },
    waiting: totals?.waiting ?? 0,
    connections: sum(topology, Counter.Connections),
    tubes: totals?.tubes ?? 0,
    rates: ratesOf(service),
  };
}

function sum(topology: Topology, counter: number): number {
  let total = 0;
  for (let role = 0; role < rolesOf(topology); role++) total += countersOf(topology, role)[counter]!;
  return total;
}

function ratesOf({ totals }: Service): Static<typeof Server>["rates"] {
  const { series } = totals.history(RATE_SECONDS, RATED);
  const rate = (points: readonly [number, number][]): number => {
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined || last[0] <= first[0]) return 0;
    return Math.round(((last[1] - first[1]) / (last[0] - first[0])) * 10) / 10;
  };
  return Object.fromEntries(RATED.map((name) => [name, rate(series[name] ?? [])])) as Static<
    typeof Server
  >["rates"];
}

/** Returns the number of syncs since the start by duration bucket. The server must have a log. */
export function syncCountsOf(topology: Topology): Float64Array {
  return countersOf(topology, binlogRole(topology)).subarray(Counter.LogFigures + LogFigures.Sync);
}

/** Returns the state of the log. The server must have one. */
export function logView({ topology, words, backups }: Service): Static<typeof Log> {
  const isFull = words.isSet(ControlWord.BinlogFull);
  const hasEnded = words.isSet(ControlWord.BinlogEnded);
  const counters = countersOf(topology, binlogRole(topology));
  const bytes = counters[Counter.BinlogBytes]!;
  const live = counters[Counter.BinlogLiveBytes]!;
  const spare = counters[Counter.BinlogSpareBytes]!;
  const counted = (at: number, bounds: readonly number[]): { le: number | null; count: number }[] =>
    Array.from({ length: bounds.length + 1 }, (_, index) => ({
      le: bounds[index] ?? null,
      count: counters[Counter.LogFigures + at + index]!,
    }));
  return {
    bytes,
    live,
    spare,
    dead: Math.max(0, bytes - live - spare),
    amplification: live === 0 ? null : Math.round((bytes / live) * 100) / 100,
    oldestFile: counters[Counter.BinlogOldest]!,
    currentFile: counters[Counter.BinlogCurrent]!,
    recordsWritten: counters[Counter.BinlogWritten]!,
    recordsMigrated: counters[Counter.BinlogMigrated]!,
    bytesWritten: counters[Counter.LogFigures + LogFigures.WrittenBytes]!,
    unsynced: unsyncedSeconds(counters),
    compacts: counters[Counter.BinlogCompacts] === 1,
    full: isFull,
    ended: hasEnded,
    backup: { underWay: backups?.isUnderWay === true, kept: backups?.kept ?? 0 },
    syncSeconds: counted(LogFigures.Sync, SYNC_BOUNDS_SECONDS),
    waitSeconds: counted(LogFigures.Wait, SYNC_BOUNDS_SECONDS),
    batchRecords: counted(LogFigures.Batch, BATCH_BOUNDS_RECORDS),
  };
}
