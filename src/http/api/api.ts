// What route files share: the application's type, who may ask, tubes' names, and answers that are common to all.

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

/** What a route asks of who calls it; null for nothing. */
export type Permission = "metrics" | "view" | "bodies" | "put" | "work" | "manage" | "admin";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Null for a route that is open to all. */
    may: Permission | null;
    /** Not logged: probes come each few seconds. */
    quiet?: boolean;
    /** Asked by machines, again and again: no address may ask it more often than they need to. */
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

/** The schema of a route's answers: those of problems besides. */
export function answers(ok: Record<number, TSchema>, ...codes: number[]): Record<number, TSchema> {
  return { ...ok, ...Object.fromEntries(codes.map((code) => [code, ProblemBody])) };
}

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks, where there are tokens: leases belong to that name. */
    owner?: string;
    /** False for who may see jobs but not their bodies. */
    seesBodies?: boolean;
  }
}

/** Who asks; all are one where there are no tokens. */
export const ownerOf = (request: { owner?: string }): string => request.owner ?? "";

/** Whether who asks may see bodies of jobs, where there are tokens. */
export const maySeeBodies = (request: { seesBodies?: boolean }): boolean => request.seesBodies !== false;

/** Throws unless commands are served: while the log is replayed nothing can be asked of the shards. */
export function requireServing(service: Service): void {
  const { ok, status, detail } = readinessOf(service);
  if (!ok) throw new Problem(status as ProblemCode, `${detail}; try again in a moment.`);
}

/** The tube of a path: its part, or for `-`, which no tube can be called, what `?tube=` says. */
export function tubeOf(params: { tube: string }, query: { tube?: string | undefined }): string {
  const name = params.tube === "-" ? (query.tube ?? "") : params.tube;
  const bytes = Buffer.from(name);
  if (!isTubeName(bytes, 0, bytes.length))
    throw new Problem(
      "bad-tube-name",
      `"${name}" is no name of a tube: 1 to 200 of the characters A-Z a-z 0-9 - + / ; . $ _ ( ), and no - at the beginning.`,
    );
  return name;
}

export function shardOf(service: Service, tube: string): number {
  const bytes = asciiBytes(tube);
  return shardOfTube(bytes, 0, bytes.length, service.topology.shards);
}
