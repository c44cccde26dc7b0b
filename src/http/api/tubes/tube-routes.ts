// Routes of tubes: a sorted and filtered list, single tubes and their history.

import { type Static, Type } from "typebox";
import { matchesGlob } from "../../../base/glob.ts";
import { AsyncQueue } from "../../link/async-queue.ts";
import type { MeasuredTubes } from "../../state/measured-tubes.ts";
import type { TubeEntry } from "../../state/tube-cache.ts";
import { STEP_SECONDS, TUBE_SERIES_NAMES, type TubeSeriesName } from "../../state/tube-history.ts";
import { answers, type Routes, requireServing, shardOf, tubeOf } from "../api.ts";
import { isKnown } from "../bodies/entity-tag.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import { Problem } from "../problem.ts";
import { Fields, Tube, TubeDetails, TubeParams, tubeQuery } from "../schemas.ts";
import { SettingsInEffect, settingsInEffect } from "./setting-values.ts";
import { emptyTube, TUBE_SORTS, tubeOrder, tubeView } from "./tube-view.ts";

const view = { may: "view" } as const;
const LIMIT = 100;
const LIMIT_MAX = 1000;

const ListQuery = Type.Object(
  {
    match: Type.Optional(
      Type.String({ maxLength: 200, description: "A glob: * for any characters, ? for one." }),
    ),
    sort: Type.Optional(Type.String({ description: `One of ${TUBE_SORTS.join(", ")}.` })),
    order: Type.Optional(Type.Union([Type.Literal("asc"), Type.Literal("desc")])),
    fields: Type.Optional(Type.String({ description: "Some fields of a tube, separated by commas." })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
    cursor: Type.Optional(Type.String({ maxLength: 1000 })),
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
      config: view,
      schema: { summary: "All tubes", querystring: ListQuery, response: answers({ 200: List }, 400, 503) },
    },
    async (request, reply) => {
      requireServing(service);
      const { match, sort = "name", order, fields, limit = LIMIT, cursor, fresh } = request.query;
      const inOrder = orderOf(service.measured, sort, order);
      const tubes = await lists.run(reply.raw, () =>
        service.tubes.fresh(fresh === true ? FRESH_MS : undefined),
      );
      const { atMs } = service.tubes;
      const matched = [...tubes.values()].filter(
        ({ name }) => match === undefined || matchesGlob(match, name),
      );
      matched.sort(inOrder);
      const start = cursor === undefined ? 0 : afterCursor(cursor, matched);
      const items = matched
        .slice(start, start + limit)
        .map((entry) => pick(tubeView(entry, atMs, service.measured), fields));
      const end = start + items.length;
      reply.header("age", Math.floor((service.nowMs() - atMs) / 1000));
      const list = {
        items,
        cursor: end < matched.length ? encodeCursor([end, matched[end - 1]!.name]) : null,
        total: tubes.size,
        matched: matched.length,
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
      config: view,
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
      Type.String({ description: `Any of ${TUBE_SERIES_NAMES.join(", ")}, separated by commas.` }),
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
      const names =
        series === undefined ? TUBE_SERIES_NAMES : [...new Set(series.split(",").map(seriesNamed))];
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
  const known = TUBE_SERIES_NAMES.find((each) => each === name);
  if (known !== undefined) return known;
  throw new Problem("bad-request", `There is no series "${name}"; use ${TUBE_SERIES_NAMES.join(", ")}.`);
}

/**
 * Maximum age of a table that is requested as fresh, ms. All clients together cause at most 5
 * tables a second.
 */
const FRESH_MS = 200;

/** Returns the requested order. */
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

function pick<View extends object>(view: View, fields: string | undefined): Partial<View> {
  if (fields === undefined) return view;
  return Object.fromEntries(
    fields.split(",").map((field) => {
      if (!Object.hasOwn(view, field)) throw new Problem("bad-request", `A tube has no field "${field}".`);
      return [field, view[field as keyof View]];
    }),
  ) as Partial<View>;
}
