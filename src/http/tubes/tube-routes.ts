// The routes of tubes, and a tube as the API shows it.

import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { matchesGlob } from "../../base/text.ts";
import { eachOf } from "../../schema/names.ts";
import {
  JOB_COUNTS,
  OLDEST_NAMES,
  TUBE_COUNTERS,
  TUBE_FIELDS,
  TUBE_GAUGES,
  TubeField,
} from "../../schema/tube.ts";
import { answers, type Routes, requireServing, shardOf, tubeOf } from "../api/api.ts";
import { chosen, decodeCursor, encodeCursor, fieldsQuery } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { type Counters, Fields, Tube, TubeDetails, TubeParams, tubeQuery } from "../api/schemas.ts";
import { wantsMsgpack } from "../app/request-bodies.ts";
import { AsyncQueue } from "../link/control-client.ts";
import { knownTubes } from "../queue/health.ts";
import type { MeasuredTubes, Recent, RecentTimes } from "../state/time-series.ts";
import { TubeEntry } from "../state/tube-cache.ts";
import { STEP_SECONDS, TUBE_SERIES, type TubeSeriesName } from "../state/tube-history.ts";
import { SettingsInEffect, settingsInEffect } from "./settings-routes.ts";

// Entity tags: a client that already has the response gets 304 without content.

/**
 * Tags the response by `content`, which leaves out mere timestamps, and tells whether the client
 * has it. The tag is weak because the omitted parts may differ.
 */
