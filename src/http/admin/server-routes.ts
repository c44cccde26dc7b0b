// The server and its log, as the API shows them.

import { memoryUsage } from "node:process";
import { type Static, type TObject, Type } from "typebox";
import type { ShardTotals } from "../../message/control.ts";
import { GROUP_ROLES, GroupFigure, type GroupMember } from "../../message/group.ts";
import {
  BATCH_BOUNDS_RECORDS,
  LogFigures,
  type ScrubReport,
  SYNC_BOUNDS_SECONDS,
} from "../../message/log-figures.ts";
import {
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  rolesOf,
  type Topology,
} from "../../message/topology.ts";
import { type TurnCounts, turnCountsOf } from "../../message/turn-counters.ts";
import { answers, type Routes, requireServing } from "../api/api.ts";
import { chosen, fieldsQuery } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { Anything, Fields, Group, Load, Log, Quantiles, RATED, ScrubView, Server } from "../api/schemas.ts";
import { ringBytesOf, threadCpu, unsyncedSeconds } from "../metrics/process-figures.ts";
import { isFrozen, knownTotals, putReadinessOf, readinessOf } from "../queue/health.ts";
import type { ServerState, Service } from "../queue/service.ts";
import { HISTORY_SERIES, type HistorySeries, SYNC_STEP_SECONDS } from "../state/stats-history.ts";

/** Period of the rates, seconds. */
const RATE_SECONDS = 5;

/** `totals` is undefined until the shards answer questions. */
function serverView(service: Service, totals: ShardTotals | undefined): Static<typeof Server> {
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
    listeners: state.listeners.map(({ where }) => where),
    ports: portsOf(state),
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

/** Returns what the server listens on, the protocol's ports first. */
const portsOf = ({ listeners, httpUrls, httpTokens }: ServerState): Static<typeof Server>["ports"] => [
  ...listeners.map(({ where, auth }) => ({
    ...{ address: where.replace(/ \(TLS\)$/, ""), protocol: "beanstalkd" as const },
    ...{ tls: where.endsWith("(TLS)"), auth },
  })),
  ...httpUrls.map((address) => ({
    ...{ address, protocol: "http" as const },
    ...{ tls: address.startsWith("https:"), auth: httpTokens ? ("token" as const) : ("none" as const) },
  })),
];

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

const dateOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

/** Before the first report, nothing was read. */
function scrubView(report: ScrubReport | undefined): Static<typeof ScrubView> {
  const { places = [], walkedAtMs = null, ...figures } = report ?? {};
  return {
    ...{ paused: false, left: 0, files: 0, bytes: 0, walks: 0, found: 0, damaged: 0, failure: "" },
    ...figures,
    walkedAt: dateOf(walkedAtMs),
    places: places.map(({ file, offset, bytes, jobs, reason, foundAtMs, repairedAtMs }) => ({
      ...{ file, offset, bytes, jobs: [...jobs], reason },
      ...{ foundAt: dateOf(foundAtMs)!, repairedAt: dateOf(repairedAtMs) },
    })),
  };
}

/** Returns the state of the log. The server must have one. */
function logView({ topology, words, backups, state }: Service): Static<typeof Log> {
  const isFull = words.isSet(ControlWord.BinlogFull);
  const hasEnded = words.isSet(ControlWord.NoMoreReplies);
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
    scrub: scrubView(state.scrub),
    syncSeconds: counted(LogFigures.Sync, SYNC_BOUNDS_SECONDS),
    waitSeconds: counted(LogFigures.Wait, SYNC_BOUNDS_SECONDS),
    batchRecords: counted(LogFigures.Batch, BATCH_BOUNDS_RECORDS),
  };
}

// Recent load of the threads: CPU of each thread, and turns and messages of its rings. Several
// clients may ask at the same time, so the rows change at most once a second.

const ROWS_FRESH_MS = 900;

type LoadView = Static<TObject<typeof Load>>;

interface Looked {
  readonly atMs: number;
  readonly cpuSeconds: ReadonlyMap<string, number>;
  readonly turns: ReadonlyMap<string, TurnCounts>;
}

let last: Looked | undefined;
let lastRows: LoadView = { load: [], rings: [] };

function threadRows(topology: Topology, nowMs: number): LoadView {
  if (last !== undefined && nowMs - last.atMs < ROWS_FRESH_MS) return lastRows;
  const now: Looked = {
    atMs: nowMs,
    cpuSeconds: new Map(threadCpu().map((each) => [each.thread, each.userSeconds + each.systemSeconds])),
    turns: new Map(turnCountsOf(topology).map((each) => [each.thread, each])),
  };
  const before = last ?? now;
  const seconds = Math.max(ROWS_FRESH_MS, nowMs - before.atMs) / 1000;
  lastRows = {
    load: [...now.cpuSeconds].map(([name, total]) => ({
      name,
      cpu: Math.max(0, total - (before.cpuSeconds.get(name) ?? total)) / seconds,
    })),
    rings: [...now.turns.values()].map((each) =>
      ringRow(each, before.turns.get(each.thread) ?? each, seconds),
    ),
  };
  last = now;
  return lastRows;
}

function ringRow(now: TurnCounts, before: TurnCounts, seconds: number): LoadView["rings"][0] {
  const busyTurns = now.busyTurns - before.busyTurns;
  const filled = now.ringFillMean * now.busyTurns - before.ringFillMean * before.busyTurns;
  return {
    name: now.thread,
    turns: (now.turns - before.turns) / seconds,
    messages: (now.messages - before.messages) / seconds,
    fill: busyTurns <= 0 ? 0 : Math.min(1, Math.max(0, filled / busyTurns)),
    fillMax: now.ringFillMax,
  };
}

