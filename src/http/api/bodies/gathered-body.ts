// Long bodies of requests: gathered from their pieces, and given back at once when they have been read.
//
// Memory of buffers lies beside V8's heap, which counts it only to collect the more often: with requests of 400 KB each tenth began a
// collection of all, which took two thirds of the processor time of a put. What is detached is free without one. Some buffers are kept and
// used again: the kernel takes as long to give fresh pages as all else takes to read them.

import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { Problem } from "../problem.ts";
import { BodyPieces } from "./body-pieces.ts";

/** Shorter ones are not worth the call. */
const FREED_BYTES_MIN = 16 * 1024;

/** Up to this size buffers are kept, and so many of them. */
const KEPT_BYTES_MAX = 1 << 20;
const KEPT_MAX = 8;
const kept: Buffer[] = [];
/** All that were made to be kept. */
const reusable = new WeakSet<Buffer>();

declare module "fastify" {
  interface FastifyRequest {
    /** The memory that its values may refer to. */
    gathered: Buffer | undefined;
  }
}

/**
 * Calls `done` with all of a body of at most `bytesMax` bytes, in memory of its own. `grow` hears how much has come, and may
 * throw.
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
  const tooBig = (): Problem => new Problem("body-too-big", `A request has at most ${bytesMax} bytes.`);
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
      stop(new Problem("bad-request", "The body is not as long as its Content-Length says."));
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

/** Memory that begins with all pieces, whose own is given back. */
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

/** Gives back what was gathered. No value of the request is read from now on: others may get the same memory. */
export function freeGathered(request: FastifyRequest): void {
  const { gathered } = request;
  request.gathered = undefined;
  if (gathered === undefined) return;
  if (reusable.has(gathered) && kept.length < KEPT_MAX) kept.push(gathered);
  else free(gathered);
}

/** Of memory that others have a part of, as small buffers do, nothing is given back. */
function free({ buffer, length }: Buffer): void {
  if (length >= FREED_BYTES_MIN && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