function isKnown(request: FastifyRequest, reply: FastifyReply, content: unknown): boolean {
  const hash = createHash("sha1").update(JSON.stringify(content)).digest("base64url");
  const tag = `W/"${wantsMsgpack(request) ? "m" : "j"}${hash}"`;
  reply.header("etag", tag);
  const known = request.headers["if-none-match"];
  if (known === undefined) return false;
  // RFC 9110 has weak and strong tags compare alike here, and * matches any.
  const opaque = (each: string): string => each.trim().replace(/^W\//, "");
  return known.trim() === "*" || known.split(",").some((each) => opaque(each) === opaque(tag));
}

// A tube as the API shows it.

type TubeView = Static<typeof Tube>;

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

const recentView = ({ seconds, wait, hold }: Recent): NonNullable<TubeView["times"]> => ({
  seconds: Math.round(seconds),
  wait: roundedTimes(wait),
  hold: roundedTimes(hold),
});

const roundedTimes = ({ count, p50, p99 }: RecentTimes): RecentTimes => ({
  count,
  p50: p50 === null ? null : rounded(p50),
  p99: p99 === null ? null : rounded(p99),
});

/** Returns a tube's view. `nowMs` is the shards' clock, from which ages are calculated. */
export function tubeView(entry: TubeEntry, nowMs: number, measured: Pick<MeasuredTubes, "recent">): TubeView {
  const recent = measured.recent(entry.name);
  const at = (field: number): number => entry.get(field);
  const age = (field: number): number | null =>
    at(field) === Number.POSITIVE_INFINITY ? null : rounded(Math.max(0, nowMs - at(field)) / 1000);
  const untilMs = at(TubeField.pauseUntilMs);
  const counters = (value: (field: number) => number): Static<typeof Counters> =>
    eachOf(TUBE_COUNTERS, (name) => value(TubeField[name]));
  return {
    name: entry.name,
    jobs: eachOf(JOB_COUNTS, (name) => at(TubeField[name])),
    ...eachOf(OLDEST_NAMES, (name) => age(TubeField[`${name}AtMs`])),
    ...eachOf(TUBE_GAUGES, (name) => at(TubeField[name])),
    pause:
      untilMs > nowMs
        ? untilMs === Number.POSITIVE_INFINITY
          ? { seconds: null, timeLeft: null }
          : { seconds: at(TubeField.pauseSeconds), timeLeft: rounded((untilMs - nowMs) / 1000) }
        : null,
    holdsDead: at(TubeField.holdsDead) > 0,
    times: recent === null ? null : recentView(recent),
    totals: counters(at),
    rates: counters((field) => rounded(Math.max(0, entry.rate(field)))),
  };
}

const EMPTY_ROW = new Float64Array(TUBE_FIELDS);
for (const name of OLDEST_NAMES) EMPTY_ROW[TubeField[`${name}AtMs`]] = Number.POSITIVE_INFINITY;
const NOT_MEASURED = { recent: () => null };

/**
 * Returns the view of an empty tube, for one that doesn't exist. Autoscalers ask for tubes that are
 * not in use yet.
 */
export const emptyTube = (name: string): TubeView =>
  tubeView(new TubeEntry(name, 0, EMPTY_ROW, 0), 0, NOT_MEASURED);

const byField =
  (name: keyof typeof TubeField) =>
  (entry: TubeEntry): number =>
    entry.get(TubeField[name]);

/**
 * Numbers that tubes can be sorted by. A Map because clients choose the key, and every object has a
 * "constructor".
 */
const TUBE_ORDERS: ReadonlyMap<string, (entry: TubeEntry) => number> = new Map(
  Object.entries<(entry: TubeEntry) => number>({
    ...eachOf(JOB_COUNTS, byField),
    /** The oldest is the largest, so timestamps are negated. */
    oldest: (entry) => -entry.get(TubeField.oldestReadyAtMs),
    ...eachOf(OLDEST_NAMES, (name) => (entry: TubeEntry) => -entry.get(TubeField[`${name}AtMs`])),
    ...eachOf(TUBE_GAUGES, byField),
    pause: (entry) => entry.get(TubeField.pauseUntilMs),
    busiest: (entry) => entry.rate(TubeField.puts) + entry.rate(TubeField.reserves),
    ...Object.fromEntries(
      TUBE_COUNTERS.flatMap((name) => [
        [name, byField(name)],
        [`${name}Rate`, (entry: TubeEntry) => entry.rate(TubeField[name])],
      ]),
    ),
  }),
);

const TIME_ORDERS: ReadonlyMap<string, (recent: Recent) => number | null> = new Map([
  ["waitP50", ({ wait }: Recent) => wait.p50],
  ["waitP99", ({ wait }: Recent) => wait.p99],
  ["holdP50", ({ hold }: Recent) => hold.p50],
  ["holdP99", ({ hold }: Recent) => hold.p99],
]);

type Comparison = (a: TubeEntry, b: TubeEntry) => number;

/**
 * Returns the comparison for the requested order: by name, or by a number with the largest first.
 * Throws RangeError for an unknown key.
 */
export function tubeOrder(sort: string, measured: MeasuredTubes, order?: "asc" | "desc"): Comparison {
  const sign = (order ?? (sort === "name" ? "asc" : "desc")) === "asc" ? 1 : -1;
  const byName: Comparison = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  if (sort === "name") return (a, b) => sign * byName(a, b);
  const value = TUBE_ORDERS.get(sort) ?? byTime(sort, measured);
  if (value === undefined)
    throw new RangeError(`Tubes can't be sorted by "${sort}"; use ${TUBE_SORTS.join(", ")}`);
  // Subtraction would fail: tubes without jobs have an infinite age, and Infinity minus Infinity is
  // NaN.
  const compare = (x: number, y: number): number => (x < y ? -1 : x > y ? 1 : 0);
  return (a, b) => sign * compare(value(a), value(b)) || byName(a, b);
}

/** Tubes without such a time are the smallest. */
function byTime(sort: string, measured: MeasuredTubes): ((entry: TubeEntry) => number) | undefined {
  const time = TIME_ORDERS.get(sort);
  if (time === undefined) return undefined;
  return ({ name }) => {
    const recent = measured.recent(name);
    return recent === null ? -1 : (time(recent) ?? -1);
  };
}

export const TUBE_SORTS: readonly string[] = ["name", ...TUBE_ORDERS.keys(), ...TIME_ORDERS.keys()];

// Routes of tubes: a sorted and filtered list, single tubes and their history.

const view = { may: "view" } as const;
const live = { ...view, live: true } as const;
const LIMIT = 100;
const LIMIT_MAX = 1000;
const FROM_MAX = 999_999_999;

const ListQuery = Type.Object(
  {
    match: Type.Optional(
      Type.String({ maxLength: 400, description: "A glob: * for any characters, ? for one." }),
    ),
    sort: Type.Optional(Type.String({ description: `One of ${TUBE_SORTS.join(", ")}.` })),
    order: Type.Optional(Type.Union([Type.Literal("asc"), Type.Literal("desc")])),
    ...fieldsQuery,
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
    cursor: Type.Optional(Type.String({ maxLength: 1000 })),
    from: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: FROM_MAX,
        description: "Tubes to skip, instead of a cursor; at most all but one.",
      }),
    ),
    fresh: Type.Optional(
      Type.Boolean({ description: "Asks the shards now instead of using a table of the last second." }),
    ),
  },
  { additionalProperties: false },
);

