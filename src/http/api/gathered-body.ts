// Long bodies of requests: gathered from their pieces, and given back at once when they have been read.
//
// Memory of buffers lies beside V8's heap, which counts it only to collect the more often: with requests of 400 KB each tenth began a
// collection of all, which took two thirds of the processor time of a put. What is detached is free without one.

import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { Problem } from "./problem.ts";

/** Shorter ones are not worth the call. */
const FREED_BYTES_MIN = 16 * 1024;

declare module "fastify" {
  interface FastifyRequest {
    /** What its values may refer to. */
    gathered: Buffer | undefined;
  }
}

/** Calls `done` with all of a body of at most `bytesMax` bytes, in memory of its own. */
export function gatherBody(
  request: FastifyRequest,
  payload: Readable,
  bytesMax: number,
  done: (error: Error | null, body?: Buffer) => void,
): void {
  const declared = request.raw.headers["content-length"];
  const chunks: Buffer[] = [];
  let length = 0;
  const tooBig = (): Problem => new Problem("body-too-big", `A request has at most ${bytesMax} bytes.`);
  const stop = (error: Error): void => {
    payload.off("data", onData).off("end", onEnd).off("error", stop);
    done(error);
  };
  const onData = (chunk: Buffer): void => {
    length += chunk.length;
    if (length > bytesMax) stop(tooBig());
    else chunks.push(chunk);
  };
  const onEnd = (): void => {
    if (declared !== undefined && Number(declared) !== length) {
      stop(new Problem("bad-request", "The body is not as long as its Content-Length says."));
      return;
    }
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, length);
    if (chunks.length > 1) for (const chunk of chunks) free(chunk);
    request.gathered = body;
    done(null, body);
  };
  if (declared !== undefined && Number(declared) > bytesMax) done(tooBig());
  else payload.on("data", onData).on("end", onEnd).on("error", stop);
}

/** Gives back what was gathered. No value of the request is read from now on. */
export function freeGathered(request: FastifyRequest): void {
  const { gathered } = request;
  request.gathered = undefined;
  if (gathered !== undefined) free(gathered);
}

/** Of memory that others have a part of, as small buffers do, nothing is given back. */
function free({ buffer, length }: Buffer): void {
  if (length >= FREED_BYTES_MIN && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
