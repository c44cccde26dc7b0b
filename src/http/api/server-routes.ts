// The server as a whole: what it is, what it counts, its threads, its log.

import { memoryUsage } from "node:process";
import { type Static, Type } from "typebox";
import { BATCH_BOUNDS_RECORDS, LogFigures, SYNC_BOUNDS_SECONDS } from "../../message/log-figures.ts";
import { binlogRole, ControlWord, Counter, countersOf, type Topology } from "../../message/topology.ts";
import { turnCountsOf } from "../../message/turn-counters.ts";
import { threadCpu } from "../metrics/process-files.ts";
import { putReadinessOf, readinessOf } from "../queue/health.ts";
import { HISTORY_SERIES, type HistorySeries } from "../queue/totals-book.ts";
import { answers, type Routes, requireServing } from "./api.ts";
import { Problem } from "./problem.ts";
import { Anything, Fields, Quantiles } from "./schemas.ts";

const view = { may: "view" } as const;

const Series = Type.Record(Type.String(), Type.Array(Type.Tuple([Type.Number(), Type.Number()])));

export const serverRoutes: Routes = (api, service) => {
  addServer(api, service);
  addDrain(api, service);
  addCounts(api, service);
  addLog(api, service);
};

const addServer: Routes = (api, service) => {
  const { facts, state, topology } = service;
  api.get(
    "/v1/server",
    { config: view, schema: { summary: "What this server is", response: answers({ 200: Anything }, 503) } },
    async () => {
      const totals = state.phase === "serving" ? await service.totals.ask() : undefined;
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
        listeners: state.listeners,
        transport: state.transport,
        shards: topology.shards,
        acceptors: topology.acceptors,
        maxJobSize: topology.jobBytesMax,
        options: facts.options,
        memory: {
          resident: memoryUsage.rss(),
          jobs: totals?.jobsMemoryBytes ?? 0,
          bodies: totals?.bodiesMemoryBytes ?? 0,
          httpHeap: memoryUsage().heapUsed,
        },
      };
    },
  );
};

const addDrain: Routes = (api, service) => {
  const Draining = Fields({ draining: Type.Boolean() });
  const admin = { may: "admin" } as const;
  const response = answers({ 200: Draining });
  api.put(
    "/v1/server/drain",
    { config: admin, schema: { summary: "Takes no new jobs from now on", response } },
    () => {
      service.words.set(ControlWord.Draining);
      return { draining: true };
    },
  );
  api.delete(
    "/v1/server/drain",
    { config: admin, schema: { summary: "Takes new jobs again", response } },
    () => {
      service.words.clear(ControlWord.Draining);
      return { draining: false };
    },
  );
};

const addCounts: Routes = (api, service) => {
  const { topology } = service;
  api.get(
    "/v1/stats",
    { config: view, schema: { summary: "The keys of stats", response: answers({ 200: Anything }, 503) } },
    async () => {
      requireServing(service);
      return Object.fromEntries((await service.wire.stats("stats")) ?? []);
    },
  );

  api.get(
    "/v1/threads",
    { config: view, schema: { summary: "What each thread does", response: answers({ 200: Anything }) } },
    () => ({
      cpu: threadCpu(),
      threads: turnCountsOf(topology),
    }),
  );

  const Latency = Fields({ wait: Quantiles, hold: Quantiles });
  api.get(
    "/v1/latency",
    {
      config: view,
      schema: {
        summary: "How long jobs wait and are held, in ms",
        response: answers({ 200: Fields({ shards: Type.Array(Latency) }) }, 503),
      },
    },
    async () => {
      requireServing(service);
      return { shards: await service.control.askAll("latency", undefined) };
    },
  );
};

const addLog: Routes = (api, service) => {
  const { topology } = service;
  api.get(
    "/v1/binlog",
    { config: view, schema: { summary: "The log", response: answers({ 200: Anything }, 404) } },
    () => {
      if (topology.binlog === undefined)
        throw new Problem("no-binlog", "The server was started without -b: nothing survives its end.");
      return logView(
        topology,
        service.words.isSet(ControlWord.BinlogFull),
        service.words.isSet(ControlWord.BinlogEnded),
      );
    },
  );

  const History = Type.Object({
    seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
    series: Type.Optional(
      Type.String({ description: `Some of ${HISTORY_SERIES.join(", ")}, with commas between.` }),
    ),
  });
  api.get(
    "/v1/history",
    {
      config: view,
      schema: {
        summary: "Sums of the last hour by the second, of the last day by the minute",
        querystring: History,
        response: answers({ 200: Fields({ step: Type.Number(), series: Series }) }, 400),
      },
    },
    (request) => service.totals.history(request.query.seconds ?? 300, seriesNamed(request.query)),
  );
};

function seriesNamed({ series }: Static<typeof HistoryQuery>): HistorySeries[] {
  if (series === undefined) return [...HISTORY_SERIES];
  return series.split(",").map((name) => {
    const known = HISTORY_SERIES.find((each) => each === name);
    if (known === undefined)
      throw new Problem(
        "bad-request",
        `There is no series "${name}"; there are ${HISTORY_SERIES.join(", ")}.`,
      );
    return known;
  });
}

const HistoryQuery = Type.Object({ series: Type.Optional(Type.String()) });

function logView(topology: Topology, isFull: boolean, hasEnded: boolean): Record<string, unknown> {
  const counters = countersOf(topology, binlogRole(topology));
  const bytes = counters[Counter.BinlogBytes]!;
  const live = counters[Counter.BinlogLiveBytes]!;
  const counted = (at: number, bounds: readonly number[]): { le: number | null; count: number }[] =>
    Array.from({ length: bounds.length + 1 }, (_, index) => ({
      le: bounds[index] ?? null,
      count: counters[Counter.LogFigures + at + index]!,
    }));
  return {
    bytes,
    live,
    dead: Math.max(0, bytes - live),
    amplification: live === 0 ? null : Math.round((bytes / live) * 100) / 100,
    oldestFile: counters[Counter.BinlogOldest],
    currentFile: counters[Counter.BinlogCurrent],
    recordsWritten: counters[Counter.BinlogWritten],
    recordsMigrated: counters[Counter.BinlogMigrated],
    full: isFull,
    ended: hasEnded,
    syncSeconds: counted(LogFigures.Sync, SYNC_BOUNDS_SECONDS),
    waitSeconds: counted(LogFigures.Wait, SYNC_BOUNDS_SECONDS),
    batchRecords: counted(LogFigures.Batch, BATCH_BOUNDS_RECORDS),
  };
}
