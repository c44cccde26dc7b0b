// Tests of bodies in pieces: complete, limited in length, and freed once unused.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, it } from "node:test";
import type { FastifyRequest } from "fastify";
import { freeGathered, gatherBody } from "../../../../src/http/app/request-bodies.ts";

const PIECE_BYTES = 64 * 1024;

function requestOf(contentLength?: number): FastifyRequest {
  const headers = contentLength === undefined ? {} : { "content-length": `${contentLength}` };
  return { raw: { headers } } as unknown as FastifyRequest;
}

function gathered(request: FastifyRequest, pieces: readonly Buffer[], bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gatherBody(request, Readable.from(pieces, { objectMode: false }), bytesMax, (error, body) =>
      error === null ? resolve(body!) : reject(error),
    );
  });
}

const piecesOf = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, index) => Buffer.alloc(PIECE_BYTES, index + 1));

describe("gatherBody", () => {
  it("joins pieces, and frees their memory and that of the whole", async () => {
    const pieces = piecesOf(3);
    const expected = Buffer.concat(pieces);
    const request = requestOf(expected.length);
    const body = await gathered(request, pieces, expected.length);
    assert.deepEqual(body, expected);
    assert.deepEqual(
      pieces.map(({ length }) => length),
      [0, 0, 0],
    );
    freeGathered(request);
    // The next one has the same memory, and one beside it other memory.
    const again = await Promise.all(
      [requestOf(), requestOf()].map((next) => gathered(next, piecesOf(4), 4 * PIECE_BYTES)),
    );
    assert.equal(again[0]!.buffer, body.buffer);
    assert.notEqual(again[1]!.buffer, body.buffer);
    for (const each of again) assert.deepEqual(each, Buffer.concat(piecesOf(4)));
  });

  it("keeps few buffers, and no large one", async () => {
    const count = 20;
    const requests = Array.from({ length: count }, () => requestOf());
    const bodies = await Promise.all(requests.map((each) => gathered(each, piecesOf(2), 2 * PIECE_BYTES)));
    for (const request of requests) freeGathered(request);
    assert.equal(bodies.filter(({ length }) => length > 0).length, 8);
    const request = requestOf();
    const large = await gathered(request, piecesOf(17), 17 * PIECE_BYTES);
    freeGathered(request);
    assert.equal(large.length, 0);
  });

  it("keeps memory that is a part of another buffer", async () => {
    const whole = Buffer.alloc(4 * PIECE_BYTES, 7);
    const pieces = [whole.subarray(0, PIECE_BYTES), whole.subarray(PIECE_BYTES)];
    const request = requestOf();
    assert.deepEqual(await gathered(request, pieces, whole.length), whole);
    const one = requestOf();
    await gathered(one, [whole.subarray(PIECE_BYTES)], whole.length);
    freeGathered(one);
    assert.equal(whole.length, 4 * PIECE_BYTES);
  });

  it("refuses bodies that are too long, announced or received, or differ from their length", async () => {
    const code = (expected: string) => (error: unknown) => (error as { code: string }).code === expected;
    const max = 3 * PIECE_BYTES;
    await assert.rejects(gathered(requestOf(max + 1), piecesOf(1), max), code("body-too-big"));
    await assert.rejects(gathered(requestOf(), piecesOf(4), max), code("body-too-big"));
    await assert.rejects(gathered(requestOf(max), piecesOf(2), max), code("bad-request"));
  });
});
