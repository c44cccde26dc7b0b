// Routes of the files of the dashboard.

import type { FastifyReply, FastifyRequest } from "fastify";
import type { Api, Routes } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import { type Asset, loadAssets } from "./dashboard-assets.ts";
import { takesGzip } from "./request-bodies.ts";

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

export function dashboardRoutes(): Routes {
  let assets: ReadonlyMap<string, () => Asset> | undefined;
  return (api) => {
    assets ??= loadAssets();
    addRoutes(api, assets);
  };
}

function addRoutes(api: Api, assets: ReadonlyMap<string, () => Asset>): void {
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
}

function send(asset: Asset, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.header("cache-control", "no-cache").header("etag", asset.etag).header("vary", "accept-encoding");
  if (request.headers["if-none-match"] === asset.etag) return reply.code(304).send();
  reply.type(asset.type);
  if (!takesGzip(request.headers["accept-encoding"])) return reply.send(asset.bytes);
  return reply.header("content-encoding", "gzip").send(asset.gzipped);
}
