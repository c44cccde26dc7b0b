// Reserve routes: jobs are handed out as leases, which belong to no connection and expire with the
// time to run.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { mayTouchTube } from "../../access/identity.ts";
import type { LeaseOutcome } from "../../message/control.ts";
import { REASON_BYTES_MAX } from "../../protocol/job-failure.ts";
import { OPTION_VALUE_BYTES_MAX } from "../../protocol/option-rows.ts";
import { eachJobCounter } from "../../schema/job.ts";
import { answers, ownerOf, type Routes, requireServing, tubeOf } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { textOf } from "../api/protocol-reports.ts";
import { Fields, JobParams } from "../api/schemas.ts";
import { requireStanding } from "../app/authentication.ts";
import { bodyField, wantsMsgpack } from "../app/request-bodies.ts";
import { onUnread, wasSent } from "../app/unread-answers.ts";
import { changeLeases, type NewChange } from "../queue/lease-changes.ts";
import { Handout, type ReservedJob, WAITS_MAX } from "../queue/reservations.ts";
import type { Service } from "../queue/service.ts";
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
    const { forgetKey } = request;
    if (wasSent(reply)) {
      // The connection keeps this, so it must not hold the bodies.
      const takeBack = handout.sent();
      onUnread(request.raw.socket, () => {
        takeBack();
        forgetKey?.();
      });
      return;
    }
    handout.drop();
    forgetKey?.();
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

// Routes for leased jobs: a worker deletes, releases, buries or touches them, one by one or in
// batches.

const CHANGES_MAX = 1000;
const NUMBER_MAX = 2 ** 32 - 1;
const ACTS = ["delete", "release", "bury", "touch"] as const;

const Token = Type.String({ maxLength: 100 });
const pri = Type.Optional(
  Type.Integer({ minimum: 0, maximum: NUMBER_MAX, description: "Unchanged if omitted." }),
);
const delay = Type.Optional(Type.Integer({ minimum: 0, maximum: NUMBER_MAX, description: "Seconds." }));
const reason = Type.Optional(
  Type.String({
    maxLength: REASON_BYTES_MAX,
    description: "Why the attempt failed, up to 1,024 bytes of UTF-8; the job keeps it.",
  }),
);
const said = {
  progress: Type.Optional(Type.Integer({ minimum: 0, maximum: 100, description: "Percent." })),
  note: Type.Optional(
    Type.String({ maxLength: OPTION_VALUE_BYTES_MAX, description: "Cut to 200 bytes of UTF-8." }),
  ),
};
const BODIES = {
  delete: Type.Optional(Type.Union([Fields({}), Type.Null()])),
  release: Type.Optional(Type.Union([Fields({ pri, delay, reason }), Type.Null()])),
  bury: Type.Optional(Type.Union([Fields({ pri, reason }), Type.Null()])),
  touch: Type.Optional(Type.Union([Fields(said), Type.Null()])),
};

const Many = Fields({
  delete: Type.Optional(Type.Array(Token)),
  release: Type.Optional(Type.Array(Fields({ lease: Token, pri, delay, reason }))),
  bury: Type.Optional(Type.Array(Fields({ lease: Token, pri, reason }))),
  touch: Type.Optional(Type.Array(Type.Union([Token, Fields({ lease: Token, ...said })]))),
});
const cancelled = Type.Optional(
  Type.String({ description: "After touch, if the job was cancelled: the reason, or an empty string." }),
);
const Result = Fields({ lease: Token, ok: Type.Boolean(), code: Type.Optional(Type.String()), cancelled });
const Done = Fields({ timeLeft: Type.Optional(Type.Number({ description: "After touch." })), cancelled });
// The list contains no lease tokens, so its readers can't act on leases of others.
const Out = Fields({
  id: Type.Integer(),
  tube: Type.String(),
  owner: Type.String(),
  address: Type.String(),
  age: Type.Number({ description: "Seconds since the reservation." }),
  timeLeft: Type.Number(),
});

