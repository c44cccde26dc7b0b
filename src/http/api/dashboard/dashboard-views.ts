// Views of the dashboard's pages, one object each, from the same sources as the API.

import { Type } from "typebox";
import { Value } from "typebox/value";
import { matchesGlob } from "../../../base/glob.ts";
import type {
  LogView,
  OverviewView,
  Rates,
  ServerView,
  TubeRow,
  TubesView,
} from "../../../dashboard/parts/view-types.ts";
import { TubeField } from "../../../message/control.ts";
import { Counter, countersOf, rolesOf } from "../../../message/topology.ts";
import { putReadinessOf, readinessOf } from "../../queue/health.ts";
import { knownSigns, knownTotals, knownTubes } from "../../queue/last-known.ts";
import type { Service } from "../../queue/service.ts";
import { TUBE_COUNTERS, type TubeEntry } from "../../state/tube-cache.ts";
import { groupView } from "../admin/group-view.ts";
import { logView, serverView } from "../admin/server-view.ts";
import { threadRows } from "../admin/thread-rows.ts";
import { type Permission, shardOf } from "../api.ts";
import { tubeOrder, tubeView } from "../tubes/tube-view.ts";
import { attentionOf, type Signs } from "./attention.ts";
import { frameOf } from "./dashboard-frame.ts";
import { auditView, connectionsView, jobPageView, taskPageView, tasksView } from "./operator-views.ts";

/** Rows on a page of tubes. */
const TUBES_PAGE = 50;
const SHORT_LIST = 5;
/** Periods of the timeout and sync rules of "Needs attention", seconds. */
const TIMEOUTS_SECONDS = 600;
const SYNCS_SECONDS = 300;
/** Period of the server-wide rates, seconds. */
const RATE_SECONDS = 5;

const text = Type.Optional(Type.String({ maxLength: 400 }));
const TubesQuery = Type.Object({
  match: text,
  sort: text,
  order: Type.Optional(Type.Union([Type.Literal("asc"), Type.Literal("desc")])),
  from: Type.Optional(Type.String({ pattern: "^[0-9]{1,9}$" })),
});

export interface View {
  /** Permission to see the view. */
  readonly may: Permission;
  /** The view that clients without the permission see instead. */
  readonly otherwise?: string;
  /** Refresh interval, ms. */
  readonly eachMs: number;
  /** Builds the view; `query` is the page's. Throws RangeError if the query is invalid. */
  readonly make: (service: Service, query: Readonly<Record<string, string>>) => Promise<object>;
}

const EACH_MS = 1000;
/** A task's page should show its end without delay. */
const TASK_EACH_MS = 250;

const seen = (make: View["make"]): View => ({ may: "view", eachMs: EACH_MS, make });

export const VIEWS: Readonly<Record<string, View>> = {
  overview: seen(overview),
  tubes: seen(tubes),
  tube: seen(tube),
  job: {
    ...{ may: "bodies", eachMs: EACH_MS, otherwise: "job-without-texts" },
    make: (service, query) => jobPageView(service, query, true),
  },
  "job-without-texts": seen((service, query) => jobPageView(service, query, false)),
  connections: seen(connectionsView),
  log: seen(async (service) => ({ frame: frameOf(service), log: logOf(service) })),
  group: seen(async (service) => ({ frame: frameOf(service), group: groupView(service) })),
  server: seen(server),
  // Pages that fetch all their data themselves.
  frame: seen(async (service) => ({ frame: frameOf(service) })),
  task: { may: "manage", eachMs: TASK_EACH_MS, make: taskPageView },
  tasks: { may: "manage", eachMs: EACH_MS, make: tasksView },
  audit: { may: "admin", eachMs: EACH_MS, make: auditView },
};

function logOf(service: Service): LogView | null {
  return service.topology.binlog === undefined ? null : logView(service);
}

async function overview(service: Service): Promise<OverviewView> {
  const frame = frameOf(service);
  if (!readinessOf(service).ok) return { ...EMPTY_OVERVIEW, frame };
  const [totals, tubes, flows] = await Promise.all([
    knownTotals(service),
    knownTubes(service),
    knownSigns(service),
  ]);
  if (totals === undefined) return { ...EMPTY_OVERVIEW, frame };
  const { atMs } = service.tubes;
  const entries = [...tubes.values()];
  const byAge = best(entries, (entry) => atMs - entry.get(TubeField.OldestReadyAtMs));
  const oldest = byAge[0] === undefined ? undefined : tubeView(byAge[0], atMs, service.measured);
  return {
    frame,
    jobs: totals.jobs,
    waiting: totals.waiting,
    connections: sum(service, Counter.Connections),
    tubes: tubes.size,
    oldest:
      oldest === undefined || oldest.oldestReady === null
        ? null
        : { tube: oldest.name, seconds: oldest.oldestReady },
    rates: ratesOf(service),
    attention: attentionOf(signsOf(service, { tubes: entries, atMs, flows })),
    busiest: best(
      entries,
      (entry) => entry.rate(TUBE_COUNTERS.puts) + entry.rate(TUBE_COUNTERS.reserves),
    ).map((entry) => tubeView(entry, atMs, service.measured)),
    oldestTubes: byAge.map((entry) => tubeView(entry, atMs, service.measured)),
    log: logOf(service),
    threads: threadRows(service.topology, service.nowMs()).threads,
  };
}

