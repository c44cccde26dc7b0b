// Reserve routes: jobs are handed out as leases, which belong to no connection and expire with the
// time to run.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { eachJobCounter } from "../../../schema/job.ts";
import { Handout } from "../../queue/handout.ts";
import { type ReservedJob, WAITS_MAX } from "../../queue/reservations.ts";
import type { Service } from "../../queue/service.ts";
import { requireStanding } from "../access/authentication.ts";
import { answers, ownerOf, type Routes, requireServing, tubeOf } from "../api.ts";
import { bodyField, wantsMsgpack } from "../bodies/media.ts";
import { wasSent } from "../limits/response-budget.ts";
import { Problem } from "../problem.ts";
import { Fields, JobParams } from "../schemas.ts";
import { metaView, noSuchJob } from "./job-routes.ts";

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
  ...eachJobCounter(() => count),
  meta: Type.Record(Type.String(), Type.String(), { description: "Context from the put." }),
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
        summary: "Reserves the best jobs of some tubes, and waits for the first one",
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
      const jobs = await handOut(service, request, reply, (handout) =>
        reservations.reserve({
          worker: handout.worker,
          tubes,
          waitSeconds: wait,
          max,
          bytesMax: maxBytes,
          room: () => leases.room,
          signal: handout.signal,
          onJob: (job) => handout.add(job),
        }),
      );
      return { jobs };
    },
  );

  api.post(
    "/v1/jobs/:id/reserve",
    {
      config: { may: "work" },
      schema: {
        summary: "Reserves a job by its id, in any state, unless it is reserved",
        params: JobParams,
        response: answers({ 200: LeasedJob }, 404, 409, 503),
      },
    },
    async (request, reply) => {
      requireServing(service);
      const { id } = request.params;
      if (service.leases.room <= 0)
        throw new Problem("busy", "All leases that may be out are; finish some jobs first.");
      const [job] = await handOut(service, request, reply, async (handout) => {
        const taken = await service.reservations.reserveJob(id, handout.worker);
        if (taken !== undefined) handout.add(taken);
      });
      if (job !== undefined) return job;
      if ((await service.wire.stats(`stats-job ${id}`)) === undefined) throw noSuchJob(id);
      throw new Problem("job-reserved", `A worker holds job ${id}.`);
    },
  );
};

/**
 * Has `take` add jobs to a handout, and returns them as the response shows them. The jobs go back
 * if the response does not reach the client, or at once if its token is revoked. The handlers for
 * that are in place before the first job is taken.
 */
async function handOut(
  service: Service,
  request: FastifyRequest,
  reply: FastifyReply,
  take: (handout: Handout) => Promise<void>,
): Promise<Static<typeof LeasedJob>[]> {
  const handout = new Handout(service, { owner: ownerOf(request), address: request.ip ?? "" });
  reply.raw.once("close", () => {
    if (wasSent(reply)) return;
    handout.drop();
    request.forgetKey?.();
  });
  if (reply.raw.destroyed) handout.drop();
  const forget = request.onRevoked?.(() => handout.drop());
  try {
    await take(handout);
    // Let pending socket events run first: the client may have disconnected long ago.
    await nextTurn();
    if (request.raw.socket.readableEnded) handout.drop();
    requireStanding(request);
    const isMsgpack = wantsMsgpack(request);
    return handout.handed.map(({ job, lease }) => leasedView(job, lease.token, isMsgpack));
  } catch (error) {
    handout.drop();
    throw error;
  } finally {
    forget?.();
  }
}

function leasedView(job: ReservedJob, token: string, isMsgpack: boolean): Static<typeof LeasedJob> {
  const { id, tube, pri, ttr, timeLeftMs, ageMs, body } = job;
  return {
    lease: token,
    id,
    tube,
    pri,
    ttr,
    timeLeft: timeLeftMs / 1000,
    age: ageMs / 1000,
    ...eachJobCounter((name) => job[name]),
    meta: metaView(job.meta),
    bytes: body.length,
    ...(bodyField(body, isMsgpack) as { body: string }),
  };
}
