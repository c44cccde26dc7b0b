// Routes of schedules, which put jobs at the times of a cron expression or at intervals.

import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import {
  INTERVAL_MS_MAX,
  MISSED_WORDS,
  OVERLAP_WORDS,
  SCHEDULE_BODY_BYTES_MAX,
  SCHEDULE_NAME_BYTES_MAX,
} from "../../protocol/schedule-options.ts";
import { eachScheduleCounter } from "../../schema/schedule.ts";
import { answers, maySeeTexts, type Routes, requireServing, tubeOf } from "../api/api.ts";
import { decodeCursor, encodeCursor, toMilliseconds } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import {
  filteredList,
  nameMatches,
  type Rows,
  reportFields,
  reportList,
  utf8Of,
} from "../api/protocol-reports.ts";
import { Fields, ListedSchedule as Listed, Schedule as One } from "../api/schemas.ts";
import { bodyField, wantsMsgpack } from "../app/request-bodies.ts";
import { bytesOf } from "../link/put-pool.ts";
import type { Service } from "../queue/service.ts";
import { metaView } from "./job-routes.ts";
import {
  bodyOf,
  jobTimes,
  jsonReader,
  meta,
  optionsOf,
  PRI,
  putOptions,
  refused,
  TTR_SECONDS,
} from "./put-routes.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;
const EXPRESSION_LENGTH_MAX = 200;
const NAME_LENGTH_MAX = 200;
const MATCH = "A text in its name or its tube's name, or a pattern such as mail-*.";

const List = Fields({ items: Type.Array(Listed), cursor: Type.Union([Type.String(), Type.Null()]) });

const expression = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: EXPRESSION_LENGTH_MAX, description }));
const NewSchedule = Fields(
  {
    tube: Type.String(),
    cron: expression("5 fields; 6 with seconds first, 7 with a year last; or @daily and the like."),
    every: Type.Optional(
      Type.Number({ minimum: 1, maximum: INTERVAL_MS_MAX / 1000, description: "Seconds between two jobs." }),
    ),
    tz: expression("IANA time zone of cron; UTC by default."),
    missed: Type.Optional(Type.Enum([...MISSED_WORDS])),
    overlap: Type.Optional(Type.Enum([...OVERLAP_WORDS])),
    ...jobTimes,
    body: Type.Optional(
      Type.Unsafe<string | Uint8Array>({ description: "Text; in MessagePack also bytes." }),
    ),
    bodyBase64: Type.Optional(Type.String()),
    json: Type.Optional(Type.Unknown({ description: "Any value, kept as written." })),
    ttl: putOptions.ttl,
    group: putOptions.group,
    weight: putOptions.weight,
    meta,
  },
  "Exactly one of cron and every, and of body, bodyBase64 and json.",
);