const EMPTY_OVERVIEW: Omit<OverviewView, "frame"> = {
  jobs: { ready: 0, reserved: 0, delayed: 0, buried: 0 },
  waiting: 0,
  connections: 0,
  tubes: 0,
  oldest: null,
  rates: { puts: 0, reserves: 0, deletes: 0, timeouts: 0, disconnects: 0, buries: 0, releases: 0 },
  attention: [],
  busiest: [],
  oldestTubes: [],
  log: null,
  threads: [],
};

/** Returns the entries with the highest values above zero, at most `SHORT_LIST`. */
function best(entries: readonly TubeEntry[], value: (entry: TubeEntry) => number): TubeEntry[] {
  const kept: { readonly entry: TubeEntry; readonly value: number }[] = [];
  for (const entry of entries) {
    const rank = value(entry);
    if (!(rank > 0) || (kept.length === SHORT_LIST && rank <= kept.at(-1)!.value)) continue;
    if (kept.length === SHORT_LIST) kept.pop();
    const at = kept.findIndex((each) => each.value < rank);
    kept.splice(at < 0 ? kept.length : at, 0, { entry, value: rank });
  }
  return kept.map(({ entry }) => entry);
}

function sum({ topology }: Service, counter: number): number {
  let total = 0;
  for (let role = 0; role < rolesOf(topology); role++) total += countersOf(topology, role)[counter]!;
  return total;
}

const RATED = ["puts", "reserves", "deletes", "timeouts", "disconnects", "buries", "releases"] as const;

function ratesOf({ totals }: Service): Rates {
  const { series } = totals.history(RATE_SECONDS, RATED);
  const rate = (points: readonly [number, number][]): number => {
    const [first, last] = [points[0], points.at(-1)];
    if (first === undefined || last === undefined || last[0] <= first[0]) return 0;
    return Math.round(((last[1] - first[1]) / (last[0] - first[0])) * 10) / 10;
  };
  return Object.fromEntries(RATED.map((name) => [name, rate(series[name] ?? [])])) as Rates;
}

/** Collects the input of "Needs attention". */
function signsOf(service: Service, known: Pick<Signs, "tubes" | "atMs" | "flows">): Signs {
  const { totals, tubeHistory, memory, state, syncs } = service;
  const timeouts = totals.grown(TIMEOUTS_SECONDS, "timeouts");
  const sinceMs = service.wallMs() - TIMEOUTS_SECONDS * 1000;
  return {
    ...known,
    puts: putReadinessOf(service),
    isConfigTaken: state.reload.successful,
    memoryShare: memory.usedBytes / memory.limitBytes,
    reserves: totals.grown(TIMEOUTS_SECONDS, "reserves"),
    timeouts,
    timeoutsTube: timeouts === 0 ? undefined : tubeHistory.mostGrown("timeouts", sinceMs),
    grown: (tube, series) => tubeHistory.grown(tube, series, sinceMs),
    syncs: syncs.summary(service.wallMs() - SYNCS_SECONDS * 1000),
  };
}

async function tubes(service: Service, given: Readonly<Record<string, string>>): Promise<TubesView> {
  if (!Value.Check(TubesQuery, given))
    throw new RangeError("known parameters are match, sort, order and from");
  const frame = frameOf(service);
  if (!readinessOf(service).ok) return { frame, items: [], total: 0, matched: 0, from: 0 };
  const { match = "", sort = "oldest", order } = given;
  const inOrder = tubeOrder(sort, service.measured, order);
  const all = await knownTubes(service);
  const glob = /[*?]/.test(match) ? match : `*${match}*`;
  const matched = [...all.values()].filter(({ name }) => match === "" || matchesGlob(glob, name));
  matched.sort(inOrder);
  const from = Math.min(Number(given.from ?? 0), Math.max(0, matched.length - 1));
  const { atMs } = service.tubes;
  const items = matched
    .slice(from, from + TUBES_PAGE)
    .map((entry) => tubeView(entry, atMs, service.measured)) as TubeRow[];
  return { frame, items, total: all.size, matched: matched.length, from };
}

async function tube(
  service: Service,
  { tube: name = "" }: Readonly<Record<string, string>>,
): Promise<object> {
  const frame = frameOf(service);
  if (!readinessOf(service).ok || name === "") return { frame, tube: null };
  const entry = await service.tubes.tube(name, shardOf(service, name));
  return { frame, tube: entry === undefined ? null : tubeView(entry, service.nowMs(), service.measured) };
}

async function server(service: Service): Promise<ServerView> {
  const totals = await knownTotals(service);
  return {
    frame: frameOf(service),
    server: serverView(service, totals),
    ...threadRows(service.topology, service.nowMs()),
  };
}
