// The put routes, with the options and bodies that they take and the problems that they return.

import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { ControlWord } from "../../message/topology.ts";
import { COST_MAX, WEIGHT_MAX } from "../../protocol/limits.ts";
import { OPTION_VALUE_BYTES_MAX, OPTIONS_BYTES_MAX } from "../../protocol/option-rows.ts";
import { answers, type Routes, requireServing, tubeOf } from "../api/api.ts";
import { toMilliseconds } from "../api/parameters.ts";
import { Problem } from "../api/problem.ts";
import { Fields, TubeParams, tubeQuery } from "../api/schemas.ts";
import { BodyPieces, freeGathered, jsonValues, MSGPACK_TYPES } from "../app/request-bodies.ts";
import { bytesOf, type NewPut, type PutBody, type PutOutcome } from "../link/put-pool.ts";
import type { Service } from "../queue/service.ts";

// Options of a put in JSON and in query strings, with the names and units of the API: `uniqueFor`
// is unique-for of put-in-tube.

const BATCH_NAME = "^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]*$";

/** Options whose values are sent as text; all others are sent as numbers. */
const TEXTS = ["unique", "group", "meta", "batch", "after", "after-any"];
const NUMBER_BYTES = 8;
const HEAD_BYTES = 2;
const SECONDS_MAX = 2 ** 32 - 1;

const key = (description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: OPTION_VALUE_BYTES_MAX, description }));
const seconds = (description: string) =>
  Type.Optional(Type.Number({ minimum: 0, maximum: SECONDS_MAX, description }));

export const PRI = 1024;
export const TTR_SECONDS = 60;

/** Priority and times of a job. */
export const jobTimes = {
  pri: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: SECONDS_MAX,
      default: PRI,
      description: "Smaller numbers go first.",
    }),
  ),
  delay: Type.Optional(
    Type.Number({ minimum: 0, maximum: SECONDS_MAX, default: 0, description: "Seconds until it is ready." }),
  ),
  ttr: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: SECONDS_MAX,
      default: TTR_SECONDS,
      description: "Seconds that a worker may hold the job.",
    }),
  ),
};

export const putOptions = {
  unique: key("The tube has at most one job with this key: 1 to 200 bytes without blanks."),
  uniqueFor: seconds("Keeps the key for at least this many seconds, even if the job is done sooner."),
  uniqueUntil: Type.Optional(
    Type.Union([Type.Literal("delete"), Type.Literal("reserve")], {
      description: "When the key becomes free.",
    }),
  ),
  onDuplicate: Type.Optional(
    Type.Enum(["refuse", "keep", "replace", "escalate", "debounce"], {
      description: "What happens to a waiting job that has the key; refuse by default.",
    }),
  ),
  debounceMax: seconds("With debounce: seconds from its own put after which the job is ready at the latest."),
  ttl: seconds("Drops the job once it has waited this many seconds."),
  group: key("Groups of a tube take turns: 1 to 200 bytes without blanks."),
  weight: Type.Optional(
    Type.Integer({ minimum: 1, maximum: WEIGHT_MAX, description: "The share of its group; 1 by default." }),
  ),
  cost: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: COST_MAX,
      description: "As how many jobs it counts for limits and its group's share; 1 by default.",
    }),
  ),
};

const batch = (description: string) =>
  Type.Optional(Type.String({ pattern: BATCH_NAME, maxLength: OPTION_VALUE_BYTES_MAX, description }));

/** The batches that a job belongs to and waits for. Jobs of schedules have none. */
const batchOptions = {
  batch: batch("The open batch that the job belongs to."),
  after: batch("The job waits until this batch has ended, and is buried if a member has failed."),
  afterAny: batch("The job waits until this batch has ended, whether its members succeed or fail."),
};

/** Context of a job, by name. */
export const meta = Type.Optional(
  Type.Record(Type.String({ pattern: "^[-A-Za-z0-9._]+$" }), Type.String(), {
    description: "Context that travels with the job: with the other options, at most 1,020 bytes.",
  }),
);