// Routes of the server as a whole: its properties, counters, threads and log.

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

  const admin = { may: "admin" } as const;
  const response = answers({ 200: ScrubView }, 404);
  api.post(
    "/v1/binlog/scrub",
    { config: admin, schema: { summary: "Looks for damage in the whole log now", response } },
    () => scrub(false),
  );
  api.delete(
    "/v1/binlog/scrub",
    { config: admin, schema: { summary: "Pauses the search for damage until the next POST", response } },
    () => scrub(true),
  );
  const scrub = (pauses: boolean): Static<typeof ScrubView> => {
    if (topology.binlog === undefined) throw noLog();
    service.scrub(pauses);
    return { ...scrubView(service.state.scrub), paused: pauses };
  };

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

// The group of this server, as the API shows it.

/** The server asks for the members every two seconds, so older news may be of a dead member. */
const MEMBERS_FRESH_MS = 10_000;

/** Returns null without --replicate. */
function groupView(service: Service): Static<typeof Group> | null {
  const group = service.topology.binlog?.group;
  if (group === undefined) return null;
  const figures = new Float64Array(group.figures);
  const at = (figure: number): number => figures[figure]!;
  const { state } = service;
  const role = GROUP_ROLES[at(GroupFigure.Role)] ?? "starting";
  const members = membersOf(service);
  const appends = at(GroupFigure.Appends);
  return {
    name: state.group?.group ?? "",
    role,
    epoch: at(GroupFigure.Epoch),
    mayServe: role === "primary" && !isFrozen(service),
    standbys: members.filter((member) => member.role === "standby").length,
    batch: at(GroupFigure.Batch),
    pendingBatches: at(GroupFigure.PendingBatches),
    messagesUnderWay: at(GroupFigure.MessagesUnderWay),
    behindMessages: at(GroupFigure.Behind),
    appends,
    appendMeanSeconds: appends === 0 ? null : at(GroupFigure.AppendMs) / 1000 / appends,
    doubts: at(GroupFigure.Doubts),
    ignoredBatches: at(GroupFigure.Ignored),
    freezes: at(GroupFigure.Freezes),
    sharedLog: { bytes: at(GroupFigure.LogBytes), limit: at(GroupFigure.LogLimitBytes) },
    members: members.toSorted(byAddress).map((member) => ({
      node: member.node.toString(16).padStart(8, "0"),
      address: member.address,
      role: member.role,
      epoch: member.epoch,
      batch: member.n,
      behindMessages: member.behind,
      mayServe: member.mayServe,
      isComplete: member.isComplete,
      isThis: member.node === state.group?.node,
      pid: member.pid,
      version: member.version,
    })),
  };
}

function membersOf({ state: { group }, nowMs }: Service): readonly GroupMember[] {
  return group !== undefined && nowMs() - group.atMs <= MEMBERS_FRESH_MS ? group.members : [];
}

const byAddress = (a: GroupMember, b: GroupMember): number =>
  a.address < b.address ? -1 : a.address > b.address ? 1 : a.node - b.node;

// Route of the group of servers that this server belongs to.

export const groupRoutes: Routes = (api, service) => {
  api.get(
    "/v1/group",
    {
      config: { may: "view", live: true },
      schema: { summary: "The group of servers that share a log", response: answers({ 200: Group }, 404) },
    },
    () => {
      const view = groupView(service);
      if (view === null)
        throw new Problem("no-group", "The server was started without --replicate: it is not in a group.");
      return view;
    },
  );
};

// Client that asks the main thread to reload the configuration.

/** The keys that took effect and those that need a restart; or all faults, with nothing changed. */
export type ReloadOutcome =
  | { readonly changed: readonly string[]; readonly needsRestart: readonly string[] }
  | { readonly faults: string };

export class ReloadClient {
  readonly #ask: (question: number) => void;
  readonly #waiting = new Map<number, (outcome: ReloadOutcome) => void>();
  #questions = 0;

  constructor(ask: (question: number) => void) {
    this.#ask = ask;
  }

  reload(): Promise<ReloadOutcome> {
    const question = this.#questions++;
    return new Promise((resolve) => {
      this.#waiting.set(question, resolve);
      this.#ask(question);
    });
  }

  onAnswer(question: number, outcome: ReloadOutcome): void {
    this.#waiting.get(question)?.(outcome);
    this.#waiting.delete(question);
  }
}

// Route that reloads the configuration, as SIGHUP does.

const Reloaded = Fields({
  changed: Type.Array(Type.String(), {
    description: 'Keys that took effect, and what is new in files: "token ann removed".',
  }),
  needsRestart: Type.Array(Type.String(), { description: "Keys that take effect after a restart." }),
});

export const reloadRoutes =
  (client: ReloadClient): Routes =>
  (api) => {
    api.post(
      "/v1/server/reload",
      {
        config: { may: "admin" },
        schema: {
          summary: "Reloads configuration, tokens and certificates: all of them, or none",
          response: answers({ 200: Reloaded }, 422),
        },
      },
      async () => {
        const outcome = await client.reload();
        if ("faults" in outcome)
          throw new Problem("bad-config", `Everything stays as it was: ${outcome.faults}`);
        return { changed: [...outcome.changed], needsRestart: [...outcome.needsRestart] };
      },
    );
  };