const TubeInDetail = Fields({
  ...Tube.properties,
  settings: SettingsInEffect,
  details: Type.Union([TubeDetails, Type.Null()]),
});

const List = Fields({
  items: Type.Array(Type.Partial(Tube)),
  cursor: Type.Union([Type.String(), Type.Null()]),
  total: Type.Integer(),
  matched: Type.Integer(),
  from: Type.Integer({ description: "Tubes before the first item." }),
  at: Type.String({ description: "When the table was built." }),
});

export const tubeRoutes: Routes = (api, service) => {
  addTubes(api, service);
  addHistory(api, service);
};

const addTubes: Routes = (api, service) => {
  // Many clients may wait for the same table. All at once, their lists would take several MB of
  // heap each.
  const lists = new AsyncQueue();
  api.get(
    "/v1/tubes",
    {
      config: live,
      schema: { summary: "All tubes", querystring: ListQuery, response: answers({ 200: List }, 400, 503) },
    },
    async (request, reply) => {
      requireServing(service);
      const { match, sort = "name", order, fields, fresh } = request.query;
      const inOrder = orderOf(service.measured, sort, order);
      const tubes = await lists.run(reply.raw, () =>
        fresh === true ? service.tubes.fresh(FRESH_MS) : knownTubes(service),
      );
      const { atMs } = service.tubes;
      const matched = [...tubes.values()].filter(
        ({ name }) => match === undefined || matchesGlob(match, name),
      );
      const { start, entries } = pageOf(matched, inOrder, request.query);
      const end = start + entries.length;
      reply.header("age", Math.floor((service.nowMs() - atMs) / 1000));
      const list = {
        items: entries.map((entry) => chosen(tubeView(entry, atMs, service.measured), fields, "A tube")),
        cursor: end < matched.length ? encodeCursor([end, entries.at(-1)?.name ?? ""]) : null,
        total: tubes.size,
        matched: matched.length,
        from: start,
      };
      if (isKnown(request, reply, list)) return reply.code(304).send();
      return {
        ...list,
        at: new Date(service.wallMs() - (service.nowMs() - atMs)).toISOString(),
      };
    },
  );

  const Missing = Type.Object({ ...tubeQuery, missing: Type.Optional(Type.Literal("zero")) });
  api.get(
    "/v1/tubes/:tube",
    {
      config: live,
      schema: {
        summary: "A tube",
        params: TubeParams,
        querystring: Missing,
        response: answers({ 200: TubeInDetail }, 400, 404, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const name = tubeOf(request.params, request.query);
      const shard = shardOf(service, name);
      const [entry, { settings, details }] = await Promise.all([
        service.tubes.tube(name, shard),
        service.control.ask(shard, "inspect-tube", { tube: name }),
      ]);
      const isZero = entry === undefined && request.query.missing === "zero";
      const counts =
        entry !== undefined
          ? tubeView(entry, service.nowMs(), service.measured)
          : isZero
            ? emptyTube(name)
            : undefined;
      if (counts !== undefined) {
        const view = { ...counts, settings: settingsInEffect(settings), details };
        return isKnown(request, reply, view) ? reply.code(304).send() : view;
      }
      throw new Problem(
        "tube-not-found",
        `No client uses or watches "${name}", and it has no jobs; ?missing=zero returns zeros.`,
      );
    },
  );
};

const addHistory: Routes = (api, service) => {
  const Query = Type.Object({
    ...tubeQuery,
    seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 3000 })),
    series: Type.Optional(
      Type.String({ description: `Any of ${TUBE_SERIES.join(", ")}, separated by commas.` }),
    ),
  });
  const Series = Type.Record(Type.String(), Type.Array(Type.Tuple([Type.Number(), Type.Number()])));
  const History = Fields({
    step: Type.Number(),
    kept: Type.Boolean({
      description: "False for a tube that is only seconds old, or that exceeds the number of recorded tubes.",
    }),
    series: Series,
  });
  api.get(
    "/v1/tubes/:tube/history",
    {
      config: view,
      schema: {
        summary: "The last 50 minutes of a tube in steps of 10 s",
        params: TubeParams,
        querystring: Query,
        response: answers({ 200: History }, 400, 404, 503),
      },
    },
    async (request, reply) => {
      const { seconds = 3000, series } = request.query;
      const tube = tubeOf(request.params, request.query);
      const names = series === undefined ? TUBE_SERIES : [...new Set(series.split(",").map(seriesNamed))];
      const kept = service.tubeHistory.of(tube, names, service.wallMs() - seconds * 1000);
      if (kept === undefined) {
        requireServing(service);
        if ((await service.tubes.tube(tube, shardOf(service, tube))) === undefined)
          throw new Problem("tube-not-found", `No client uses or watches "${tube}", and it has no jobs.`);
      }
      const none = (): Static<typeof Series> => Object.fromEntries(names.map((name) => [name, []]));
      const history = { step: STEP_SECONDS, kept: kept !== undefined, series: kept ?? none() };
      return isKnown(request, reply, history) ? reply.code(304).send() : history;
    },
  );
};

