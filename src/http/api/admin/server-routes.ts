// Routes of the server as a whole: its properties, counters, threads and log.

import { type Static, Type } from "typebox";
import { ControlWord } from "../../../message/topology.ts";
import { turnCountsOf } from "../../../message/turn-counters.ts";
import { threadCpu } from "../../metrics/process-files.ts";
import { knownTotals } from "../../queue/last-known.ts";
import { HISTORY_SERIES, type HistorySeries } from "../../state/stats-history.ts";
import { SYNC_STEP_SECONDS } from "../../state/sync-history.ts";
import { answers, type Routes, requireServing } from "../api.ts";
import { chosen, fieldsQuery } from "../chosen-fields.ts";
import { Problem } from "../problem.ts";
import { Anything, Fields, Load, Log, Quantiles, Server } from "../schemas.ts";
import { logView, serverView } from "./server-view.ts";
import { threadRows } from "./thread-rows.ts";

const view = { may: "view" } as const;
const live = { ...view, live: true } as const;

const SyncSeries = Type.Record(
  Type.String(),
  Type.Array(Type.Tuple([Type.Number(), Type.Union([Type.Number(), Type.Null()])])),
);
const Threads = Fields({ cpu: Type.Array(Anything), threads: Type.Array(Anything), ...Load });
const Series = Type.Record(Type.String(), Type.Array(Type.Tuple([Type.Number(), Type.Number()])));

export const serverRoutes: Routes = (api, service) => {
  addServer(api, service);
  addDrain(api, service);
  addCounts(api, service);
  addLog(api, service);
};

const addServer: Routes = (api, service) => {
  api.get(
    "/v1/server",
    {
      config: live,
      schema: {
        summary: "Version, options, state, memory and totals of the server",
        querystring: Type.Object(fieldsQuery),
        response: answers({ 200: Type.Partial(Server) }, 400, 503),
      },
    },
    async ({ query: { fields } }) =>
      chosen(serverView(service, await knownTotals(service)), fields, "The server"),
  );
};

const addDrain: Routes = (api, service) => {
  const Draining = Fields({ draining: Type.Boolean() });
  const admin = { may: "admin" } as const;
  const response = answers({ 200: Draining });
  api.put(
    "/v1/server/drain",
    { config: admin, schema: { summary: "Refuses new jobs from now on", response } },
    () => {
      service.words.set(ControlWord.Draining);
      return { draining: true };
    },
  );
  api.delete(
    "/v1/server/drain",
    { config: admin, schema: { summary: "Accepts new jobs again", response } },
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
    {
      config: live,
      schema: {
        summary: "CPU time, turns and messages of each thread since the start, and the recent load",
        querystring: Type.Object(fieldsQuery),
        response: answers({ 200: Type.Partial(Threads) }, 400),
      },
    },
    ({ query: { fields } }) => {
      const recent = threadRows(topology, service.nowMs());
      return chosen({ cpu: threadCpu(), threads: turnCountsOf(topology), ...recent }, fields, "The list");
    },
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

const noLog = (): Problem => new Problem("no-binlog", "The server was started without -b: it keeps no log.");

const addLog: Routes = (api, service) => {
  const { topology } = service;
  api.get(
    "/v1/binlog",
    { config: live, schema: { summary: "The log", response: answers({ 200: Log }, 404) } },
    () => {
      if (topology.binlog === undefined) throw noLog();
      return logView(service);
    },
  );

  const Syncs = Type.Object({ seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 3600 })) });
  api.get(
    "/v1/binlog/syncs",
    {
      config: view,
      schema: {
        summary:
          "Syncs per second over the last hour, and the median and 99th percentile of their duration, s",
        querystring: Syncs,
        response: answers({ 200: Fields({ step: Type.Number(), series: SyncSeries }) }, 400, 404),
      },
    },
    (request) => {
      if (topology.binlog === undefined) throw noLog();
      const sinceMs = service.wallMs() - (request.query.seconds ?? 3600) * 1000;
      return { step: SYNC_STEP_SECONDS, series: service.syncs.since(sinceMs) };
    },
  );

  const History = Type.Object({
    seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 86_400 })),
    series: Type.Optional(
      Type.String({ description: `Any of ${HISTORY_SERIES.join(", ")}, separated by commas.` }),
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
  // A URL has room for a thousand names, and each series has thousands of points.
  return [...new Set(series.split(","))].map((name) => {
    const known = HISTORY_SERIES.find((each) => each === name);
    if (known === undefined)
      throw new Problem("bad-request", `There is no series "${name}"; use ${HISTORY_SERIES.join(", ")}.`);
    return known;
  });
}

const HistoryQuery = Type.Object({ series: Type.Optional(Type.String()) });
