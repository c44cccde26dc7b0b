// Put routes: one job or many as JSON or MessagePack. Any other content is the body of one job,
// unchanged.

import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { bytesOf, type NewPut, type PutBody, type PutOutcome } from "../../link/put-pool.ts";
import type { Service } from "../../queue/service.ts";
import { answers, type Routes, requireServing, tubeOf } from "../api.ts";
import { BodyPieces } from "../bodies/body-pieces.ts";
import { freeGathered } from "../bodies/gathered-body.ts";
import { bodyOf, type JsonReader, jsonReader } from "../bodies/job-body.ts";
import { MSGPACK_TYPES } from "../bodies/media.ts";
import { refused } from "../bodies/put-refusal.ts";
import { Problem } from "../problem.ts";
import { Fields, TubeParams, tubeQuery } from "../schemas.ts";
import { batchOptions, jobTimes, meta, optionsOf, PRI, putOptions, TTR_SECONDS } from "./put-options.ts";

const BATCH_MAX = 1000;
/** A longer body is streamed to its shard. */
const GATHERED_BYTES_MAX = 1024 * 1024;
/** Maximum of a body without Content-Length. */
const UNKNOWN_BYTES_MAX = 8 * 1024 * 1024;

const NewJob = Fields(
  {
    ...jobTimes,
    body: Type.Optional(
      Type.Unsafe<string | Uint8Array>({ description: "Text; in MessagePack also bytes." }),
    ),
    bodyBase64: Type.Optional(Type.String()),
    json: Type.Optional(
      Type.Unknown({ description: "Any value, kept as written; from MessagePack, as compact JSON." }),
    ),
    ...putOptions,
    ...batchOptions,
    meta,
  },
  "Exactly one of body, bodyBase64, json.",
);
const Batch = Fields({ jobs: Type.Array(NewJob, { minItems: 1, maxItems: BATCH_MAX }) });
const PutRequest = Type.Union([Batch, NewJob]);
/** All types that are parsed as requests. Other types are not validated. */
const REQUESTS = Object.fromEntries(
  ["application/json", ...MSGPACK_TYPES].map((type) => [type, { schema: PutRequest }]),
);
const PutQuery = Type.Object(
  { ...tubeQuery, ...jobTimes, ...putOptions, ...batchOptions },
  { additionalProperties: false },
);
const OneAnswer = Fields({ id: Type.Integer() });
const OUTCOMES = ["kept", "replaced", "escalated", "debounced"] as const;
/** The job that has the key, and what `onDuplicate` did to it; none was added. */
const Known = Fields({
  id: Type.Integer(),
  duplicate: Type.Literal(true),
  outcome: Type.Optional(Type.Enum(OUTCOMES)),
});
const BatchAnswer = Fields({
  results: Type.Array(Type.Union([OneAnswer, Known, Fields({ code: Type.String(), detail: Type.String() })])),
  failed: Type.Integer(),
});

type Job = Static<typeof NewJob>;
type Query = Static<typeof PutQuery>;

/** Status and payload of a put's response. */
interface PutAnswer {
  readonly status: number;
  readonly payload: Static<typeof OneAnswer> | Static<typeof Known> | Static<typeof BatchAnswer>;
}

export const putRoutes: Routes = (api, service) => {
  void api.register((scope, _options, done) => {
    scope.addContentTypeParser("*", (_request, payload, parsed) => parsed(null, payload));
    scope.post<{ Params: Static<typeof TubeParams>; Querystring: Static<typeof PutQuery> }>(
      "/v1/tubes/:tube/jobs",
      {
        config: { may: "put", keepsText: true },
        schema: {
          summary: "Puts one job or up to 1000; content of any other type is the body of one job, unchanged",
          params: TubeParams,
          querystring: PutQuery,
          body: { content: REQUESTS },
          response: answers(
            { 200: Type.Union([BatchAnswer, Known]), 201: OneAnswer },
            400,
            404,
            409,
            413,
            422,
            503,
            507,
          ),
        },
      },
      // No async functions here: a promise for each step takes longer than the put itself.
      (request, reply) => {
        requireServing(service);
        const tube = tubeOf(request.params, request.query);
        return put(service, tube, request).then(({ status, payload }) => {
          // The response means that all bodies have been read.
          freeGathered(request);
          reply.code(status);
          if ("id" in payload) reply.header("location", `/v1/jobs/${payload.id}`);
          return payload;
        });
      },
    );
    done();
  });
};

type PutHttpRequest = FastifyRequest<{ Querystring: Static<typeof PutQuery> }>;