function seriesNamed(name: string): TubeSeriesName {
  const known = TUBE_SERIES.find((each) => each === name);
  if (known !== undefined) return known;
  throw new Problem("bad-request", `There is no series "${name}"; use ${TUBE_SERIES.join(", ")}.`);
}

/**
 * Maximum age of a table that is requested as fresh, ms. All clients together cause at most 5
 * tables a second.
 */
const FRESH_MS = 200;

/** Returns a page of the tubes, and where it starts. May sort `matched`. */
function pageOf(
  matched: TubeEntry[],
  inOrder: (a: TubeEntry, b: TubeEntry) => number,
  { cursor, from = 0, limit = LIMIT }: Static<typeof ListQuery>,
): { readonly start: number; readonly entries: readonly TubeEntry[] } {
  let start = Math.min(from, Math.max(0, matched.length - 1));
  if (cursor === undefined && start + limit <= SELECTED_MAX)
    return { start, entries: firstOf(matched, start + limit, inOrder).slice(start) };
  matched.sort(inOrder);
  if (cursor !== undefined) start = afterCursor(cursor, matched);
  return { start, entries: matched.slice(start, start + limit) };
}

/** A longer list is sorted as a whole. */
const SELECTED_MAX = 200;

/** Returns the first tubes in this order: lists are mostly short, and there may be many tubes. */
function firstOf(
  entries: readonly TubeEntry[],
  count: number,
  inOrder: (a: TubeEntry, b: TubeEntry) => number,
): TubeEntry[] {
  const kept: TubeEntry[] = [];
  for (const entry of entries) {
    if (kept.length === count && inOrder(entry, kept.at(-1)!) >= 0) continue;
    let [low, high] = [0, kept.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (inOrder(entry, kept[middle]!) < 0) high = middle;
      else low = middle + 1;
    }
    kept.splice(low, 0, entry);
    if (kept.length > count) kept.pop();
  }
  return kept;
}

function orderOf(
  measured: MeasuredTubes,
  sort: string,
  order: "asc" | "desc" | undefined,
): ReturnType<typeof tubeOrder> {
  try {
    return tubeOrder(sort, measured, order);
  } catch (error) {
    throw error instanceof RangeError ? new Problem("bad-request", `${error.message}.`) : error;
  }
}

/**
 * Returns where the next page begins: after the last tube, wherever it is now, or at its old
 * position if it is gone.
 */
function afterCursor(cursor: string, matched: readonly TubeEntry[]): number {
  const [place, name] = decodeCursor(cursor, ["number", "string"]) as [number, string];
  if (matched[place - 1]?.name === name) return place;
  const at = matched.findIndex((entry) => entry.name === name);
  return at < 0 ? Math.min(place, matched.length) : at + 1;
}
