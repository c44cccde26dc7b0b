// Routes for leased jobs: a worker deletes, releases, buries or touches them, one by one or in
// batches.

import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { mayTouchTube } from "../../../access/identity.ts";
import { REASON_BYTES_MAX } from "../../../protocol/job-failure.ts";
import { changeLeases, type NewChange } from "../../queue/lease-changes.ts";
import { answers, ownerOf, type Routes, requireServing } from "../api.ts";
import { Problem } from "../problem.ts";
import { Fields } from "../schemas.ts";

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
const BODIES = {
  delete: Type.Optional(Type.Union([Fields({}), Type.Null()])),
  release: Type.Optional(Type.Union([Fields({ pri, delay, reason }), Type.Null()])),
  bury: Type.Optional(Type.Union([Fields({ pri, reason }), Type.Null()])),
  touch: Type.Optional(Type.Union([Fields({}), Type.Null()])),
};

const Many = Fields({
  delete: Type.Optional(Type.Array(Token)),
  release: Type.Optional(Type.Array(Fields({ lease: Token, pri, delay, reason }))),
  bury: Type.Optional(Type.Array(Fields({ lease: Token, pri, reason }))),
  touch: Type.Optional(Type.Array(Token)),
});
const Result = Fields({ lease: Token, ok: Type.Boolean(), code: Type.Optional(Type.String()) });
const Done = Fields({ timeLeft: Type.Optional(Type.Number({ description: "After touch." })) });
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
        const details = (request.body ?? {}) as Pick<NewChange, "pri" | "delay" | "reason">;
        const [isDone] = await changeLeases(service, ownerOf(request), [{ act, token: lease, ...details }]);
        if (!isDone)
          throw new Problem("lease-ended", "Its time to run expired, or it was finished: nothing was done.");
        const renewed = act === "touch" ? service.leases.renew(lease, ownerOf(request)) : undefined;
        return renewed === undefined ? {} : { timeLeft: renewed.ttr };
      },
    );
  }
  addMany(api, service);
  addList(api, service);
};

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
        touch?: string[];
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
        ...(asked.touch ?? []).map((token) => ({ act: "touch" as const, token })),
      ];
      if (changes.length > CHANGES_MAX)
        throw new Problem(
          "bad-request",
          `${changes.length} leases in one request; at most ${CHANGES_MAX} are allowed.`,
        );
      const owner = ownerOf(request);
      const done = await changeLeases(service, owner, changes);
      const results = changes.map(({ token, act }, index) => {
        if (done[index] && act === "touch") service.leases.renew(token, owner);
        return done[index] ? { lease: token, ok: true } : { lease: token, ok: false, code: "lease-ended" };
      });
      return { results, failed: done.filter((each) => !each).length };
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