// http put 1/6
function put(service: Service, tube: string, request: PutHttpRequest): Promise<PutAnswer> {
  const { body, query } = request;
  const answer = (outcome: PutOutcome): PutAnswer => one(outcome, service);
  if (!isParsed(request))
    return putRaw(service, tube, query, body as Readable | undefined, request).then(answer);
  const asked = body as Static<typeof PutRequest>;
  const jsonOf = jsonReader(request);
  if ("jobs" in asked) return putBatch(service, tube, query, asked.jobs, jsonOf);
  const content = bodyOf(asked, 0, jsonOf);
  checkSize(bytesOf(content), service);
  return service.puts.put(newPut(tube, asked, query), content).then(answer);
}

/** Tells whether the content was parsed as a request, and is not a job's body. */
function isParsed(request: FastifyRequest): boolean {
  const { body } = request;
  return body !== undefined && typeof (body as Readable).pipe !== "function";
}

// http put 6/6
function one(outcome: PutOutcome, service: Service): PutAnswer {
  const known = "refusal" in outcome ? duplicateOf(outcome.refusal) : undefined;
  if (known !== undefined) return { status: 200, payload: known };
  if ("refusal" in outcome) throw refused(outcome.refusal, service);
  return { status: 201, payload: { id: outcome.id } };
}

/** Returns the job that has the put's key, if that is why the put was refused. */
function duplicateOf(refusal: string): Static<typeof Known> | undefined {
  const [word, id] = refusal.split(" ");
  if (word === "DUPLICATE") return { id: Number(id), duplicate: true };
  const outcome = OUTCOMES.find((each) => each.toUpperCase() === word);
  return outcome && { id: Number(id), duplicate: true, outcome };
}

/** Puts all jobs at once. An invalid job is reported in its place in the results. */
async function putBatch(
  service: Service,
  tube: string,
  query: Query,
  jobs: readonly Job[],
  jsonOf: JsonReader,
): Promise<PutAnswer> {
  const problems = new Map<number, Problem>();
  const puts: { put: NewPut; body: PutBody }[] = [];
  for (const [index, job] of jobs.entries()) {
    try {
      const body = bodyOf(job, index, jsonOf);
      checkSize(bytesOf(body), service);
      puts.push({ put: newPut(tube, job, query), body });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problems.set(index, error);
    }
  }
  const outcomes = (await service.puts.putMany(puts)).values();
  let failed = 0;
  const results = jobs.map((_, index) => {
    const outcome = problems.has(index) ? undefined : outcomes.next().value;
    if (outcome !== undefined && "id" in outcome) return { id: outcome.id };
    const refusal = outcome?.refusal ?? "";
    const known = duplicateOf(refusal);
    if (known !== undefined) return known;
    failed++;
    const problem = problems.get(index) ?? refused(refusal, service);
    return { code: problem.code, detail: problem.message };
  });
  return { status: 200, payload: { results, failed } };
}

/** Values that the job omits come from the query string. */
const newPut = (tube: string, job: Query & Pick<Job, "meta">, query: Query): NewPut => ({
  tube,
  pri: job.pri ?? query.pri ?? PRI,
  delay: job.delay ?? query.delay ?? 0,
  ttr: job.ttr ?? query.ttr ?? TTR_SECONDS,
  options: optionsOf(job, query),
});

async function putRaw(
  service: Service,
  tube: string,
  query: Query,
  content: Readable | undefined,
  request: FastifyRequest,
): Promise<PutOutcome> {
  const job = newPut(tube, query, query);
  const said = request.headers["content-length"];
  const length = said === undefined ? undefined : Number(said);
  if (length !== undefined) checkSize(length, service);
  if (content === undefined || length === 0) return await service.puts.put(job, Buffer.alloc(0));
  if (length !== undefined && length > GATHERED_BYTES_MAX)
    return await service.puts.putPieces(job, length, content);
  return await service.puts.put(job, await gatherRaw(service, content));
}

async function gatherRaw(service: Service, content: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces = new BodyPieces();
  let held = 0;
  try {
    for await (const piece of content) {
      pieces.add(piece);
      checkSize(pieces.length, service);
      if (pieces.length > UNKNOWN_BYTES_MAX)
        throw new Problem(
          "body-too-big",
          `A body of more than ${UNKNOWN_BYTES_MAX} bytes needs a Content-Length.`,
        );
      service.puts.hold(piece.length);
      held += piece.length;
    }
  } finally {
    service.puts.give(held);
  }
  const all = pieces.all();
  return all.length === 1 ? all[0]! : Buffer.concat(all);
}

function checkSize(bytes: number, { topology }: Service): void {
  if (bytes > topology.jobBytesMax)
    throw new Problem(
      "job-too-big",
      `A job can have at most ${topology.jobBytesMax} bytes; start the server with -z to allow more.`,
    );
}
