// Idempotency keys: a request with an Idempotency-Key runs once, and a retry gets the stored
// response.

import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Api, hasEffect, ownerOf } from "../api/api.ts";
import { Problem } from "../api/problem.ts";
import type { Service } from "../queue/service.ts";
import { freeGathered } from "./request-bodies.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Hash of the bytes of a request with an Idempotency-Key; "" without a body. */
    contentHash: string;
    /** Whether the response repeats that of an earlier request with the same key. */
    isRepeated?: boolean;
    /** Lets a retry with the same key run again, because the response can't have arrived. */
    forgetKey?: () => void;
  }
}

/**
 * Hashes the content of a request with an Idempotency-Key. It hashes the bytes, since parsed values
 * may take many times the memory and CPU.
 */
export function noteContent(request: FastifyRequest, body: Buffer): void {
  if (request.headers["idempotency-key"] !== undefined)
    request.contentHash = createHash("sha256").update(body).digest("base64");
}

const KEY = /^[\x21-\x7e]{1,64}$/;

/** A stored answer weighs one more for each of so many bytes of leased jobs. */
const WEIGHED_BYTES = 50;

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown;

/**
 * Makes all changes obey an Idempotency-Key. Routes that are open to all have no owner to whom the
 * key could belong, and change no jobs.
 */
export function addIdempotency(api: Api, { keys }: Service): void {
  api.addHook("onRoute", (route) => {
    if (!hasEffect(route) || route.method === "GET" || route.config?.may === null) return;
    const handler = route.handler as Handler;
    route.handler = function (this: unknown, request, reply) {
      const given = request.headers["idempotency-key"];
      if (given === undefined) return handler.call(this, request, reply);
      return answeredOnce(request, reply, keys, () => handler.call(this, request, reply), given);
    };
  });
}

/** Runs the handler, or repeats its earlier answer. */
export async function answeredOnce(
  request: FastifyRequest,
  reply: FastifyReply,
  keys: Service["keys"],
  act: () => unknown,
  given: string | string[],
): Promise<unknown> {
  if (typeof given !== "string" || !KEY.test(given))
    throw new Problem("bad-request", "An Idempotency-Key must have 1 to 64 visible characters.");
  const { body } = request;
  if (typeof (body as Readable | undefined)?.pipe === "function")
    throw new Problem(
      "bad-request",
      "An Idempotency-Key works with JSON or MessagePack, not with a raw body.",
    );
  const key = `${ownerOf(request)} ${given}`;
  const before = keys.begin(key, digestOf(request));
  if (before === "in-progress")
    throw new Problem("idempotency-in-progress", "The first request with this key has no answer yet.");
  if (before === "mismatch")
    throw new Problem(
      "idempotency-mismatch",
      "This key was used for another request; use a new one for each.",
    );
  if (before !== "begun") {
    request.isRepeated = true;
    // Nothing reads the body of a repeated request any more.
    freeGathered(request);
    const { status, payload, location } = before;
    reply.code(status);
    if (location !== undefined) reply.header("location", location);
    return payload;
  }
  // Once forgotten, the key may belong to a retry.
  let isForgotten = false;
  const forget = (): void => {
    if (!isForgotten) keys.forget(key);
    isForgotten = true;
  };
  request.forgetKey = forget;
  try {
    const payload = await act();
    const location = reply.getHeader("location") as string | undefined;
    if (!isForgotten) keys.end(key, { status: reply.statusCode, payload, location }, weightOf(payload));
    return payload;
  } catch (error) {
    forget();
    throw error;
  }
}

/** An answer with bodies depends on its format. */
const digestOf = ({ method, url, headers: { accept = "" }, contentHash }: FastifyRequest): string =>
  `${method} ${url} ${accept} ${contentHash}`;

/** Returns the number of jobs that an answer is about, and the weight of their bodies. */
function weightOf(payload: unknown): number {
  const { results, jobs, bytes } = (payload ?? {}) as Partial<
    Record<"results" | "jobs", readonly unknown[]> & { bytes: number }
  >;
  if (jobs !== undefined) return jobs.reduce<number>((sum, job) => sum + weightOf(job), 1);
  return (results?.length ?? 1) + Math.ceil((bytes ?? 0) / WEIGHED_BYTES);
}
