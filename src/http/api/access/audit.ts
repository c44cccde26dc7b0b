// Audit hook: records each successful change that needs the permission to manage or administer.

import type {
  FastifyRequest,
  onRequestHookHandler,
  onSendHookHandler,
  preSerializationHookHandler,
  RouteOptions,
} from "fastify";
import type { Service } from "../../queue/service.ts";
import { type Change, changeText } from "../../state/audit-log.ts";
import type { Api } from "../api.ts";
import { RequestRate } from "../limits/request-rate.ts";

/** HTTP status of a change that a background task completes. */
const ACCEPTED = 202;
const OK = 200;
/** A script may change thousands of jobs a second, one by one; the log must not carry them all. */
const LINES_PER_SECOND = 100;

declare module "fastify" {
  interface FastifyRequest {
    /** Number of changed jobs, from the response. */
    affected?: number;
    /** Id of the task that completes the change, from the response. */
    task?: string;
    /** Records the request as successful, for a response that bypasses Fastify and its hooks. */
    noteAudited?: () => void;
  }
}

/**
 * Adds the hook to all routes for changes. `tell` receives at most `LINES_PER_SECOND` log lines.
 */
export function addAudit(api: Api, service: Service, tell: (line: string) => void): void {
  const { audit, tasks, wallMs, nowMs } = service;
  const lines = new RequestRate(LINES_PER_SECOND);
  let untold = 0;
  const noteAffected: preSerializationHookHandler = (request, reply, payload, done) => {
    const { affected, deleted, id } = (payload ?? {}) as Record<"affected" | "deleted" | "id", unknown>;
    const count = affected ?? deleted;
    if (reply.statusCode === ACCEPTED && typeof id === "string") request.task = id;
    if (typeof count === "number") request.affected = count;
    done(null, payload);
  };
  // Runs before the response is sent, so a change counts even if its client has disconnected.
  const noteChange: onSendHookHandler = (request, { statusCode }, payload, done) => {
    const isDone = statusCode < 400 || (request.affected ?? 0) > 0;
    if (isDone && !isDryRun(request)) note(request, statusCode);
    done(null, payload);
  };
  const note = (request: FastifyRequest, statusCode: number): void => {
    const change = changeOf(request, statusCode, wallMs());
    audit.note(change);
    const task = request.task === undefined ? undefined : tasks.get(request.task);
    const count = (): void => {
      change.affected = task!.affected;
    };
    task?.done.then(count, count);
    if (!lines.take("", nowMs())) {
      untold++;
      return;
    }
    tell(untold === 0 ? changeText(change) : `${changeText(change)}; ${untold} before it were not logged`);
    untold = 0;
  };
  const prepare: onRequestHookHandler = (request, _reply, done) => {
    request.noteAudited = () => note(request, OK);
    done();
  };
  api.decorateRequest("noteAudited");
  // Routes of workers are left out.
  api.addHook("onRoute", (route) => {
    if (!isForChanges(route)) return;
    if (route.config?.isAudited) route.onRequest = [...hooksOf(route.onRequest), prepare];
    route.preSerialization = [...hooksOf(route.preSerialization), noteAffected];
    route.onSend = [...hooksOf(route.onSend), noteChange];
  });
}

const hooksOf = <Hook>(hooks: Hook | Hook[] | undefined): Hook[] => [hooks ?? []].flat() as Hook[];

function isForChanges({ method, config }: RouteOptions): boolean {
  const { may, isAudited } = config ?? {};
  if (isAudited === true) return true;
  return method !== "GET" && method !== "HEAD" && (may === "manage" || may === "admin");
}

const isDryRun = ({ body }: FastifyRequest): boolean =>
  (body as { dryRun?: unknown } | null | undefined)?.dryRun === true;

function changeOf(request: FastifyRequest, status: number, atMs: number): Change {
  const { owner, ip, method, routeOptions, params, query, body, affected } = request;
  const asked = (query ?? {}) as Readonly<Record<string, string | undefined>>;
  // Names that can't be part of a path are in the query; that of a batch is in "name".
  const what = Object.fromEntries(
    Object.entries(params as object).map(([name, value]) => [
      name,
      value === "-" ? (asked[name] ?? asked["name"] ?? "-") : `${value}`,
    ]),
  );
  return {
    atMs,
    who: owner ?? null,
    address: ip || null,
    method,
    route: routeOptions.url ?? "",
    what: { ...what, ...targetOf(body) },
    affected: status === ACCEPTED ? null : (affected ?? null),
    status,
  };
}

/** Returns where jobs were moved or copied to, and whether they were copied. */
function targetOf(body: unknown): Record<string, string> {
  const { to, copy } = (body ?? {}) as { to?: unknown; copy?: unknown };
  if (typeof to !== "string") return {};
  return copy === true ? { to, copy: "true" } : { to };
}
