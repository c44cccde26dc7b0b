// Routes of settings: limits, retries and times to live of a tube, or of all tubes with a prefix.

import { type Static, Type } from "typebox";
import { matchesGlob } from "../../../base/glob.ts";
import { isTubeName } from "../../../protocol/tube-name.ts";
import { AsyncQueue } from "../../link/async-queue.ts";
import type { Service } from "../../queue/service.ts";
import { answers, type Routes, requireServing, shardOf } from "../api.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import { Problem } from "../problem.ts";
import { Fields } from "../schemas.ts";
import {
  Changes,
  changesLine,
  type SettingChanges,
  type SettingJson,
  Settings,
  settingsJson,
  settingsLine,
} from "./setting-values.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;
/** Age of the table of tubes that are counted, ms. */
const FRESH_MS = 200;

const PatternParams = Type.Object({
  pattern: Type.String({
    description: "A tube, a prefix with *, or * alone; or - for the one in ?pattern=.",
  }),
});
const patternQuery = {
  pattern: Type.Optional(Type.String({ description: "The pattern if the path has -." })),
};
const PatternQuery = Type.Object(patternQuery);

const One = Fields({
  pattern: Type.String(),
  settings: Settings,
  tubes: Type.Integer({ description: "Number of existing tubes whose names it matches." }),
});
const List = Fields({
  items: Type.Array(Fields({ pattern: Type.String(), settings: Settings })),
  cursor: Type.Union([Type.String(), Type.Null()]),
});
const ListQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
    cursor: Type.Optional(Type.String({ maxLength: 1000 })),
  },
  { additionalProperties: false },
);

export const settingsRoutes: Routes = (api, service) => {
  addList(api, service);
  addPatterns(api, service);
};

const addList: Routes = (api, service) => {
  // A page needs up to a page from each shard, some MB with long names. All clients at once could
  // fill the heap.
  const pages = new AsyncQueue();
  api.get(
    "/v1/settings",
    {
      config: { may: "view" },
      schema: {
        summary: "Settings of tubes and patterns, by name",
        querystring: ListQuery,
        response: answers({ 200: List }, 400, 503),
      },
    },
    async ({ query: { limit = LIMIT, cursor } }, reply) => {
      requireServing(service);
      const after = cursor === undefined ? "" : (decodeCursor(cursor, ["string"]) as [string])[0];
      const { settings, isMore } = await pages.run(reply.raw, () => pageOf(service, after, limit));
      return {
        items: settings.map(([pattern, text]) => ({ pattern, settings: settingsJson(text) })),
        cursor: isMore ? encodeCursor([settings.at(-1)![0]]) : null,
      };
    },
  );
};

const addPatterns: Routes = (api, service) => {
  const shared = { params: PatternParams, querystring: PatternQuery };
  api.get(
    "/v1/settings/:pattern",
    {
      config: { may: "view" },
      schema: {
        summary: "The settings of a tube or pattern itself, and how many tubes it matches",
        ...shared,
        response: answers({ 200: One }, 400, 503),
      },
    },
    async ({ params, query }) => {
      requireServing(service);
      return await oneOf(service, patternOf(params, query));
    },
  );
  api.put(
    "/v1/settings/:pattern",
    {
      config: { may: "manage" },
      schema: {
        summary: "Replaces the settings of a tube or pattern",
        ...shared,
        body: Settings,
        response: answers({ 200: One }, 400, 503, 507),
      },
    },
    async ({ params, query, body }) => {
      const pattern = patternOf(params, query);
      await change(service, pattern, settingsLine(body as SettingJson));
      return await oneOf(service, pattern);
    },
  );
  api.patch(
    "/v1/settings/:pattern",
    {
      config: { may: "manage" },
      schema: {
        summary: "Changes some settings of a tube or pattern; null removes one",
        ...shared,
        body: Changes,
        response: answers({ 200: One }, 400, 503, 507),
      },
    },
    async ({ params, query, body }) => {
      const pattern = patternOf(params, query);
      const changes = changesLine(body as SettingChanges);
      if (changes === "")
        throw new Problem(
          "bad-request",
          `Give at least one of ${Object.keys(Changes.properties).join(", ")}.`,
        );
      await change(service, pattern, changes);
      return await oneOf(service, pattern);
    },
  );
  api.delete(
    "/v1/settings/:pattern",
    {
      config: { may: "manage" },
      schema: {
        summary: "Removes the settings of a tube or pattern",
        ...shared,
        response: answers({ 200: One }, 400, 503),
      },
    },
    async ({ params, query }) => {
      const pattern = patternOf(params, query);
      await change(service, pattern, settingsLine({}));
      return await oneOf(service, pattern);
    },
  );
};

async function change(service: Service, pattern: string, options: string): Promise<void> {
  requireServing(service);
  const { line } = await service.wire.command(`set-tube ${pattern} ${options}`);
  if (line === "SET") return;
  if (line === "OUT_OF_MEMORY")
    throw new Problem("settings-full", "Remove the settings of a pattern or tube that no longer needs them.");
  throw new Problem("bad-request", `The queue refuses these settings: ${line}.`);
}

async function oneOf(service: Service, pattern: string): Promise<Static<typeof One>> {
  const [text, tubes] = await Promise.all([
    service.control.ask(shardOf(service, pattern), "setting", { pattern }),
    service.tubes.fresh(FRESH_MS),
  ]);
  let count = 0;
  for (const tube of tubes.keys()) if (matchesGlob(pattern, tube)) count++;
  return { pattern, settings: settingsJson(text ?? ""), tubes: count };
}

/** Returns the first settings of patterns after one of them, in order, over all shards. */
async function pageOf(
  { control }: Service,
  after: string,
  limit: number,
): Promise<{ settings: (readonly [pattern: string, text: string])[]; isMore: boolean }> {
  const settings: (readonly [string, string])[] = [];
  const question = { after, limit: limit + 1 };
  await Promise.all(
    Array.from({ length: control.shards }, (_, shard) =>
      control.askParts(shard, "settings", question, (bytes) => {
        settings.push(...control.valueOf<"settings">(bytes));
      }),
    ),
  );
  settings.sort(([a], [b]) => (a < b ? -1 : 1));
  return { settings: settings.slice(0, limit), isMore: settings.length > limit };
}

function patternOf(params: { pattern: string }, query: { pattern?: string }): string {
  const pattern = params.pattern === "-" ? (query.pattern ?? "") : params.pattern;
  if (pattern === "*") return pattern;
  const bytes = Buffer.from(pattern.replace(/\*$/, ""));
  if (!isTubeName(bytes, 0, bytes.length))
    throw new Problem("bad-tube-name", `"${pattern}" is neither a tube name nor a prefix with *.`);
  return pattern;
}