const Options = Type.Object({ ...putOptions, ...batchOptions, meta });
type Options = Static<typeof Options>;

/**
 * Returns the options of a job as the end of its command line, "" without any. Those that the job
 * leaves out come from the query string.
 */
export function optionsOf(job: Options, query: Options): string {
  const key = keyOptions(job, query);
  const unique = job.unique ?? query.unique;
  if (unique === undefined && key !== "")
    throw new Problem(
      "bad-request",
      '"/uniqueFor", "/uniqueUntil", "/onDuplicate" and "/debounceMax" need a key in "/unique".',
    );
  const ttl = job.ttl ?? query.ttl;
  const group = job.group ?? query.group;
  const weight = job.weight ?? query.weight;
  const cost = job.cost ?? query.cost;
  let text = unique === undefined ? "" : ` unique=${keyText(unique, "unique")}${key}`;
  if (ttl !== undefined) text += ` ttl=${toMilliseconds(ttl, "ttl")}`;
  if (group !== undefined) text += ` group=${keyText(group, "group")}`;
  if (weight !== undefined) text += ` weight=${weight}`;
  if (cost !== undefined) text += ` cost=${cost}`;
  text += batchText(job, query);
  if (job.meta === undefined) return text;
  text += metaText(job.meta);
  const bytes = encodedBytes(text);
  if (bytes > OPTIONS_BYTES_MAX)
    throw new Problem(
      "bad-request",
      `"/meta" and the other options must be at most ${OPTIONS_BYTES_MAX} bytes in all, with two more for each, ` +
        `not ${bytes}: put long values into the body.`,
    );
  return text;
}

/** Returns the length that the server counts for options: see protocol/options.ts. */
function encodedBytes(text: string): number {
  let bytes = 0;
  for (const option of text.split(" ").slice(1)) {
    const equals = option.indexOf("=");
    const isText = TEXTS.includes(option.slice(0, equals));
    bytes += HEAD_BYTES + (isText ? option.length - equals - 1 : NUMBER_BYTES);
  }
  return bytes;
}

function batchText(job: Options, query: Options): string {
  const batch = job.batch ?? query.batch;
  const after = job.after ?? query.after;
  const afterAny = job.afterAny ?? query.afterAny;
  if (after !== undefined && afterAny !== undefined)
    throw new Problem("bad-request", 'A job waits for one batch: give either "/after" or "/afterAny".');
  let text = batch === undefined ? "" : ` batch=${batch}`;
  if (after !== undefined) text += ` after=${after}`;
  if (afterAny !== undefined) text += ` after-any=${afterAny}`;
  return text;
}

function keyOptions(job: Options, query: Options): string {
  const uniqueFor = job.uniqueFor ?? query.uniqueFor;
  const uniqueUntil = job.uniqueUntil ?? query.uniqueUntil;
  const onDuplicate = job.onDuplicate ?? query.onDuplicate;
  const debounceMax = job.debounceMax ?? query.debounceMax;
  let text = "";
  if (uniqueFor !== undefined) text += ` unique-for=${toMilliseconds(uniqueFor, "uniqueFor")}`;
  if (uniqueUntil !== undefined) text += ` unique-until=${uniqueUntil}`;
  if (onDuplicate !== undefined) text += ` on-duplicate=${onDuplicate}`;
  if (debounceMax !== undefined) text += ` debounce-max=${toMilliseconds(debounceMax, "debounceMax")}`;
  return text;
}

function metaText(meta: Readonly<Record<string, string>>): string {
  let text = "";
  for (const [name, value] of Object.entries(meta))
    text += ` meta=${keyText(`${name}:${value}`, `meta/${name}`)}`;
  return text;
}

/** Returns a key in the form of a line: UTF-8, with a character for each byte. */
function keyText(key: string, field: string): string {
  const bytes = Buffer.from(key);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they would end the option, or the line
  if (/[\u0000-\u0020\u007f]/.test(key) || bytes.length > OPTION_VALUE_BYTES_MAX || !key.isWellFormed())
    throw new Problem(
      "bad-request",
      `"/${field}" must be 1 to ${OPTION_VALUE_BYTES_MAX} bytes of UTF-8 without blanks and control characters.`,
    );
  return bytes.toString("latin1");
}

