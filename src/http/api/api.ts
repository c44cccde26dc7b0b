// Shared parts of the route files: the application's type, permissions, tube names and common
// responses.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from "fastify";
import type { TSchema } from "typebox";
import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";
import { isTubeName } from "../../protocol/tube-name.ts";
import { readinessOf } from "../queue/health.ts";
import type { Service } from "../queue/service.ts";
import { Problem, type ProblemCode } from "./problem.ts";
import { ProblemBody } from "./schemas.ts";

/** Permission that a route requires. */
export type Permission = "metrics" | "view" | "bodies" | "put" | "work" | "manage" | "admin";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Any one of several is enough. Null for a route that is open to all. */
    may: Permission | readonly Permission[] | null;
    /** Keeps the route out of the log: probes come every few seconds. */
    quiet?: boolean;
    /** Marks a route that changes nothing and still belongs in the audit log. */
    isAudited?: true;
    /** Marks a route that machines poll: each address is limited to the rate that a probe needs. */
    probe?: true;
  }
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** Adds routes to the application. */
export type Routes = (api: Api, service: Service) => void;

/** Returns the schema of a route's responses, including problems. */
export function answers(ok: Record<number, TSchema>, ...codes: number[]): Record<number, TSchema> {
  return { ...ok, ...Object.fromEntries(codes.map((code) => [code, ProblemBody])) };
}

declare module "fastify" {
  interface FastifyRequest {
    /** Name of the client's token, if there are tokens. Leases belong to this name. */
    owner?: string;
    /** False if the client may see jobs but not their bodies. */
    seesBodies?: boolean;
  }
}

/** Returns the name that the client's leases belong to. Without tokens, all clients share one. */
export const ownerOf = (request: { owner?: string }): string => request.owner ?? "";

/** Tells whether the client may see the bodies of jobs. */
export const maySeeBodies = (request: { seesBodies?: boolean }): boolean => request.seesBodies !== false;

/** Throws unless the server accepts commands. During replay, the shards answer no questions. */
export function requireServing(service: Service): void {
  const { ok, status, detail } = readinessOf(service);
  if (!ok) throw new Problem(status as ProblemCode, `${detail}; try again in a moment.`);
}

/**
 * Returns the tube of a path. For `-`, which is no valid tube name, it is the value of `?tube=`.
 */
export function tubeOf(params: { tube: string }, query: { tube?: string | undefined }): string {
  const name = params.tube === "-" ? (query.tube ?? "") : params.tube;
  const bytes = Buffer.from(name);
  if (!isTubeName(bytes, 0, bytes.length))
    throw new Problem(
      "bad-tube-name",
      `"${name}" is not a valid tube name: 1 to 200 of the characters A-Z a-z 0-9 - + / ; . $ _ ( ), not beginning with -.`,
    );
  return name;
}

export function shardOf(service: Service, tube: string): number {
  const bytes = asciiBytes(tube);
  return shardOfTube(bytes, 0, bytes.length, service.topology.shards);
}
