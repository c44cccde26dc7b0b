// Routes that browse jobs page by page. Browsing changes no state, counter or queue position.

import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { BrowsePart, StateName } from "../../../message/control.ts";
import type { Service } from "../../queue/service.ts";
import { answers, maySeeTexts, type Routes, requireServing, shardOf, tubeOf } from "../api.ts";
import { wantsMsgpack } from "../bodies/media.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import { Problem } from "../problem.ts";
import { Fields, Job, JobState, TubeParams, tubeQuery } from "../schemas.ts";
import { whereFields, whereOf } from "../where-schema.ts";
import { jobView, type Sight } from "./job-routes.ts";

const LIMIT = 100;
const LIMIT_MAX = 1000;
const BODY_MAX = 200;
const BODY_MAX_MAX = 65_536;
/** Maximum of body bytes on a page; JSON escapes may make it six times as long. */
const PAGE_BODY_BYTES_MAX = 2 * 1024 * 1024;
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

/** Position within the jobs of one shard. */
interface Cursor {
  readonly shard: number;
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
      const [shard, afterId] = cursor === undefined ? [shardOf(service, tube), 0] : placeOf(cursor, service);
      return await browse(service, { shard, tube, order, afterId }, request.query, request);
    },
  );

  api.get(
    "/v1/jobs",
    {
      config: { may: "view" },
      schema: {
        summary: "Jobs of all tubes, by shard and id",
        querystring: AllQuery,
        response: answers({ 200: Page }, 400, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const { cursor } = request.query;
      const [shard, afterId] = cursor === undefined ? [0, 0] : placeOf(cursor, service);
      return await browse(
        service,
        { shard, tube: undefined, order: "scan", afterId },
        request.query,
        request,
      );
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

/** Returns a page. Over all tubes, it continues on the next shard when one has no more jobs. */
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
  const untilMs = service.nowMs() + PAGE_MS_MAX;
  const isFull = (): boolean =>
    page.items.length >= limit || page.bodyBytes >= PAGE_BODY_BYTES_MAX || service.nowMs() >= untilMs;
  let { shard, afterId } = place;
  for (;;) {
    const left = {
      ...given,
      limit: limit - page.items.length,
      bodyBytesMax: PAGE_BODY_BYTES_MAX - page.bodyBytes,
    };
    const parts = await partsOf(service, { ...place, shard, afterId }, left, { request, untilMs });
    for (const part of parts) addPart(page, part, service, sight);
    const { doneId, hasEnded } = parts.at(-1)!;
    afterId = doneId;
    const { items, examined } = page;
    if (hasEnded) {
      if (place.tube !== undefined || shard + 1 === service.topology.shards)
        return { items, cursor: null, examined };
      shard++;
      afterId = 0;
      if (!isFull()) continue;
    }
    return { items, cursor: encodeCursor([shard, afterId]), examined };
  }
}

function addPart(page: OpenPage, part: BrowsePart, service: Service, sight: Sight): void {
  page.examined += part.examined;
  for (const facts of part.jobs) {
    page.bodyBytes += facts.body?.length ?? 0;
    page.items.push(jobView(facts, service, sight));
  }
}

/** Asks one shard, and tells it to pause when the time is over. */
async function partsOf(
  { control, nowMs }: Service,
  { shard, tube, order, afterId }: Cursor,
  given: Query & { limit: number; bodyBytesMax: number },
  { request, untilMs }: { request: FastifyRequest; untilMs: number },
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
    bodyMax: maySeeTexts(request) ? bodyMax : -1,
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
