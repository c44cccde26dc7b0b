// Routes that browse jobs page by page. Browsing changes no state, counter or queue position.

import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { BrowsePart, JobFacts, StateName } from "../../message/control.ts";
import { answers, maySeeTexts, type Routes, requireServing, shardOf, tubeOf } from "../api/api.ts";
import { decodeCursor, encodeCursor, whereFields, whereOf } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { Fields, Job, JobState, TubeParams, tubeQuery } from "../api/schemas.ts";
import { wantsMsgpack } from "../app/request-bodies.ts";
import type { Service } from "../queue/service.ts";
import { jobView } from "./job-routes.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;
const BODY_MAX = 200;
const BODY_MAX_MAX = 65_536;
/** Maximum of body bytes on a page; JSON escapes may make it six times as long. */
const PAGE_BODY_BYTES_MAX = 2 * 1024 * 1024;
/** The shards list once more while jobs move between them, at most this often. */
const ROUNDS_MAX = 4;
/** A page ends after this many jobs or ms, even if it holds few. */
const LOOKS_MAX = 200_000;
const PAGE_MS_MAX = 200;
const ALL: readonly StateName[] = ["ready", "reserved", "delayed", "buried"];

const query = {
  ...whereFields,
  state: Type.Optional(JobState),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
  cursor: Type.Optional(Type.String({ maxLength: 200 })),
  bodyMax: Type.Optional(Type.Integer({ minimum: 0, maximum: BODY_MAX_MAX })),
};
const AllQuery = Type.Object(query, { additionalProperties: false });
const order = Type.Optional(
  Type.Union([Type.Literal("scan"), Type.Literal("next")], {
    description: "scan: by id, with a cursor; next: the first ones in the order of reservation.",
  }),
);
const TubeJobsQuery = Type.Object({ ...query, ...tubeQuery, order }, { additionalProperties: false });
const Page = Fields({
  items: Type.Array(Job),
  cursor: Type.Union([Type.String(), Type.Null()]),
  examined: Type.Integer({ description: "Jobs that were examined." }),
});

type Query = Static<typeof AllQuery>;
type PageView = Static<typeof Page>;

/** Position within the jobs of a tube, or of all of them. */
interface Cursor {
  readonly tube: string | undefined;
  readonly order: "scan" | "next";
  readonly afterId: number;
}