// Body of a job in a request: text, base64, or any value as the client wrote it.

/** Exactly one of these. */
interface JobBody {
  readonly body?: string | Uint8Array;
  readonly bodyBase64?: string;
  readonly json?: unknown;
}

/** Returns the text of a job's `json` by its position in the request. */
type JsonReader = (job: JobBody, index: number) => string;

/** Returns a reader that keeps JSON as the client wrote it. */
export function jsonReader(request: FastifyRequest): JsonReader {
  const { text } = request;
  request.text = undefined;
  if (text === undefined) return ({ json }) => JSON.stringify(json);
  let values: (string | undefined)[] | undefined;
  return (_job, index) => (values ??= jsonValues(text))[index]!;
}

export function bodyOf(job: JobBody, index: number, jsonOf: JsonReader): PutBody {
  const { body, bodyBase64, json } = job;
  const given = Number(body !== undefined) + Number(bodyBase64 !== undefined) + Number(json !== undefined);
  if (given !== 1) throw new Problem("bad-request", "A job needs exactly one of body, bodyBase64 and json.");
  if (json !== undefined) return jsonOf(job, index);
  if (bodyBase64 === undefined) return bytesOrText(body);
  if (!isBase64(bodyBase64)) throw new Problem("bad-request", "bodyBase64 is not valid base64.");
  return Buffer.from(bodyBase64, "base64");
}

function bytesOrText(body: unknown): PutBody {
  if (body instanceof Uint8Array) return body;
  if (typeof body !== "string")
    throw new Problem(
      "bad-request",
      "A body must be text, or bytes in MessagePack; put other values into json.",
    );
  if (body.isWellFormed()) return body;
  throw new Problem(
    "bad-request",
    "The body has half of a surrogate pair, which is not valid text; use bodyBase64.",
  );
}

/** A last group of one character is invalid. Padding is complete or missing. */
function isBase64(text: string): boolean {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return false;
  return text.endsWith("=") ? text.length % 4 === 0 : text.length % 4 !== 1;
}

// Maps a reply that refuses a put to a Problem.

export function refused(reply: string, { words, memory, topology }: Service): Problem {
  if (reply === "DRAINING")
    return new Problem("draining", "The server accepts no new jobs; use another one.");
  if (reply === "JOB_TOO_BIG")
    return new Problem("job-too-big", `A job can have at most ${topology.jobBytesMax} bytes.`);
  if (reply === "TUBE_FULL")
    return new Problem("tube-full", "The tube has as many jobs or bytes as its settings allow.");
  if (reply === "BATCH_NOT_FOUND")
    return new Problem("batch-not-found", "There is no such batch: POST /v1/batches opens one.");
  if (reply === "BATCH_COMMITTED")
    return new Problem("batch-state", "The batch takes no more members: it was committed or cancelled.");
  if (reply === "BATCH_ORDER")
    return new Problem("batch-state", "A member may only wait for a batch that was opened before its own.");
  if (reply !== "OUT_OF_MEMORY") return new Problem("internal", `The put was refused: ${reply}.`);
  if (words.isSet(ControlWord.SharedLogFull))
    return new Problem("shared-log-full", "The shared log of the group is nearly full; give it more room.");
  if (words.isSet(ControlWord.BinlogFull))
    return new Problem(
      "disk-full",
      "The log can't grow: its disk is full, or file descriptors have run out. Free some of either.",
    );
  return new Problem(
    "out-of-memory",
    memory.isFull
      ? "Jobs have all the memory that max-memory gives them: delete some, or raise the limit."
      : "The server has no memory for it, a shard has 20,000 schedules, or the server has 100,000 batches: end batches that stay open, and open new ones with a shorter keep.",
  );
}

// Put routes: one job or many as JSON or MessagePack. Any other content is the body of one job,
// unchanged.

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
