// Idempotency keys: a request with an Idempotency-Key runs once, and a retry gets the stored
// response.

import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import type { Service } from "../../queue/service.ts";
import { ownerOf } from "../api.ts";
import { Problem } from "../problem.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Hash of the bytes of a request with an Idempotency-Key; "" without a body. */
    contentHash: string;
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

interface Answered {
  readonly status: number;
  readonly payload: unknown;
}

export function answeredOnce<Answer extends Answered>(
  request: FastifyRequest,
  service: Service,
  act: () => Promise<Answer>,
): Promise<Answer> {
  const given = request.headers["idempotency-key"];
  return given === undefined ? act() : answeredByKey(request, service, act, given);
}

async function answeredByKey<Answer extends Answered>(
  request: FastifyRequest,
  { keys }: Service,
  act: () => Promise<Answer>,
  given: string | string[],
): Promise<Answer> {
  if (typeof given !== "string" || !KEY.test(given))
    throw new Problem("bad-request", "An Idempotency-Key must have 1 to 64 visible characters.");
  const { body } = request;
  if (typeof (body as Readable | undefined)?.pipe === "function")
    throw new Problem(
      "bad-request",
      "An Idempotency-Key works with JSON or MessagePack, not with a raw body.",
    );
  const key = `${ownerOf(request)} ${given}`;
  const before = keys.begin(key, `${request.method} ${request.url} ${request.contentHash}`);
  if (before === "in-progress")
    throw new Problem("idempotency-in-progress", "The first request with this key has no answer yet.");
  if (before === "mismatch")
    throw new Problem(
      "idempotency-mismatch",
      "This key was used for another request; use a new one for each.",
    );
  if (before !== "begun") return before as Answer;
  try {
    const answer = await act();
    const { results } = answer.payload as { results?: readonly unknown[] };
    keys.end(key, answer, results?.length ?? 1);
    return answer;
  } catch (error) {
    keys.forget(key);
    throw error;
  }
}
