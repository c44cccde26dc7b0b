// Audit hook: records each successful change that needs the permission to manage or administer.

import type {
  FastifyRequest,
  onRequestHookHandler,
  onSendHookHandler,
  preSerializationHookHandler,
  RouteOptions,
} from "fastify";
import { Type } from "typebox";
import { changeText, type ManualChange } from "../../message/manual-change.ts";
import { type Api, answers, hasEffect, hooksOf, type Routes } from "../api/api.ts";
import { Change, Fields } from "../api/schemas.ts";
import { RequestRate } from "../limits/request-limit.ts";
import type { Service } from "../queue/service.ts";

/** HTTP status of a change that a background task completes. */
const ACCEPTED = 202;
const OK = 200;
/** A script may change thousands of jobs a second, one by one; the log must not carry them all. */
const LINES_PER_SECOND = 100;

/** Values that a change keeps, and the length of each. */
const VALUES_MAX = 30;
const VALUE_LENGTH_MAX = 300;
/** Bodies of jobs, and texts that are looked for in them. */
const HIDDEN: ReadonlySet<string> = new Set(["body", "bodyBase64", "text", "textBase64"]);

declare module "fastify" {
  interface FastifyRequest {
    /** Number of changed jobs, from the response. */
    affected?: number;
    /** Values that it replaced. */
    before?: Readonly<Record<string, string>>;
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
  const { audit, tasks, state, wallMs, nowMs } = service;
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
    if (isDone && !isDryRun(request) && request.isRepeated !== true) note(request, statusCode);
    done(null, payload);
  };
  const note = (request: FastifyRequest, statusCode: number): void => {
    const change = changeOf(request, statusCode, wallMs());
    audit.note(change);
    const task = request.task === undefined ? undefined : tasks.get(request.task);
    say(task === undefined ? changeText(change) : `${changeText(change)}, task ${task.id}`);
    if (task === undefined || statusCode !== ACCEPTED) return;
    const ended = (): void => {
      change.affected = task.affected;
      say(`${changeText(change)}, task ${task.id} ${task.state}`);
    };
    task.done.then(ended, ended);
  };
  const say = (line: string): void => {
    if (!lines.take("", nowMs())) {
      untold++;
      state.changesNotLogged++;
      return;
    }
    tell(untold === 0 ? line : `${line}; ${untold} before it were not logged`);
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
    if (route.config?.hasEffect === true) route.onRequest = [...hooksOf(route.onRequest), prepare];
    route.preSerialization = [...hooksOf(route.preSerialization), noteAffected];
    route.onSend = [...hooksOf(route.onSend), noteChange];
  });
}

/** Whether the audit log has the requests of a route. */
const isForChanges = (route: Pick<RouteOptions, "method" | "config">): boolean => {
  const { may, byHand } = route.config ?? {};
  return hasEffect(route) && (may === "manage" || may === "admin" || byHand === true);
};

const isDryRun = ({ body }: FastifyRequest): boolean =>
  (body as { dryRun?: unknown } | null | undefined)?.dryRun === true;

function changeOf(request: FastifyRequest, status: number, atMs: number): ManualChange {
  const { owner, ip, method, routeOptions, headers, before, affected } = request;
  return {
    atMs,
    who: owner ?? null,
    address: ip || null,
    // Only a script of our own pages sends that.
    way: headers["sec-fetch-site"] === "same-origin" ? "dashboard" : "http",
    method,
    route: routeOptions.url ?? "",
    what: valuesOf(request),
    before: before ?? null,
    affected: status === ACCEPTED ? null : (affected ?? null),
    status,
  };
}

/** Returns what the path, the query and the body name, without texts that may be bodies of jobs. */
function valuesOf({ params, query, body }: FastifyRequest): Record<string, string> {
  const what: Record<string, string> = {};
  const asked = { ...(query as Readonly<Record<string, unknown>> | undefined) };
  for (const [name, value] of Object.entries((params ?? {}) as object)) {
    // Names that can't be part of a path are in the query; that of a batch is in "name".
    what[name] = value === "-" ? textOf(asked[name] ?? asked["name"] ?? "-") : `${value}`;
    if (value === "-") delete asked["name"];
  }
  const given = isPlain(body) ? (body as object) : {};
  for (const [name, value] of Object.entries({ ...asked, ...given }).slice(0, VALUES_MAX))
    if (!HIDDEN.has(name)) what[name] ??= textOf(value);
  return what;
}

const isPlain = (body: unknown): boolean =>
  typeof body === "object" && body !== null && !Buffer.isBuffer(body) && !("pipe" in body);

function textOf(value: unknown): string {
  if (Array.isArray(value) && value.every((each) => typeof each !== "object"))
    return value.slice(0, VALUES_MAX).join(",");
  const text =
    typeof value === "object"
      ? JSON.stringify(value, (key, inner) => (HIDDEN.has(key) ? undefined : inner))
      : `${value}`;
  return text.slice(0, VALUE_LENGTH_MAX);
}

// Route of the audit log: the last manual changes.

export const auditRoutes: Routes = (api, service) => {
  api.get(
    "/v1/audit",
    {
      config: { may: "admin", live: true },
      schema: {
        summary: "The last 500 manual changes, newest first",
        querystring: Type.Object({
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, description: "500 by default." })),
        }),
        response: answers({ 200: Fields({ items: Type.Array(Change), total: Type.Integer() }) }, 400),
      },
    },
    async ({ query: { limit } }) => {
      // The latest commands of the protocol belong to the answer, unless an acceptor is too busy.
      await service.connections.heard().catch(() => {});
      const { latest } = service.audit;
      const items = latest.slice(0, limit).map(({ atMs, what, ...change }) => ({
        at: new Date(atMs).toISOString(),
        ...change,
        what: { ...what },
      }));
      return { items, total: latest.length };
    },
  );
};
