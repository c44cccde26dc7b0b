// Body of a job in a request: text, base64, or any value as the client wrote it.

import type { FastifyRequest } from "fastify";
import type { PutBody } from "../../link/put-pool.ts";
import { Problem } from "../problem.ts";
import { jsonValues } from "./json-text.ts";

/** Exactly one of these. */
interface JobBody {
  readonly body?: string | Uint8Array;
  readonly bodyBase64?: string;
  readonly json?: unknown;
}

/** Returns the text of a job's `json` by its position in the request. */
export type JsonReader = (job: JobBody, index: number) => string;

/** Returns a reader that keeps JSON as the client wrote it. */
export function jsonReader(request: FastifyRequest): JsonReader {
  const { text } = request;
  request.text = undefined;
  if (text === undefined) return ({ json }) => JSON.stringify(json);
  let values: (string | undefined)[] | undefined;
  return (_job, index) => (values ??= jsonValues(text))[index]!;
}

export function bodyOf(job: JobBody, index: number, jsonOf: JsonReader): PutBody {
  const { body, bodyBase64, json } = job;
  const given = Number(body !== undefined) + Number(bodyBase64 !== undefined) + Number(json !== undefined);
  if (given !== 1) throw new Problem("bad-request", "A job needs exactly one of body, bodyBase64 and json.");
  if (json !== undefined) return jsonOf(job, index);
  if (bodyBase64 === undefined) return bytesOrText(body);
  if (!isBase64(bodyBase64)) throw new Problem("bad-request", "bodyBase64 is not valid base64.");
  return Buffer.from(bodyBase64, "base64");
}

function bytesOrText(body: unknown): PutBody {
  if (body instanceof Uint8Array) return body;
  if (typeof body !== "string")
    throw new Problem(
      "bad-request",
      "A body must be text, or bytes in MessagePack; put other values into json.",
    );
  if (body.isWellFormed()) return body;
  throw new Problem(
    "bad-request",
    "The body has half of a surrogate pair, which is not valid text; use bodyBase64.",
  );
}

/** A last group of one character is invalid. Padding is complete or missing. */
function isBase64(text: string): boolean {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) return false;
  return text.endsWith("=") ? text.length % 4 === 0 : text.length % 4 !== 1;
}
