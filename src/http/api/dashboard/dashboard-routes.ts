// Routes of the dashboard: its files, and its views as event streams.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { takesGzip } from "../accept-encoding.ts";
import { mayDo, requirePermission } from "../access/authentication.ts";
import type { Api, Routes } from "../api.ts";
import { Problem } from "../problem.ts";
import { Anything } from "../schemas.ts";
import { type Asset, loadAssets } from "./dashboard-assets.ts";
import { EventHub, viewNamed } from "./event-hub.ts";

/** No foreign or inline resources, no framing, and no text interpreted as markup. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  // The browser blocks scripts that write markup outside lit-html's templates.
  "require-trusted-types-for 'script'",
  "trusted-types lit-html",
].join("; ");

const Query = Type.Object(
  { view: Type.Optional(Type.String({ maxLength: 400 })) },
  // Query parameters of the view's page.
  { additionalProperties: Type.String({ maxLength: 400 }) },
);
const COMMENT_LOOK_MS = 5000;

/** State shared by all listeners: the limit on streams covers them together. */
export function dashboardRoutes(): Routes {
  let shared: { readonly assets: ReadonlyMap<string, () => Asset>; readonly hub: EventHub } | undefined;
  return (api, service) => {
    shared ??= { assets: loadAssets(), hub: new EventHub(service) };
    addRoutes(api, shared.assets, shared.hub);
  };
}

function addRoutes(api: Api, assets: ReadonlyMap<string, () => Asset>, hub: EventHub): void {
  const timer = setInterval(() => hub.comment(), COMMENT_LOOK_MS);
  timer.unref();
  api.addHook("preClose", (done) => {
    clearInterval(timer);
    hub.stop();
    done();
  });

  const firstView = async (asked: string, query: Record<string, string>, request: FastifyRequest) => {
    try {
      const { may, otherwise } = viewNamed(asked);
      const name = otherwise === undefined || mayDo(request, may) ? asked : otherwise;
      requirePermission(request, viewNamed(name).may);
      return { name, first: await hub.view(name, query) };
    } catch (error) {
      if (error instanceof RangeError) throw new Problem("bad-request", `${error.message}.`);
      throw error;
    }
  };
  const open = { may: null, quiet: true } as const;
  const hidden = { hide: true } as const;
  api.get("/", { config: open, schema: hidden }, (request, reply) => {
    reply.header("content-security-policy", CONTENT_SECURITY_POLICY);
    reply.header("referrer-policy", "no-referrer");
    reply.header("x-frame-options", "DENY");
    return send(assets.get("index.html")!(), request, reply);
  });
  api.get("/assets/:name", { config: open, schema: hidden }, (request, reply) => {
    const asset = assets.get((request.params as { name: string }).name);
    if (asset === undefined) throw new Problem("not-found", "There is no such file.");
    return send(asset(), request, reply);
  });

  api.get(
    "/v1/events",
    {
      config: { may: "view", quiet: true },
      schema: {
        summary: "A view of the dashboard, as a stream (text/event-stream) or once (JSON)",
        querystring: Query,
        response: { 200: Anything, 204: Anything },
      },
    },
    async (request, reply) => {
      const { view: asked = "overview", ...query } = request.query as Record<string, string>;
      const { name: view, first } = await firstView(asked, query, request);
      if (!(request.headers.accept ?? "").includes("text/event-stream")) return first;
      // The client disconnected, so no event would ever close the stream.
      if (reply.raw.destroyed) return first;
      if (!hub.hasRoom(request.ip)) {
        // An EventSource treats 204 as the end and doesn't reconnect; the page polls instead.
        return reply.code(204).send({});
      }
      reply.hijack();
      const { raw } = reply;
      raw.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "x-content-type-options": "nosniff",
      });
      // A HEAD request gets only the headers; a stream would never close.
      if (request.method === "HEAD") {
        raw.end();
        return reply;
      }
      const close = hub.open(request.ip, view, query, raw, request.stands);
      raw.on("close", close);
      return reply;
    },
  );
}

function send(asset: Asset, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.header("cache-control", "no-cache").header("etag", asset.etag).header("vary", "accept-encoding");
  if (request.headers["if-none-match"] === asset.etag) return reply.code(304).send();
  reply.type(asset.type);
  if (!takesGzip(request.headers["accept-encoding"])) return reply.send(asset.bytes);
  return reply.header("content-encoding", "gzip").send(asset.gzipped);
}