export const leaseRoutes: Routes = (api, service) => {
  for (const act of ACTS) {
    api.post(
      `/v1/leases/:lease/${act}`,
      {
        config: { may: "work" },
        schema: {
          summary: `${act[0]!.toUpperCase()}${act.slice(1)}s a leased job`,
          params: Type.Object({ lease: Token }),
          body: BODIES[act],
          response: answers({ 200: Done }, 410, 503),
        },
      },
      async (request) => {
        requireServing(service);
        const { lease } = request.params;
        const details = (request.body ?? {}) as Omit<NewChange, "act" | "token">;
        const [done] = await changeLeases(service, ownerOf(request), [{ act, token: lease, ...details }]);
        if (done === false)
          throw new Problem("lease-ended", "Its time to run expired, or it was finished: nothing was done.");
        const renewed = act === "touch" ? service.leases.renew(lease, ownerOf(request)) : undefined;
        return renewed === undefined ? {} : { timeLeft: renewed.ttr, ...cancelledView(done) };
      },
    );
  }
  addMany(api, service);
  addList(api, service);
};

const cancelledView = (outcome: LeaseOutcome | undefined): { cancelled?: string } =>
  typeof outcome === "string" ? { cancelled: textOf(outcome) } : {};

const addMany: Routes = (api, service) => {
  api.post(
    "/v1/leases",
    {
      config: { may: "work" },
      schema: {
        summary: "Finishes up to 1000 leased jobs, each independently",
        body: Many,
        response: answers({ 200: Fields({ results: Type.Array(Result), failed: Type.Integer() }) }, 400, 503),
      },
    },
    async (request: FastifyRequest) => {
      requireServing(service);
      const asked = request.body as {
        delete?: string[];
        touch?: (string | { lease: string; progress?: number; note?: string })[];
        release?: { lease: string; pri?: number; delay?: number; reason?: string }[];
        bury?: { lease: string; pri?: number; reason?: string }[];
      };
      const changes: NewChange[] = [
        ...(asked.delete ?? []).map((token) => ({ act: "delete" as const, token })),
        ...(asked.release ?? []).map(({ lease, ...rest }) => ({
          act: "release" as const,
          token: lease,
          ...rest,
        })),
        ...(asked.bury ?? []).map(({ lease, ...rest }) => ({ act: "bury" as const, token: lease, ...rest })),
        ...(asked.touch ?? []).map((each) => {
          const { lease, ...rest } = typeof each === "string" ? { lease: each } : each;
          return { act: "touch" as const, token: lease, ...rest };
        }),
      ];
      if (changes.length > CHANGES_MAX)
        throw new Problem(
          "bad-request",
          `${changes.length} leases in one request; at most ${CHANGES_MAX} are allowed.`,
        );
      const owner = ownerOf(request);
      const done = await changeLeases(service, owner, changes);
      const results = changes.map(({ token, act }, index) => {
        const outcome = done[index];
        if (outcome === false) return { lease: token, ok: false, code: "lease-ended" };
        if (act === "touch") service.leases.renew(token, owner);
        return { lease: token, ok: true, ...cancelledView(outcome) };
      });
      return { results, failed: done.filter((each) => each === false).length };
    },
  );
};

const addList: Routes = (api, service) => {
  api.get(
    "/v1/leases",
    {
      config: { may: "view" },
      schema: {
        summary: "Leased jobs and their holders",
        response: answers({ 200: Fields({ items: Type.Array(Out), total: Type.Integer() }) }),
      },
    },
    ({ identity }) => {
      const nowMs = service.nowMs();
      const leases = service.leases.list();
      // Hide leases on tubes that the token can't access.
      const all = identity === undefined ? leases : leases.filter(({ tube }) => mayTouchTube(identity, tube));
      const items = all.map(({ id, tube, owner, address, sinceMs, untilMs }) => ({
        id,
        tube,
        owner,
        address,
        age: Math.round(nowMs - sinceMs) / 1000,
        timeLeft: Math.max(0, Math.round(untilMs - nowMs) / 1000),
      }));
      return { items, total: all.length };
    },
  );
};