const ScheduleParams = Type.Object({
  name: Type.String({ description: "A schedule, or - for the one in ?name=." }),
});
const ScheduleQuery = Type.Object(
  { name: Type.Optional(Type.String({ description: "The name if the path has -." })) },
  { additionalProperties: false },
);
const ListQuery = Type.Object(
  {
    tube: Type.Optional(Type.String({ description: "Only schedules that put jobs into this tube." })),
    match: Type.Optional(Type.String({ maxLength: NAME_LENGTH_MAX, description: MATCH })),
    state: Type.Optional(
      Type.Enum(["active", "paused", "late", "missed"], {
        description: "late: its job is refused; missed: some ticks put no job.",
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
    cursor: Type.Optional(Type.String({ maxLength: 1000 })),
  },
  { additionalProperties: false },
);
const shared = { params: ScheduleParams, querystring: ScheduleQuery };

export const scheduleRoutes: Routes = (api, service) => {
  addList(api, service);
  addShowAndSet(api, service);
  addChanges(api, service);
};

type ListedSchedule = Static<typeof Listed>;

/** A tick puts its job within a second; an older one was refused, or the server is busy. */
const LATE_MS = 5000;
const isLate = ({ paused, next }: ListedSchedule, wallMs: number): boolean =>
  !paused && next !== null && wallMs - Date.parse(next) >= LATE_MS;

const IN_STATE = {
  active: (row: ListedSchedule, wallMs: number): boolean => !row.paused && !isLate(row, wallMs),
  paused: ({ paused }: ListedSchedule): boolean => paused,
  late: isLate,
  missed: ({ missedTicks }: ListedSchedule): boolean => missedTicks > 0,
} as const;

const addList: Routes = (api, service) => {
  api.get(
    "/v1/schedules",
    {
      config: { may: "view" },
      schema: {
        summary: "Schedules, by name",
        querystring: ListQuery,
        response: answers({ 200: List }, 400, 503),
      },
    },
    async ({ query: { tube, match, state, limit = LIMIT, cursor } }) => {
      requireServing(service);
      const of = tube === undefined ? "" : ` tube=${tubeOf({ tube: "-" }, { tube })}`;
      const [from] = cursor === undefined ? [] : (decodeCursor(cursor, ["string"]) as [string]);
      const read = async (after: string | undefined, rows: number): Promise<Rows<ListedSchedule, string>> => {
        const behind = after === undefined ? "" : ` after=${nameText(after)}`;
        const { line, body } = await service.wire.command(`list-schedules limit=${rows}${of}${behind}`);
        if (body === undefined) throw refused(line, service);
        const { next, items } = reportList<ListedSchedule>(body);
        return {
          items: items.map((item) => ({ ...item, name: utf8Of(item.name), every: item.every || null })),
          next: utf8Of(JSON.parse(next)) || undefined,
        };
      };
      const isMeant = (row: ListedSchedule): boolean =>
        (match === undefined || nameMatches(match, row.name) || nameMatches(match, row.tube)) &&
        (state === undefined || IN_STATE[state](row, service.wallMs()));
      const isFiltered = match !== undefined || state !== undefined;
      const { items, next } = await filteredList(
        read,
        from,
        limit,
        isFiltered ? isMeant : undefined,
        ({ name }) => name,
      );
      return { items: [...items], cursor: next === undefined ? null : encodeCursor([next]) };
    },
  );
};

const addShowAndSet: Routes = (api, service) => {
  api.get(
    "/v1/schedules/:name",
    {
      config: { may: "view" },
      schema: {
        summary: "A schedule, with its next runs and its job; the texts only for tokens that may see bodies",
        ...shared,
        response: answers({ 200: One }, 400, 404, 503),
      },
    },
    async (request) => {
      requireServing(service);
      return await oneOf(service, nameOf(request), request);
    },
  );
  api.put(
    "/v1/schedules/:name",
    {
      config: { may: "manage", keepsText: true },
      schema: {
        summary:
          "Creates or replaces a schedule; keeps a pause and the counts and, with the same times, the next run",
        ...shared,
        body: NewSchedule,
        response: answers({ 200: One }, 400, 413, 503, 507),
      },
    },
    async (request) => {
      requireServing(service);
      const name = nameOf(request);
      const asked = request.body as Static<typeof NewSchedule>;
      const body = bodyOf(asked, 0, jsonReader(request));
      const line = `set-schedule ${nameText(name)} ${tubeOf({ tube: "-" }, asked)} ${setOptions(asked, bytesOf(body))}`;
      const reply = await service.wire.commandWith(line, body, bytesOf(body));
      if (reply !== "SET") throw refusedSet(reply, service);
      return await oneOf(service, name, request);
    },
  );
};

const CHANGES = [
  ["pause", "PAUSED", "Pauses a schedule: skips all ticks until resume"],
  ["resume", "RESUMED", "Resumes a schedule from the next tick on"],
] as const;

const addChanges: Routes = (api, service) => {
  const may = { may: "manage" } as const;
  api.delete(
    "/v1/schedules/:name",
    {
      config: may,
      schema: {
        summary: "Removes a schedule; jobs that it has put stay",
        ...shared,
        response: answers({ 204: Type.Null() }, 400, 404, 503),
      },
    },
    async (request, reply) => {
      await change(service, "delete-schedule", nameOf(request), "DELETED");
      reply.code(204);
      return null;
    },
  );
  for (const [what, done, summary] of CHANGES)
    api.post(
      `/v1/schedules/:name/${what}`,
      { config: may, schema: { summary, ...shared, response: answers({ 200: Fields({}) }, 400, 404, 503) } },
      async (request) => {
        await change(service, `${what}-schedule`, nameOf(request), done);
        return {};
      },
    );
  api.post(
    "/v1/schedules/:name/run",
    {
      config: may,
      schema: {
        summary: "Puts one job now, even during a pause; the next tick stays",
        ...shared,
        response: answers({ 201: Fields({ id: Type.Integer() }) }, 400, 404, 409, 503, 507),
      },
    },
    async (request, reply) => {
      const line = await change(service, "run-schedule", nameOf(request), "INSERTED");
      const id = Number(line.split(" ")[1]);
      reply.code(201).header("location", `/v1/jobs/${id}`);
      return { id };
    },
  );
};

/** Sends a command about a schedule, and returns the line of its reply. */
async function change(service: Service, verb: string, name: string, done: string): Promise<string> {
  requireServing(service);
  const { line } = await service.wire.command(`${verb} ${nameText(name)}`);
  if (line.split(" ", 1)[0] === done) return line;
  throw line === "NOT_FOUND" ? noSuchSchedule(name) : refused(line, service);
}

const noSuchSchedule = (name: string): Problem =>
  new Problem("schedule-not-found", `There is no schedule "${name}": PUT creates one.`);

function refusedSet(reply: string, service: Service): Problem {
  const [, why] = /^BAD_SCHEDULE (.*)$/.exec(reply) ?? [];
  if (why !== undefined) return new Problem("bad-request", utf8Of(why));
  if (reply === "JOB_TOO_BIG")
    return new Problem(
      "job-too-big",
      `The job of a schedule can have at most ${Math.min(service.topology.jobBytesMax, SCHEDULE_BODY_BYTES_MAX)} bytes.`,
    );
  if (reply === "BAD_FORMAT" || reply.startsWith("UNKNOWN_OPTION"))
    return new Problem("bad-request", `The queue refuses this schedule: ${reply}.`);
  return refused(reply, service);
}

function setOptions(asked: Static<typeof NewSchedule>, bytes: number): string {
  const {
    cron,
    every,
    tz,
    missed,
    overlap,
    pri = PRI,
    delay = 0,
    ttr = TTR_SECONDS,
    ttl,
    group,
    weight,
  } = asked;
  if ((cron === undefined) === (every === undefined))
    throw new Problem("bad-request", 'A schedule needs exactly one of "/cron" and "/every".');
  let text = `${pri} ${toMilliseconds(delay, "delay")} ${ttr} ${bytes}`;
  if (cron !== undefined) text += ` cron=${printable(cron.trim().replace(/\s+/g, "_"), "cron")}`;
  if (every !== undefined) text += ` every=${toMilliseconds(every, "every")}`;
  if (tz !== undefined) text += ` tz=${printable(tz, "tz")}`;
  if (missed !== undefined) text += ` missed=${missed}`;
  if (overlap !== undefined) text += ` overlap=${overlap}`;
  const { meta } = asked;
  const job = {
    ...(ttl === undefined ? {} : { ttl }),
    ...(group === undefined ? {} : { group }),
    ...(weight === undefined ? {} : { weight }),
    ...(meta === undefined ? {} : { meta }),
  };
  return text + optionsOf(job, {});
}

function printable(text: string, field: string): string {
  if (/^[!-~]{1,200}$/.test(text)) return text;
  throw new Problem("bad-request", `"/${field}" must be 1 to 200 printable ASCII characters.`);
}

function nameOf({ params, query }: { params: { name: string }; query: { name?: string } }): string {
  const name = params.name === "-" ? (query.name ?? "") : params.name;
  nameText(name);
  return name;
}

/** Returns a name in the form of a line: each character is a byte of UTF-8. */
function nameText(name: string): string {
  const bytes = Buffer.from(name);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a name can't have these
  const isBad = name === "" || /[\x00-\x20\x7f]/.test(name) || !name.isWellFormed();
  if (isBad || bytes.length > SCHEDULE_NAME_BYTES_MAX)
    throw new Problem(
      "bad-request",
      `${JSON.stringify(name)} can't be the name of a schedule: 1 to ${SCHEDULE_NAME_BYTES_MAX} bytes of UTF-8 without blanks and control characters.`,
    );
  return bytes.toString("latin1");
}

async function oneOf(service: Service, name: string, request: FastifyRequest): Promise<Static<typeof One>> {
  const { line, body } = await service.wire.command(`inspect-schedule ${nameText(name)}`);
  if (body === undefined) throw line === "NOT_FOUND" ? noSuchSchedule(name) : refused(line, service);
  const fields = reportFields(body);
  const number = (key: string): number => Number(fields[key]);
  const text = (key: string): string => String(fields[key]);
  const textOrNull = (key: string): string | null => (fields[key] === null ? null : utf8Of(text(key)));
  const timeOrNull = (key: string): string | null => (fields[key] === null ? null : text(key));
  const shown = Buffer.from(text("body"), "latin1");
  const seesTexts = maySeeTexts(request);
  return {
    name,
    tube: text("tube"),
    cron: textOrNull("cron"),
    every: number("every") || null,
    tz: text("tz"),
    missed: (fields["missed"] ?? "none") as (typeof MISSED_WORDS)[number],
    overlap: text("overlap") as (typeof OVERLAP_WORDS)[number],
    paused: text("paused") === "true",
    next: timeOrNull("next"),
    nextRuns: fields["nextRuns"] as string[],
    last: timeOrNull("last"),
    ...eachScheduleCounter(number),
    lastRefusal: textOrNull("lastRefusal"),
    pri: number("pri"),
    delay: number("delay"),
    ttr: number("ttr"),
    ttl: number("ttl"),
    group: seesTexts ? textOrNull("group") : null,
    weight: number("weight"),
    meta: seesTexts ? metaView(fields["meta"] as string[]) : {},
    bytes: number("bytes"),
    ...(seesTexts ? (bodyField(shown, wantsMsgpack(request)) as { body: string }) : {}),
    truncated: (seesTexts ? shown.length : 0) < number("bytes"),
  };
}
