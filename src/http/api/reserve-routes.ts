// Reserves: jobs as leases, which belong to no connection and end with their time to run.

import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { giveBackLeases } from "../queue/lease-changes.ts";
import { type ReservedJob, reservedJob, WAITS_MAX } from "../queue/reservations.ts";
import type { Service } from "../queue/service.ts";
import { wasSent } from "./answer-room.ts";
import { answers, ownerOf, type Routes, requireServing, shardOf, tubeOf } from "./api.ts";
import { noSuchJob } from "./job-routes.ts";
import { bodyField, wantsMsgpack } from "./media.ts";
import { Problem } from "./problem.ts";
import { Fields, JobParams } from "./schemas.ts";

const TUBES_MAX = 1000;
const JOBS_MAX = 1000;
const WAIT_SECONDS = 20;
const WAIT_SECONDS_MAX = 300;
const BYTES_MAX = 8 * 1024 * 1024;

const ReserveRequest = Fields({
  tubes: Type.Optional(Type.Array(Type.String(), { minItems: 1, maxItems: TUBES_MAX, default: ["default"] })),
  max: Type.Optional(Type.Integer({ minimum: 1, maximum: JOBS_MAX, default: 1 })),
  wait: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: WAIT_SECONDS_MAX,
      default: WAIT_SECONDS,
      description: "Seconds to wait for the first job.",
    }),
  ),
  maxBytes: Type.Optional(Type.Integer({ minimum: 1, maximum: BYTES_MAX, default: BYTES_MAX })),
});

const count = Type.Integer({ minimum: 0 });
const LeasedJob = Fields({
  lease: Type.String({ description: "For delete, release, bury and touch." }),
  id: count,
  tube: Type.String(),
  pri: count,
  ttr: count,
  timeLeft: Type.Number(),
  age: Type.Number(),
  reserves: count,
  timeouts: count,
  releases: count,
  buries: count,
  kicks: count,
  bytes: count,
  body: Type.Optional(Type.String()),
  bodyBase64: Type.Optional(Type.String()),
});

export const reserveRoutes: Routes = (api, service) => {
  api.post(
    "/v1/reserve",
    {
      config: { may: "work" },
      schema: {
        summary: "Takes the best jobs of some tubes, and waits for the first",
        body: ReserveRequest,
        response: answers({ 200: Fields({ jobs: Type.Array(LeasedJob) }) }, 400, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const { tubes = ["default"], max = 1, wait = WAIT_SECONDS, maxBytes = BYTES_MAX } = request.body;
      for (const tube of tubes) tubeOf({ tube: "-" }, { tube });
      const { leases, reservations } = service;
      if (leases.room <= 0)
        throw new Problem("busy", "All leases that may be out are; finish some jobs first.");
      if (reservations.waits >= WAITS_MAX) throw new Problem("busy", "Too many requests wait for jobs.");
      const gone = new AbortController();
      let waits = true;
      // Every answer closes in the end, and an abort makes an error with its stack.
      reply.raw.once("close", () => {
        if (waits) gone.abort();
      });
      if (reply.raw.destroyed) gone.abort();
      const jobs = await reservations.reserve({
        tubes,
        waitSeconds: wait,
        max: Math.min(max, leases.room),
        bytesMax: maxBytes,
        signal: gone.signal,
      });
      waits = false;
      return { jobs: lease(service, jobs, request, reply) };
    },
  );

  api.post(
    "/v1/jobs/:id/reserve",
    {
      config: { may: "work" },
      schema: {
        summary: "Takes a job by its id, in whatever state, unless somebody has it",
        params: JobParams,
        response: answers({ 200: LeasedJob }, 404, 409, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const { id } = request.params;
      if (service.leases.room <= 0)
        throw new Problem("busy", "All leases that may be out are; finish some jobs first.");
      const job = reservedJob(await service.wire.command(`reserve-job ${id}`));
      if (job === undefined) {
        const { json } = { json: await service.wire.stats(`stats-job ${id}`) };
        if (json === undefined) throw noSuchJob(id);
        throw new Problem("job-reserved", `Somebody holds job ${id}.`);
      }
      return lease(service, [job], request, reply)[0]!;
    },
  );
};

/** Makes leases of jobs; they go back if the answer does not reach the client. */
function lease(
  service: Service,
  jobs: readonly ReservedJob[],
  request: FastifyRequest,
  reply: FastifyReply,
): Static<typeof LeasedJob>[] {
  const { leases } = service;
  if (jobs.length === 0) return [];
  const owner = ownerOf(request);
  const address = request.ip ?? "";
  const sinceMs = service.nowMs();
  let tube = "";
  let shard = 0;
  const given = jobs.map((job) => {
    // Most are of the same one.
    if (job.tube !== tube) {
      tube = job.tube;
      shard = shardOf(service, tube);
    }
    const { id, reserves, ttr } = job;
    const untilMs = sinceMs + job.timeLeftMs;
    return leases.give({ id, shard, reserves, tube, ttr, owner, address, sinceMs, untilMs });
  });
  const giveBack = (): void => giveBackLeases(service, given);
  if (reply.raw.destroyed) giveBack();
  else
    reply.raw.on("close", () => {
      if (!wasSent(reply)) giveBack();
    });
  const isMsgpack = wantsMsgpack(request);
  return jobs.map((job, index) => leasedView(job, given[index]!.token, isMsgpack));
}

function leasedView(job: ReservedJob, token: string, isMsgpack: boolean): Static<typeof LeasedJob> {
  const { id, tube, pri, ttr, timeLeftMs, ageMs, reserves, timeouts, releases, buries, kicks, body } = job;
  return {
    lease: token,
    id,
    tube,
    pri,
    ttr,
    timeLeft: timeLeftMs / 1000,
    age: ageMs / 1000,
    reserves,
    timeouts,
    releases,
    buries,
    kicks,
    bytes: body.length,
    ...(bodyField(body, isMsgpack) as { body: string }),
  };
}
