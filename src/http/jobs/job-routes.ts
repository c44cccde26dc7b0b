// Route of a job by id: its properties and its body.

import { type Static, Type } from "typebox";
import {
  type Answers,
  type FailureFacts,
  type Holder,
  type JobFacts,
  type Questions,
  withoutTexts,
} from "../../message/control.ts";
import { httpPort } from "../../message/topology.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../protocol/option-rows.ts";
import { WorkerNames } from "../../ring/connection-words.ts";
import { UNKNOWN_SHARD } from "../../ring/shared-words.ts";
import { eachJobCounter } from "../../schema/job.ts";
import { answers, maySeeTexts, type Routes, requireServing, tubeOf } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { textOf } from "../api/protocol-reports.ts";
import { Fields, Finished, Job, JobParams } from "../api/schemas.ts";
import { bodyField, wantsMsgpack } from "../app/request-bodies.ts";
import type { Service } from "../queue/service.ts";
import { finishedJob } from "./finished-routes.ts";

/** Default and maximum of the body bytes in the response. */
const BODY_MAX = 4096;
const BODY_MAX_MAX = 65_536;

export const jobRoutes: Routes = (api, service) => {
  api.get(
    "/v1/jobs/:id",
    {
      config: { may: "view", live: true },
      schema: {
        summary: "A job, or the end of one that is gone, if its tube keeps it",
        params: JobParams,
        querystring: Type.Object({
          bodyMax: Type.Optional(Type.Integer({ minimum: 0, maximum: BODY_MAX_MAX })),
        }),
        response: answers({ 200: Type.Union([Job, Finished]) }, 404, 503),
      },
    },
    async (request) => {
      requireServing(service);
      const { id } = request.params;
      const seesTexts = maySeeTexts(request);
      const facts = await findJob(service, id, seesTexts ? (request.query.bodyMax ?? BODY_MAX) : -1);
      if (facts === undefined) {
        const finished = await finishedJob(service, id, seesTexts);
        if (finished !== undefined) return finished;
        throw noSuchJob(id);
      }
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
async function findJob(service: Service, id: number, bodyMax: number): Promise<JobFacts | undefined> {
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
  return undefined;
}

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

/** How a client sees jobs. */
interface Sight {
  readonly isMsgpack: boolean;
  /** See `maySeeTexts`. */
  readonly seesTexts: boolean;
}

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
    ...saidView(facts),
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

const saidView = ({
  progress,
  note,
  cancelled,
}: JobFacts): Pick<Static<typeof Job>, "progress" | "note" | "cancelled"> => ({
  progress: progress ?? null,
  note: note === "" ? null : textOf(note),
  cancelled: cancelled === undefined || cancelled === null ? null : textOf(cancelled),
});

type OptionsView = Pick<Static<typeof Job>, "expiresIn" | "meta" | "unique" | "group" | "weight" | "cost">;

function optionsView(options: JobFacts["options"]): OptionsView {
  if (options === undefined)
    return { expiresIn: null, meta: {}, unique: null, group: null, weight: 1, cost: 1 };
  const { expiresIn, meta, unique, group, weight, cost } = options;
  return {
    expiresIn: expiresIn === undefined ? null : rounded(expiresIn),
    meta: metaView(meta),
    unique: keyOf(unique),
    group: keyOf(group),
    weight,
    cost,
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

// Schemas of the properties of a job that a request may change.

const number = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum: 2 ** 32 - 1, description }));
const fields = {
  pri: number("Smaller numbers go first."),
  delay: number("Seconds from now; 0 makes the job ready."),
  ttr: number("Seconds that a worker may hold the job."),
};
export const JobSet = Fields(fields, "At least one of them.");
/** For a single job, the tube may change too. */
const JobUpdate = Fields(
  { ...fields, tube: Type.Optional(Type.String({ description: "Moves the job there; it keeps its id." })) },
  "At least one of them.",
);

export function requireSomething(set: Static<typeof JobUpdate>, names = "pri, delay and ttr"): void {
  if (Object.keys(set).length === 0) throw new Problem("bad-request", `Give at least one of ${names}.`);
}

/** Replaces a ttr of 0 by 1, as a put does. */
export const withTtr = (set: Static<typeof JobSet>): Static<typeof JobSet> =>
  set.ttr === undefined ? set : { ...set, ttr: Math.max(1, set.ttr) };

// Routes for operators to delete, kick, release, move and change single jobs.

const may = { may: "manage" } as const;

type Act = Questions["job-act"]["act"];

export const manageJobRoutes: Routes = (api, service) => {
  addActs(api, service);
  addCancel(api, service);
  addChanges(api, service);
};

const addCancel: Routes = (api, service) => {
  api.post(
    "/v1/jobs/:id/cancel",
    {
      config: may,
      schema: {
        summary: "Cancels a job: removes it if it waits, otherwise when its reservation ends",
        params: JobParams,
        body: Type.Optional(
          Type.Union([
            Fields({
              reason: Type.Optional(
                Type.String({
                  maxLength: OPTION_VALUE_BYTES_MAX,
                  description: "For the worker. Cut to 200 bytes of UTF-8, each blank counted as three.",
                }),
              ),
            }),
            Type.Null(),
          ]),
        ),
        response: answers(
          {
            200: Fields({
              held: Type.Boolean({
                description: "Whether a worker holds it. The worker is told at its next touch.",
              }),
            }),
          },
          ...([404, 503, 507] as const),
        ),
      },
    },
    async (request) => {
      requireServing(service);
      const { id } = request.params;
      const { reason } = request.body ?? {};
      const text = reason === undefined || reason === "" ? "" : ` reason=${optionOf(reason)}`;
      const { line } = await service.wire.command(`cancel-job ${id}${text}`);
      if (line === "NOT_FOUND") throw noSuchJob(id);
      if (line === "OUT_OF_MEMORY")
        throw new Problem("out-of-memory", `There is no memory to mark job ${id}.`);
      if (!/^CANCELL(?:ED|ING)$/.test(line)) throw new Error(`the reply to cancel-job was ${line}`);
      return { held: line === "CANCELLING" };
    },
  );
};

/** Returns a text as the value of an option on a line, in Latin-1, cut to the length of one. */
function optionOf(text: string): string {
  let value = "";
  for (const character of text) {
    const bytes = Buffer.from(character).toString("latin1");
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a line can't have these
    const part = /[\x00-\x20%\x7f]/.test(bytes) ? `%${Buffer.from(bytes, "latin1").toString("hex")}` : bytes;
    if (value.length + part.length > OPTION_VALUE_BYTES_MAX) break;
    value += part;
  }
  return value;
}

const addActs: Routes = (api, service) => {
  const Force = Type.Object({ force: Type.Optional(Type.Boolean()) });
  api.delete(
    "/v1/jobs/:id",
    {
      config: may,
      schema: {
        summary: "Deletes a job",
        params: JobParams,
        querystring: Force,
        response: answers({ 204: Type.Null() }, 404, 409, 503),
      },
    },
    async (request, reply) => {
      await act(service, request.params.id, "delete", { force: request.query.force });
      reply.code(204);
      return null;
    },
  );
  for (const what of ["kick", "release"] as const) {
    api.post(
      `/v1/jobs/:id/${what}`,
      {
        config: may,
        schema: {
          summary:
            what === "kick"
              ? "Makes a buried or delayed job ready"
              : "Ends a reservation, as a timeout would",
          params: JobParams,
          response: answers({ 200: Fields({ id: Type.Integer() }) }, 404, 409, 503),
        },
      },
      async (request) => {
        const { id } = request.params;
        await act(service, id, what);
        return { id };
      },
    );
  }
};

const addChanges: Routes = (api, service) => {
  api.post(
    "/v1/jobs/:id/move",
    {
      config: may,
      schema: {
        summary: "Moves a job to another tube",
        params: JobParams,
        body: Fields({ to: Type.String() }),
        response: answers({ 200: Fields({}) }, 400, 404, 409, 503, 507),
      },
    },
    async (request) => {
      await act(service, request.params.id, "move", { to: tubeOf({ tube: "-" }, { tube: request.body.to }) });
      return {};
    },
  );
  api.post(
    "/v1/jobs/:id/update",
    {
      config: may,
      schema: {
        summary: "Changes priority, delay, time to run or tube of a job that is not reserved",
        params: JobParams,
        body: JobUpdate,
        response: answers({ 200: Fields({}) }, 400, 404, 409, 503, 507),
      },
    },
    async (request) => {
      requireServing(service);
      requireSomething(request.body, "pri, delay, ttr and tube");
      const { id } = request.params;
      const { tube } = request.body;
      if (tube !== undefined) tubeOf({ tube: "-" }, { tube });
      const options = Object.entries(request.body).map(([name, value]) => `${name}=${value}`);
      await update(service, id, options.join(" "), tube);
      return {};
    },
  );
};

/** Sends `update-job`, as a client would. */
async function update(service: Service, id: number, options: string, to = ""): Promise<void> {
  const { line } = await service.wire.command(`update-job ${id} ${options}`);
  if (line === "UPDATED") return;
  if (line === "TUBE_FULL") throw problemOf("full", id, "move", to);
  if (line === "OUT_OF_MEMORY") throw new Problem("out-of-memory", `The target has no memory for job ${id}.`);
  if ((await service.wire.stats(`stats-job ${id}`)) === undefined) throw noSuchJob(id);
  throw problemOf("reserved", id, "move", to);
}

/** Asks the shard that has the job, or all of them. Throws unless the act is done. */
async function act(
  service: Service,
  id: number,
  what: Act,
  { force = false, to }: { force?: boolean | undefined; to?: string } = {},
): Promise<void> {
  requireServing(service);
  const { control, core, topology } = service;
  const entry = core.places.jobEntry(id);
  const shard = core.places.shardOfJob(id);
  const question = { id, act: what, force, ...(to === undefined ? {} : { to }) };
  const shards =
    shard === UNKNOWN_SHARD ? Array.from({ length: topology.shards }, (_, each) => each) : [shard];
  const outcomes = await Promise.all(shards.map((each) => control.ask(each, "job-act", question)));
  const outcome = outcomes.find((each) => each !== "not-found") ?? "not-found";
  // The job has moved to another shard in the meantime.
  if (outcome === "not-found" && core.places.jobEntry(id) !== entry)
    return act(service, id, what, { force, ...(to === undefined ? {} : { to }) });
  if (outcome === "elsewhere") return update(service, id, `tube=${to}`, to);
  if (outcome !== "done") throw problemOf(outcome, id, what, to);
}

function problemOf(
  outcome: Exclude<Answers["job-act"], "elsewhere">,
  id: number,
  what: Act,
  to: string | undefined,
): Problem {
  if (outcome === "not-found") return noSuchJob(id);
  if (outcome === "full")
    return new Problem("tube-full", `"${to}" has as many jobs or bytes as its settings allow.`);
  if (outcome === "reserved")
    return new Problem(
      "job-reserved",
      `A worker holds job ${id}${what === "delete" ? "; ?force=true deletes it anyway" : ""}.`,
    );
  return new Problem(
    "job-state",
    what === "kick" ? `Job ${id} is neither buried nor delayed.` : `No worker holds job ${id}.`,
  );
}
