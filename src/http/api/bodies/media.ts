// JSON and MessagePack: what comes, by its Content-Type, and what goes, by Accept. Both have the same shapes, but bodies of
// jobs are `body` in MessagePack, as bytes, and `body` or `bodyBase64` in JSON.

import type { FastifyReply, FastifyRequest } from "fastify";
import { Packr } from "msgpackr/pack";
import { Problem } from "../problem.ts";
import { checkMsgpackShape } from "./msgpack-shape.ts";
import { checkMsgpackSize } from "./request-size.ts";

export const MSGPACK = "application/vnd.msgpack";
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

/** Whether the client wants MessagePack: its Accept names it. */
export function wantsMsgpack(request: FastifyRequest): boolean {
  const { accept } = request.headers;
  return accept?.includes("msgpack") === true && MSGPACK_TYPES.has(accept.split(/[,;]/, 1)[0]!.trim());
}

export const packMsgpack = (value: unknown): Buffer => packr.pack(value);

/** The value of a request's bytes; only plain values, no extensions, not too deep. */
export function parseMsgpack(bytes: Buffer): unknown {
  checkMsgpackSize(bytes);
  checkMsgpackShape(bytes);
  try {
    return packr.unpack(bytes);
  } catch (error) {
    throw new Problem("bad-request", `The MessagePack is broken: ${(error as Error).message}.`);
  }
}

/** Has the answer packed as the client wants it. */
export function encodeAs(request: FastifyRequest, reply: FastifyReply): void {
  if (!wantsMsgpack(request)) return;
  reply.type(MSGPACK);
  // The types of fastify know text only; bytes are sent as they are.
  reply.serializer((payload: unknown) => packMsgpack(payload) as unknown as string);
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A job's body as the format has it: `{body}` if it is text, else `{bodyBase64}`; in MessagePack always `{body}`. */
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
