// Long request bodies: gathers their pieces in one buffer, and frees it as soon as it is read.
//
// V8 counts the memory of buffers as external, and collects garbage more often the more there is.
// With requests of 400 KB, every tenth one triggered a full collection, which took two thirds of a
// put's CPU time. A detached buffer is freed without a collection. Some buffers are kept for reuse,
// because fresh pages from the kernel take as much time as everything else in reading a body.

import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { Problem } from "../problem.ts";
import { BodyPieces } from "./body-pieces.ts";

/** Below this size, freeing is not worth the call. */
const FREED_BYTES_MIN = 16 * 1024;

/** Maximum size and number of buffers that are kept for reuse. */
const KEPT_BYTES_MAX = 1 << 20;
const KEPT_MAX = 8;
const kept: Buffer[] = [];
/** All buffers that were allocated for reuse. */
const reusable = new WeakSet<Buffer>();

declare module "fastify" {
  interface FastifyRequest {
    /** Memory that the request's values may refer to. */
    gathered: Buffer | undefined;
  }
}

/**
 * Calls `done` with the whole body, of at most `bytesMax` bytes, in separate memory. `grow`
 * receives the number of bytes so far, and may throw.
 */
export function gatherBody(
  request: FastifyRequest,
  payload: Readable,
  bytesMax: number,
  done: (error: Error | null, body?: Buffer) => void,
  grow: (bytes: number) => void = () => {},
): void {
  const declared = request.raw.headers["content-length"];
  const pieces = new BodyPieces();
  const tooBig = (): Problem => new Problem("body-too-big", `A request can have at most ${bytesMax} bytes.`);
  const stop = (error: Error): void => {
    payload.off("data", onData).off("end", onEnd).off("error", stop);
    done(error);
  };
  const onData = (chunk: Buffer): void => {
    pieces.add(chunk);
    try {
      if (pieces.length > bytesMax) throw tooBig();
      grow(pieces.length);
    } catch (refusal) {
      stop(refusal as Error);
    }
  };
  const onEnd = (): void => {
    const { length } = pieces;
    if (declared !== undefined && Number(declared) !== length) {
      stop(new Problem("bad-request", "The length of the body differs from its Content-Length."));
      return;
    }
    const chunks = pieces.all();
    const whole = chunks.length === 1 ? chunks[0]! : joined(chunks, length);
    request.gathered = whole;
    done(null, whole.length === length ? whole : whole.subarray(0, length));
  };
  if (declared !== undefined && Number(declared) > bytesMax) done(tooBig());
  else payload.on("data", onData).on("end", onEnd).on("error", stop);
}

/** Returns a buffer that begins with all pieces, and frees theirs. */
function joined(chunks: readonly Buffer[], length: number): Buffer {
  const whole = bufferOf(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
    free(chunk);
  }
  return whole;
}

function bufferOf(length: number): Buffer {
  if (length < FREED_BYTES_MIN || length > KEPT_BYTES_MAX) return Buffer.allocUnsafeSlow(length);
  const found = kept.findIndex((each) => each.length >= length);
  if (found >= 0) return kept.splice(found, 1)[0]!;
  const made = Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(length)));
  reusable.add(made);
  return made;
}

/**
 * Frees the gathered body. No value of the request may be read afterwards, since another request
 * may get the same memory.
 */
export function freeGathered(request: FastifyRequest): void {
  const { gathered } = request;
  request.gathered = undefined;
  if (gathered === undefined) return;
  if (reusable.has(gathered) && kept.length < KEPT_MAX) kept.push(gathered);
  else free(gathered);
}

/** Memory that is shared with other buffers, as small buffers do, can't be freed. */
function free({ buffer, length }: Buffer): void {
  if (length >= FREED_BYTES_MIN && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
