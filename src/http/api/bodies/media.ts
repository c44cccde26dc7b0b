// JSON and MessagePack, chosen by Content-Type for requests and by Accept for responses. Both have
// the same shapes, except for job bodies: MessagePack has `body` as bytes, JSON has `body` or
// `bodyBase64`.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Packr } from "msgpackr/pack";
import { Problem } from "../problem.ts";
import { checkMsgpackShape } from "./msgpack-shape.ts";
import { checkMsgpackSize } from "./request-size.ts";

const MSGPACK = "application/vnd.msgpack";
export const MSGPACK_TYPES: ReadonlySet<string> = new Set([
  MSGPACK,
  "application/msgpack",
  "application/x-msgpack",
]);

const packr = new Packr({
  useRecords: false,
  moreTypes: false,
  variableMapSize: true,
  int64AsType: "number",
});

/** Tells whether the Accept header begins with MessagePack. */
export function wantsMsgpack(request: FastifyRequest): boolean {
  const { accept } = request.headers;
  return accept?.includes("msgpack") === true && MSGPACK_TYPES.has(accept.split(/[,;]/, 1)[0]!.trim());
}

export const packMsgpack = (value: unknown): Buffer => packr.pack(value);

/**
 * Parses a MessagePack request. It allows only plain values, no extensions, and limits the depth.
 */
export function parseMsgpack(bytes: Buffer): unknown {
  checkMsgpackSize(bytes);
  checkMsgpackShape(bytes);
  try {
    return packr.unpack(bytes);
  } catch (error) {
    throw new Problem("bad-request", `The MessagePack is broken: ${(error as Error).message}.`);
  }
}

/** Encodes the response in the format that the client wants. */
export function encodeAs(request: FastifyRequest, reply: FastifyReply): void {
  if (!wantsMsgpack(request)) return;
  reply.type(MSGPACK);
  // The types of Fastify allow only text, but it sends bytes unchanged.
  reply.serializer(packMsgpack as (payload: unknown) => never);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Returns a job's body in the response format: `{body}` for text, else `{bodyBase64}`; in
 * MessagePack always `{body}`.
 */
export function bodyField(
  body: Uint8Array,
  isMsgpack: boolean,
): { body: string | Uint8Array } | { bodyBase64: string } {
  if (isMsgpack) return { body };
  try {
    return { body: utf8.decode(body) };
  } catch {
    return { bodyBase64: Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("base64") };
  }
}
