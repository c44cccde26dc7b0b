// Routes of the probes, the OpenAPI document and the detailed health checks.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { checksOf, livenessOf, putReadinessOf, readinessOf, type Verdict } from "../../queue/health.ts";
import type { Routes } from "../api.ts";
import { Anything, Fields, Health } from "../schemas.ts";

const open = { may: null, quiet: true } as const;
const probe = { ...open, probe: true } as const;
const Probe = Type.Union([Type.String(), Fields({ status: Type.String(), detail: Type.String() })]);
const probes = { response: { 200: Probe, 503: Probe } };

export const probeRoutes: Routes = (api, service) => {
  api.get(
    "/livez",
    { config: probe, schema: { summary: "Liveness: fails if a restart would help", ...probes } },
    (request, reply) => {
      answer(livenessOf(service), request, reply);
    },
  );
  const For = Type.Object({ for: Type.Optional(Type.Union([Type.Literal("put"), Type.Literal("work")])) });
  for (const path of ["/readyz", "/healthz"]) {
    api.get(
      path,
      {
        config: probe,
        schema: {
          summary: "Readiness: whether the server accepts clients, or puts",
          querystring: For,
          ...probes,
        },
      },
      (request, reply) => {
        const verdict = request.query.for === "put" ? putReadinessOf(service) : readinessOf(service);
        answer(verdict, request, reply, service.state.replayed);
      },
    );
  }
};

export const healthRoutes: Routes = (api, service) => {
  api.get(
    "/v1/health",
    {
      config: { may: "view", live: true },
      schema: { summary: "All checks, and which server this is", response: { 200: Health } },
    },
    () => {
      const checks = checksOf(service);
      const { facts, state, topology } = service;
      return {
        ok: Object.values(checks).every(({ ok }) => ok),
        checks,
        version: facts.version,
        hostname: facts.hostname,
        listeners: [...state.listeners],
        inGroup: topology.binlog?.group !== undefined,
      };
    },
  );
  api.get(
    "/v1/openapi.json",
    { config: open, schema: { summary: "This API", response: { 200: Anything } } },
    () => api.swagger(),
  );
};

function answer(
  { ok, status, detail }: Verdict,
  request: FastifyRequest,
  reply: FastifyReply,
  replayed?: number,
): void {
  reply.code(ok ? 200 : 503);
  if (!ok) reply.header("retry-after", 1);
  if (request.headers.accept?.includes("json") === true)
    reply.send({ status, detail, ...(status === "starting" ? { replayed } : {}) });
  else reply.type("text/plain; charset=utf-8").send(ok ? "ok\n" : `${status}: ${detail}\n`);
}
