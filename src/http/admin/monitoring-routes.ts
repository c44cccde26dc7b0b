// Routes of the probes, the OpenAPI document and the detailed health checks.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { matchesGlob } from "../../base/text.ts";
import { type Routes, requireServing } from "../api/api.ts";
import { Anything, Fields, Health } from "../api/schemas.ts";
import type { RequestMeter } from "../limits/request-meter.ts";
import { type Family, gauge, metricsText, wantsOpenMetrics } from "../metrics/metrics-text.ts";
import { serverFamilies } from "../metrics/server-families.ts";
import {
  countersOfAll,
  seriesOf,
  timeFamilies,
  tubeFamilies,
  tubeStateFamilies,
} from "../metrics/tube-families.ts";
import {
  checksOf,
  knownTotals,
  knownTubes,
  livenessOf,
  putReadinessOf,
  readinessOf,
  renewTimes,
  type Verdict,
} from "../queue/health.ts";
import type { Service } from "../queue/service.ts";

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
        listeners: state.listeners.map(({ where }) => where),
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

// Prometheus metrics: of the server with some tubes, and of tubes that the request names.

const metrics = { may: "metrics", quiet: true } as const;

/** The totals of the last scrape are shared by all listeners. */
export function metricsRoutes(meter: RequestMeter): Routes {
  const earlier = new EarlierTotals();
  return (api, service) => {
    const { turns: scrapes } = service.measured;
    api.get(
      "/metrics",
      {
        config: metrics,
        schema: {
          summary: "Metrics for Prometheus",
          querystring: Type.Object({ tubes: Type.Optional(Type.Literal("none")) }),
          response: { 200: Type.String() },
        },
      },
      async (request, reply) => {
        const { contentType, text } = await scrapes.run(reply.raw, async () => {
          const families = await familiesOf(service, earlier, request.query.tubes !== "none");
          const all = [...families, ...meter.families()];
          return await metricsText(all, wantsOpenMetrics(request.headers.accept));
        });
        return reply.type(contentType).send(text);
      },
    );
    const Some = Type.Object({
      match: Type.Optional(Type.String({ maxLength: 200, description: "A glob over names of tubes." })),
      series: Type.Optional(
        Type.String({ description: "Names that begin with tube_, separated by commas." }),
      ),
    });
    api.get(
      "/metrics/tubes",
      {
        config: metrics,
        schema: {
          summary: "Metrics of any number of tubes",
          querystring: Some,
          response: { 200: Type.String() },
        },
      },
      async (request, reply) => {
        requireServing(service);
        const { match, series: names } = request.query;
        const { contentType, text } = await scrapes.run(reply.raw, async () => {
          const tubes = [...(await knownTubes(service)).values()].filter(
            ({ name }) => match === undefined || matchesGlob(match, name),
          );
          const each = tubes.map((entry) => ({ tube: entry.name, entries: [entry] }));
          const families = wantedOf(tubeFamilies(each, service.nowMs()), names?.split(","));
          return await metricsText(families, wantsOpenMetrics(request.headers.accept));
        });
        return reply.type(contentType).send(text);
      },
    );
  };
}

/** A generator, because all families of ten thousand tubes are 200,000 objects. */
function* wantedOf(families: Iterable<Family>, names: readonly string[] | undefined): Iterable<Family> {
  for (const family of families)
    if (names === undefined || names.includes(family.name) || names.includes(`${family.name}_total`))
      yield family;
}

type Counters = ReturnType<typeof countersOfAll>;
interface Asked {
  readonly counters: Counters;
  readonly atMs: number;
}

/**
 * Totals of this scrape and of the last one. One of them must be older than the table of tubes,
 * which another request may have triggered.
 */
class EarlierTotals {
  #last: Asked | undefined;

  /**
   * Returns the newest totals that are older than the table, or undefined if there are none. The
   * first scrape returns the totals that it has.
   */
  before(asked: Asked, table: { readonly atMs: number; readonly tookMs: number }): Counters | undefined {
    const last = this.#last ?? asked;
    this.#last = asked;
    const beganMs = table.atMs - table.tookMs;
    if (asked.atMs <= beganMs) return asked.counters;
    return last === asked || last.atMs <= beganMs ? last.counters : undefined;
  }
}

async function familiesOf(service: Service, earlier: EarlierTotals, withTubes: boolean): Promise<Family[]> {
  const { series, times } = service.measured;
  const totals = await knownTotals(service);
  const families = [...serverFamilies(service, totals)];
  if (totals === undefined) return families;
  families.push(gauge("tubes", "Tubes that exist.", totals.tubes));
  if (!withTubes) return families;
  const asked = { counters: countersOfAll(totals), atMs: service.nowMs() };
  const tubes = await knownTubes(service);
  series.renew(tubes, service.nowMs());
  const own = series.own();
  const shown = seriesOf(tubes, own, series.others(earlier.before(asked, service.tubes)));
  await renewTimes(service);
  families.push(
    gauge("tubes_without_series", "Tubes that are only in the sum *.", shown.at(-1)!.entries.length),
    gauge("snapshot_seconds", "Seconds that the last table of tubes took.", service.tubes.tookMs / 1000),
    gauge("snapshot_age_seconds", "Age of the table.", (service.nowMs() - service.tubes.atMs) / 1000),
    ...tubeStateFamilies(tubes, service.nowMs()),
    ...tubeFamilies(shown, service.nowMs()),
    ...timeFamilies(times.series(totals)),
  );
  return families;
}
