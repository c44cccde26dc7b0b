// Settings of tubes in JSON: `max-attempts=5` is `"maxAttempts": 5`. Durations are in seconds.

import { type Static, type TObject, type TSchema, Type } from "typebox";
import { matchesGlob } from "../../base/text.ts";
import type { SettingInEffect } from "../../message/control.ts";
import { isTubeName } from "../../protocol/tube-name.ts";
import { SETTINGS, type Setting } from "../../schema/setting.ts";
import { answers, type Routes, requireServing, shardOf } from "../api/api.ts";
import { decodeCursor, encodeCursor, toMilliseconds } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { Fields } from "../api/schemas.ts";
import { AsyncQueue } from "../link/control-client.ts";
import type { Service } from "../queue/service.ts";

const NUMBER_MAX = 2 ** 32 - 1;
/** Each part of a rate is from 1 to 4294967295. */
const RATE = "^[1-9][0-9]{0,9}/[1-9][0-9]{0,9}$";

type SettingJson = Readonly<Record<string, number | string>>;
/** Some settings; null removes one. */
type SettingChanges = Readonly<Record<string, number | string | null>>;

const BY_NAME: ReadonlyMap<string, Setting> = new Map(SETTINGS.map((setting) => [setting.name, setting]));
const BY_WORD: ReadonlyMap<string, Setting> = new Map(SETTINGS.map((setting) => [setting.word, setting]));

function schemaOf({ kind, min = 0, max = NUMBER_MAX, words = {} }: Setting): TSchema {
  switch (kind) {
    case "number":
      return Type.Integer({ minimum: min, maximum: max });
    case "bytes":
      return Type.Integer({ minimum: min, maximum: Number.MAX_SAFE_INTEGER });
    case "duration":
      return Type.Number({ minimum: 0, maximum: NUMBER_MAX, description: "Seconds, to the millisecond." });
    case "word":
      return Type.Union(Object.keys(words).map((word) => Type.Literal(word)));
    case "rate":
      return Type.String({ pattern: RATE, description: "Number of jobs, a slash, and number of seconds." });
    case "tube":
      return Type.String({ minLength: 1, maxLength: 200 });
  }
}

const schemaOfAll = (fieldOf: (schema: TSchema) => TSchema): TObject =>
  Type.Object(
    Object.fromEntries(SETTINGS.map((setting) => [setting.name, Type.Optional(fieldOf(schemaOf(setting)))])),
    { additionalProperties: false },
  );

/** Schema of the settings of a tube or pattern. */
export const Settings: TObject = schemaOfAll((schema) => schema);

/** Schema of a change of some settings. */
export const Changes: TObject = schemaOfAll((schema) => Type.Union([schema, Type.Null()]));

/** Schema of the settings in effect for a tube, each with the pattern that it comes from. */
export const SettingsInEffect: TObject = schemaOfAll((value) => Type.Object({ value, from: Type.String() }));

/** Converts one setting from the form of set-tube to its field and value. */
function settingJson(word: string, text: string): [field: string, value: number | string] {
  const { name, unset } = BY_WORD.get(word)!;
  return [name, typeof unset === "number" ? Number(text) : text];
}

/** Converts the settings in effect for a tube. */
export function settingsInEffect(
  settings: readonly SettingInEffect[],
): Record<string, { value: number | string; from: string }> {
  return Object.fromEntries(
    settings.map(([name, text, from]) => {
      const [field, value] = settingJson(name, text);
      return [field, { value, from }];
    }),
  );
}

/** Converts settings from the form of set-tube, `max-attempts=5 backoff=10`. */
export function settingsJson(text: string): SettingJson {
  const options = text.split(" ").filter((option) => option !== "");
  return Object.fromEntries(
    options.map((option) => {
      const [name, value] = option.split("=", 2) as [string, string];
      return settingJson(name, value);
    }),
  );
}

/**
 * Converts settings that passed the schema to the form of set-tube. It removes omitted settings.
 */
export const settingsLine = (settings: SettingJson): string =>
  SETTINGS.map(({ name }) => optionOf(name, valueAt(settings, name) ?? null)).join(" ");

/** Does the same for a change, which leaves omitted settings alone. */
export const changesLine = (changes: SettingChanges): string =>
  Object.entries(changes)
    .map(([field, value]) => optionOf(field, value))
    .join(" ");

const valueAt = (settings: SettingJson, field: string): number | string | undefined =>
  Object.hasOwn(settings, field) ? settings[field] : undefined;

function optionOf(field: string, value: number | string | null): string {
  const { word, kind } = BY_NAME.get(field)!;
  if (value === null) return `${word}=`;
  if (kind === "duration") return `${word}=${toMilliseconds(Number(value), field)}`;
  if (kind === "tube") requireTubeName(`${value}`, field);
  if (kind === "rate") requireRate(`${value}`, field);
  return `${word}=${value}`;
}

function requireRate(rate: string, field: string): void {
  if (rate.split("/").some((part) => Number(part) > NUMBER_MAX))
    throw new Problem(
      "bad-request",
      `"/${field}" must be two numbers from 1 to ${NUMBER_MAX} with a slash between, not "${rate}".`,
    );
}

function requireTubeName(name: string, field: string): void {
  const bytes = Buffer.from(name);
  if (!isTubeName(bytes, 0, bytes.length))
    throw new Problem("bad-tube-name", `"/${field}" must be the name of a tube, not "${name}".`);
}

// Routes of settings: limits, retries and times to live of a tube, or of all tubes with a prefix.

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
    async (request) => {
      const pattern = patternOf(request.params, request.query);
      request.before = await change(service, pattern, settingsLine(request.body as SettingJson));
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
    async (request) => {
      const pattern = patternOf(request.params, request.query);
      const changes = changesLine(request.body as SettingChanges);
      if (changes === "")
        throw new Problem(
          "bad-request",
          `Give at least one of ${Object.keys(Changes.properties).join(", ")}.`,
        );
      request.before = await change(service, pattern, changes);
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
    async (request) => {
      const pattern = patternOf(request.params, request.query);
      request.before = await change(service, pattern, settingsLine({}));
      return await oneOf(service, pattern);
    },
  );
};

/**
 * Changes settings, and returns those values of before that it replaces, as they were when it
 * began.
 */
async function change(
  service: Service,
  pattern: string,
  options: string,
): Promise<Readonly<Record<string, string>>> {
  requireServing(service);
  const before = settingsJson((await settingOf(service, pattern)) ?? "");
  const { line } = await service.wire.command(`set-tube ${pattern} ${options}`);
  const changed: ReadonlySet<string | undefined> = new Set(
    options.split(" ").map((option) => BY_WORD.get(option.split("=")[0]!)?.name),
  );
  if (line === "SET")
    return Object.fromEntries(
      Object.entries(before).flatMap(([name, value]) => (changed.has(name) ? [[name, `${value}`]] : [])),
    );
  if (line === "OUT_OF_MEMORY")
    throw new Problem("settings-full", "Remove the settings of a pattern or tube that no longer needs them.");
  throw new Problem("bad-request", `The queue refuses these settings: ${line}.`);
}

const settingOf = (service: Service, pattern: string): Promise<string | null> =>
  service.control.ask(shardOf(service, pattern), "setting", { pattern });

async function oneOf(service: Service, pattern: string): Promise<Static<typeof One>> {
  const [text, tubes] = await Promise.all([settingOf(service, pattern), service.tubes.fresh(FRESH_MS)]);
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
