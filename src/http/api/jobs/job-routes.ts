// Route of a job by id: its properties and its body.

import { type Static, Type } from "typebox";
import type { FailureFacts, Holder, JobFacts } from "../../../message/control.ts";
import { withoutTexts } from "../../../message/job-texts.ts";
import { httpPort } from "../../../message/topology.ts";
import { UNKNOWN_SHARD } from "../../../ring/job-directory.ts";
import { WorkerNames } from "../../../ring/worker-names.ts";
import { eachJobCounter } from "../../../schema/job.ts";
import type { Service } from "../../queue/service.ts";
import { answers, maySeeTexts, type Routes, requireServing } from "../api.ts";
import { bodyField, wantsMsgpack } from "../bodies/media.ts";
import { textOf } from "../client-text.ts";
import { Problem } from "../problem.ts";
import { Job, JobParams } from "../schemas.ts";

/** Default and maximum of the body bytes in the response. */
const BODY_MAX = 4096;
const BODY_MAX_MAX = 65_536;

export const jobRoutes: Routes = (api, service) => {
  api.get(
    "/v1/jobs/:id",
    {
      config: { may: "view", live: true },
      schema: {
        summary: "A job",
        params: JobParams,
        querystring: Type.Object({
          bodyMax: Type.Optional(Type.Integer({ minimum: 0, maximum: BODY_MAX_MAX })),
        }),
        response: answers({ 200: Job }, 404, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const { id } = request.params;
      const seesTexts = maySeeTexts(request);
      const facts = await findJob(service, id, seesTexts ? (request.query.bodyMax ?? BODY_MAX) : -1);
      return jobView(facts, service, { isMsgpack: wantsMsgpack(request), seesTexts });
    },
  );

  api.get(
    "/v1/jobs/:id/body",
    {
      config: { may: "bodies" },
      schema: {
        summary: "The body of a job, unchanged",
        params: JobParams,
        response: answers({ 200: Type.String() }, 404, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const { id } = request.params;
      const body = await service.bodies.read(id);
      if (body === undefined) throw noSuchJob(id);
      return reply
        .type("application/octet-stream")
        .header("content-disposition", `attachment; filename="job-${id}"`)
        .send(body);
    },
  );
};

export const noSuchJob = (id: number): Problem =>
  new Problem("job-not-found", `Job ${id} was deleted, or has never been put.`);

/** Returns a job from the shard that has it. If that is unknown, asks all shards. */
async function findJob(service: Service, id: number, bodyMax: number): Promise<JobFacts> {
  const entry = service.core.places.jobEntry(id);
  const shard = service.core.places.shardOfJob(id);
  const question = { id, bodyMax };
  const found =
    shard === UNKNOWN_SHARD
      ? (await service.control.askAll("job", question)).find((facts) => facts !== null)
      : await service.control.ask(shard, "job", question);
  if (found !== null && found !== undefined) return found;
  // The job has moved to another shard in the meantime.
  if (service.core.places.jobEntry(id) !== entry) return findJob(service, id, bodyMax);
  throw noSuchJob(id);
}

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

/** How a client sees jobs. */
interface Sight {
  readonly isMsgpack: boolean;
  /** See `maySeeTexts`. */
  readonly seesTexts: boolean;
}

/** Returns a job as the API shows it. */
export function jobView(
  all: JobFacts,
  service: Service,
  { isMsgpack, seesTexts }: Sight,
): Static<typeof Job> {
  const facts = seesTexts ? all : withoutTexts(all);
  const { body, holder, sinceSeconds, state, bytes, options } = facts;
  const since = sinceSeconds === undefined ? null : rounded(sinceSeconds);
  return {
    id: facts.id,
    tube: facts.tube,
    state,
    pri: facts.pri,
    age: rounded(facts.age),
    delay: facts.delay,
    ttr: facts.ttr,
    timeLeft: rounded(facts.timeLeft),
    ...(facts.file === undefined ? {} : { file: facts.file }),
    ...eachJobCounter((name) => facts[name]),
    attempts: facts.attempts,
    origin: facts.origin === "" ? null : facts.origin,
    death: DEATHS[facts.death] ?? null,
    failures: facts.failures.map(failureView),
    readySince: state === "ready" ? since : null,
    buriedSince: state === "buried" ? since : null,
    holder: holder === undefined || holder === null ? null : holderName(holder, service),
    worker: holder === undefined || holder === null ? null : workerName(facts.id, holder, service),
    ...optionsView(options),
    ...batchesView(facts),
    bytes,
    ...(body === undefined || body === null
      ? {}
      : (bodyField(bodyOrPart(body, bytes), isMsgpack) as { body: string })),
    truncated: (body?.length ?? 0) < bytes,
  };
}

const batchesView = ({
  batch,
  waitsFor,
}: JobFacts): Pick<Static<typeof Job>, "batch" | "waitsFor" | "waitsForAny"> => ({
  batch: batch ?? null,
  waitsFor: waitsFor?.name ?? null,
  waitsForAny: waitsFor?.isAny ?? false,
});

type OptionsView = Pick<Static<typeof Job>, "expiresIn" | "meta" | "unique" | "group" | "weight">;

function optionsView(options: JobFacts["options"]): OptionsView {
  if (options === undefined) return { expiresIn: null, meta: {}, unique: null, group: null, weight: 1 };
  const { expiresIn, meta, unique, group, weight } = options;
  return {
    expiresIn: expiresIn === undefined ? null : rounded(expiresIn),
    meta: metaView(meta),
    unique: keyOf(unique),
    group: keyOf(group),
    weight,
  };
}

/** Names by DeathReason. */
const DEATHS: readonly (string | null)[] = [null, "attempts", "expired"];

function failureView({
  age,
  worker,
  reason,
  attempt,
  cause,
}: FailureFacts): Static<typeof Job>["failures"][0] {
  return {
    ...{ attempt, cause },
    at: new Date(Date.now() - age * 1000).toISOString(),
    age: rounded(age),
    worker: worker === "" ? null : textOf(worker),
    reason: reason === "" ? null : textOf(reason),
  };
}

/** Returns the context of a job as a map. The last pair with a name counts. */
export const metaView = (pairs: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    pairs.map((pair) => {
      const text = textOf(pair);
      const colon = text.indexOf(":");
      return [text.slice(0, colon), text.slice(colon + 1)];
    }),
  );

/** Returns a key, which clients write in UTF-8. */
const keyOf = (latin1: string | undefined): string | null =>
  latin1 === undefined ? null : Buffer.from(latin1, "latin1").toString();

/** Returns the body without a truncated last character, so that a part of a text is still text. */
function bodyOrPart(body: Uint8Array, bytes: number): Uint8Array {
  if (body.length === bytes) return body;
  let end = body.length;
  // A truncated character has at most three bytes.
  while (end > 0 && body.length - end < 3 && (body[end - 1]! & 0xc0) === 0x80) end--;
  const lead = end > 0 ? body[end - 1]! : 0;
  const characterBytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const isCut = lead >= 0xc0 && body.length - end + 1 < characterBytes;
  return isCut ? body.subarray(0, end - 1) : body;
}

/**
 * Returns the name of the connection that holds a job: its acceptor and slot. The HTTP thread holds
 * leases.
 */
function holderName({ port, slot }: Holder, { topology }: Service): string {
  return port === httpPort(topology) ? "lease" : `${port}.${slot}`;
}

/** Returns the name of that connection, or its address; for a lease, those of its worker. */
function workerName(job: number, holder: Holder, service: Service): string {
  if (holder.port === httpPort(service.topology))
    return service.leases.workerOf(job) ?? holderName(holder, service);
  const name = new WorkerNames(service.topology.workerNames[holder.port]!).text(holder.slot);
  return name === "" ? holderName(holder, service) : textOf(name);
}
