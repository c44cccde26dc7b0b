// Shared parts of the route files: the application's type, permissions, tube names and common
// responses.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault, RouteOptions } from "fastify";
import type { TSchema } from "typebox";
import { asciiBytes, shardOfTube } from "../../base/bytes.ts";
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
    /** Marks a GET that does more than read: it is guarded and audited like a change. */
    hasEffect?: true;
    /** Marks a change that the audit log has although producers may make it. */
    byHand?: true;
    /** Marks a GET whose answer /v1/events can send whenever it changes. */
    live?: true;
    /** Marks a route that machines poll: each address is limited to the rate that a probe needs. */
    probe?: true;
  }
}

const READS: readonly string[] = ["GET", "HEAD", "OPTIONS"];

/** Tells whether a route does more than read: by its method, or because its config says so. */
export const hasEffect = ({ method, config }: Pick<RouteOptions, "method" | "config">): boolean =>
  config?.hasEffect === true || ![method].flat().every((each) => READS.includes(each));

/** Returns the hooks of a route as a list, to which others can be added. */
export const hooksOf = <Hook>(hooks: Hook | Hook[] | undefined): Hook[] => [hooks ?? []].flat() as Hook[];

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
    /**
     * False if the client may see jobs but not the texts that their producers and workers wrote.
     */
    seesTexts?: boolean;
  }
}

/** Returns the name that the client's leases belong to. Without tokens, all clients share one. */
export const ownerOf = (request: { owner?: string }): string => request.owner ?? "";

/**
 * Tells whether the client may see the texts of jobs: bodies, metadata, keys, groups and the
 * reasons of failures.
 */
export const maySeeTexts = (request: { seesTexts?: boolean }): boolean => request.seesTexts !== false;

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