export const browseRoutes: Routes = (api, service) => {
  api.get(
    "/v1/tubes/:tube/jobs",
    {
      config: { may: "view" },
      schema: {
        summary: "Jobs of a tube",
        params: TubeParams,
        querystring: TubeJobsQuery,
        response: answers({ 200: Page }, 400, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const { order = "scan", cursor, state } = request.query;
      const tube = tubeOf(request.params, request.query);
      if (order === "next" && (state === undefined || state === "reserved" || cursor !== undefined))
        throw new Problem(
          "bad-request",
          "order=next takes exactly one of ready, delayed and buried, and no cursor.",
        );
      const [, afterId] = cursor === undefined ? [0, 0] : placeOf(cursor, service);
      return await browse(service, { tube, order, afterId }, request.query, request);
    },
  );

  api.get(
    "/v1/jobs",
    {
      config: { may: "view" },
      schema: {
        summary: "Jobs of all tubes, by id",
        querystring: AllQuery,
        response: answers({ 200: Page }, 400, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const { cursor } = request.query;
      const [shard, afterId] = cursor === undefined ? [0, 0] : placeOf(cursor, service);
      if (shard !== 0) throw new Problem("bad-cursor", "Start the list again, without a cursor.");
      return await browse(service, { tube: undefined, order: "scan", afterId }, request.query, request);
    },
  );
};

function placeOf(cursor: string, { topology }: Service): [shard: number, afterId: number] {
  const [shard, afterId] = decodeCursor(cursor, ["number", "number"]) as [number, number];
  if (!Number.isInteger(shard) || shard < 0 || shard >= topology.shards)
    throw new Problem("bad-cursor", "Start the list again, without a cursor.");
  return [shard, afterId];
}

const isGiven = (value: unknown): boolean => value !== undefined;

interface OpenPage {
  readonly items: PageView["items"];
  examined: number;
  bodyBytes: number;
}

/**
 * Returns a page. Over all tubes, it merges what the shards have, up to the lowest id at which one
 * of them stopped, as `list-jobs *` does. So a job that moves to another shard between two pages is
 * on one of them.
 */
async function browse(
  service: Service,
  place: Cursor,
  given: Query,
  request: FastifyRequest,
): Promise<PageView> {
  const { limit = LIMIT } = given;
  // A client that may search for texts could read them piece by piece.
  if (!maySeeTexts(request) && [given.text, given.textBase64, given.unique, given.group].some(isGiven))
    throw new Problem("forbidden", 'A search for text, unique or group needs the permission "bodies".');
  const sight = { isMsgpack: wantsMsgpack(request), seesTexts: maySeeTexts(request) };
  const page: OpenPage = { items: [], examined: 0, bodyBytes: 0 };
  const fullAtMs = service.nowMs() + PAGE_MS_MAX;
  const isFull = (): boolean =>
    page.items.length >= limit ||
    page.examined >= LOOKS_MAX ||
    page.bodyBytes >= PAGE_BODY_BYTES_MAX ||
    service.nowMs() >= fullAtMs;
  const shards =
    place.tube === undefined
      ? Array.from({ length: service.topology.shards }, (_, shard) => shard)
      : [shardOf(service, place.tube)];
  let { afterId } = place;
  for (;;) {
    const left = {
      ...given,
      limit: limit - page.items.length,
      bodyBytesMax: Math.max(1, Math.floor((PAGE_BODY_BYTES_MAX - page.bodyBytes) / shards.length)),
    };
    const { jobs, doneId, examined } = await listed(service, shards, { ...place, afterId }, left, sight);
    page.examined += examined;
    for (const facts of jobs) {
      page.bodyBytes += facts.body?.length ?? 0;
      page.items.push(jobView(facts, service, sight));
    }
    if (doneId === undefined) return { items: page.items, cursor: null, examined: page.examined };
    afterId = doneId;
    if (isFull() || place.tube !== undefined)
      return { items: page.items, cursor: encodeCursor([0, afterId]), examined: page.examined };
  }
}

interface Merged {
  /** By id over several shards, each once. */
  readonly jobs: readonly JobFacts[];
  /** All jobs up to this id are on the page or don't match; undefined if there are no more. */
  readonly doneId: number | undefined;
  readonly examined: number;
}

interface Sight {
  readonly seesTexts: boolean;
}

type Asked = Query & { readonly limit: number; readonly bodyBytesMax: number };

/**
 * Returns the jobs of several shards. A job that moves meanwhile may be on neither its old shard's
 * list nor its new one's. So if any job has moved, all shards list once more, as in `list-jobs *`
 * (acceptor/fanout/gathered-list.ts), up to the id at which the lists so far end.
 */
export async function listed(
  service: Pick<Service, "core" | "control" | "nowMs">,
  shards: readonly number[],
  place: Cursor,
  given: Asked,
  sight: Sight,
): Promise<Merged> {
  const { places } = service.core;
  const lists: BrowsePart[][] = [];
  for (let round = 1; ; round++) {
    const moves = places.jobMoves;
    const untilMs = service.nowMs() + PAGE_MS_MAX;
    const idTo = Math.min(given.idTo ?? Number.MAX_SAFE_INTEGER, endOf(lists));
    const asked = round === 1 ? given : { ...given, idTo };
    lists.push(
      ...(await Promise.all(
        shards.map((shard) => partsOf(service, shard, place, asked, { ...sight, untilMs })),
      )),
    );
    if (shards.length === 1 || round === ROUNDS_MAX || places.jobMoves === moves)
      return merged(lists, given.limit, place.order);
  }
}

/** Returns the id up to which all lists are complete; Infinity if they have ended. */
const endOf = (lists: readonly (readonly BrowsePart[])[]): number =>
  lists.reduce((end, parts) => {
    const { hasEnded, doneId } = parts.at(-1)!;
    return hasEnded ? end : Math.min(end, doneId);
  }, Number.POSITIVE_INFINITY);

/**
 * Merges the jobs of several shards by id, each once: one that has just moved is on two of them.
 */
function merged(lists: readonly (readonly BrowsePart[])[], limit: number, order: Cursor["order"]): Merged {
  const examined = lists.flat().reduce((sum, part) => sum + part.examined, 0);
  const endId = endOf(lists);
  const all = lists.flat().flatMap(({ jobs }) => jobs);
  if (order === "scan" && lists.length > 1) all.sort((a, b) => a.id - b.id);
  const jobs = all.filter(({ id }, at) => id <= endId && id !== all[at - 1]?.id);
  const isCut = jobs.length > limit;
  if (isCut) jobs.length = limit;
  const doneId = isCut ? jobs.at(-1)!.id : endId;
  return { jobs, doneId: doneId === Number.POSITIVE_INFINITY ? undefined : doneId, examined };
}

/** Asks one shard, and tells it to pause when the time is over. */
async function partsOf(
  { control, nowMs }: Pick<Service, "control" | "nowMs">,
  shard: number,
  { tube, order, afterId }: Cursor,
  given: Asked,
  { seesTexts, untilMs }: Sight & { readonly untilMs: number },
): Promise<BrowsePart[]> {
  const { state, limit, bodyMax = BODY_MAX, bodyBytesMax } = given;
  const parts: BrowsePart[] = [];
  const question = {
    ...(tube === undefined ? {} : { tube }),
    states: state === undefined ? ALL : [state],
    where: whereOf(given),
    order,
    afterId,
    limit,
    bodyMax: seesTexts ? bodyMax : -1,
    bodyBytesMax,
    looksMax: LOOKS_MAX,
  };
  const { number, done } = control.begin(shard, "browse", question, (bytes) => {
    parts.push(control.valueOf<"browse">(bytes));
  });
  const rest = (): void => void control.ask(shard, "cancel", { number }).catch(() => {});
  const timer = setTimeout(rest, Math.max(0, untilMs - nowMs()));
  try {
    await done;
  } finally {
    clearTimeout(timer);
  }
  return parts;
}
