// Tests of a body on its way into an arena: where memory ends, what it leaves there, and that it
// gives its memory back once.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { StoredBody } from "../../../../src/acceptor/connection/stored-body.ts";
import { BodyArena, BodyPlace, CELL_BYTES_MAX } from "../../../../src/engine/jobs/body-arena.ts";

/** A body above CELL_BYTES_MAX takes blocks of this size as it is written. */
const BLOCK_BYTES = 1 << 20;
const PIECE_BYTES = BLOCK_BYTES / 2;
const BODY_BYTES = 8 * BLOCK_BYTES;

type Way = (body: StoredBody, bytes: Uint8Array) => boolean;

/** Both ways return false if the body has no memory. */
const WAYS: readonly (readonly [string, Way])[] = [
  [
    "by a copy",
    (body, bytes) => {
      body.write(bytes, 0, bytes.length);
      return !body.failed;
    },
  ],
  [
    "into room that it finds",
    (body, bytes) => {
      const place = new BodyPlace();
      if (!body.findRoom(bytes.length, place)) return false;
      assert.equal(place.length, bytes.length);
      place.bytes.set(bytes, place.at);
      body.filled(bytes.length);
      return !body.failed;
    },
  ],
];

/** Writes pieces until one has no memory; returns how many had. */
function fill(body: StoredBody, write: Way): number {
  let pieces = 0;
  while (pieces * PIECE_BYTES < BODY_BYTES && write(body, new Uint8Array(PIECE_BYTES).fill(pieces + 1)))
    pieces++;
  return pieces;
}

for (const [how, write] of WAYS)
  describe(`a body that is written ${how}`, () => {
    for (const blocks of [0, 1, 2, 5])
      it(`gets the ${blocks} blocks that there are, and gives them back once`, () => {
        const bodies = new BodyArena(blocks * BLOCK_BYTES);
        for (let round = 0; round < 3; round++) {
          const body = new StoredBody();
          assert.ok(body.begin(bodies, BODY_BYTES));
          assert.equal(fill(body, write), 2 * blocks);
          assert.deepEqual([body.active, body.hasBegun], [true, blocks > 0]);
          // A copy that fails gives the body up by itself.
          assert.equal(bodies.usedBytes, body.failed ? 0 : blocks * BLOCK_BYTES);
          // The rest of a body that failed is dropped.
          if (body.failed) body.write(new Uint8Array(3), 0, 3);
          body.abandon();
          assert.deepEqual([bodies.usedBytes, body.active], [0, false]);
          body.abandon();
          assert.equal(bodies.usedBytes, 0);
        }
      });

    for (const pieces of [0, 1, 2, 3, 5])
      it(`is given up if the limit is reached after ${pieces} pieces`, () => {
        const bodies = new BodyArena();
        const body = new StoredBody();
        assert.ok(body.begin(bodies, BODY_BYTES));
        for (let piece = 0; piece < pieces; piece++) assert.ok(write(body, new Uint8Array(PIECE_BYTES)));
        const other = bodies.allocate(100);
        const { usedBytes } = bodies;
        bodies.limit = { allows: false };
        assert.equal(write(body, new Uint8Array(PIECE_BYTES)), false);
        body.abandon();
        assert.equal(bodies.usedBytes, usedBytes - Math.ceil(pieces / 2) * BLOCK_BYTES);
        bodies.free(other);
        assert.equal(bodies.usedBytes, 0);
      });

    it("belongs to the shard after it was handed over", () => {
      const bodies = new BodyArena();
      const body = new StoredBody();
      assert.ok(body.begin(bodies, 2 * PIECE_BYTES));
      assert.ok(write(body, new Uint8Array(PIECE_BYTES).fill(1)));
      assert.ok(write(body, new Uint8Array(PIECE_BYTES).fill(2)));
      const { handle } = body;
      body.handOver();
      body.abandon();
      assert.deepEqual([body.active, bodies.usedBytes], [false, BLOCK_BYTES]);
      const read = new Uint8Array(2);
      bodies.read(handle, PIECE_BYTES - 1, read, 0, 2);
      assert.deepEqual([...read], [1, 2]);
      bodies.free(handle);
      assert.equal(bodies.usedBytes, 0);
    });
  });

describe("a body that begins", () => {
  for (const bytes of [0, 1, CELL_BYTES_MAX, CELL_BYTES_MAX + 1])
    it(`with ${bytes} bytes at the limit is given up at once`, () => {
      const bodies = new BodyArena();
      const other = bodies.allocate(bytes);
      const { usedBytes } = bodies;
      bodies.limit = { allows: false };
      const body = new StoredBody();
      assert.ok(body.begin(bodies, bytes), "its bytes are dropped as they arrive");
      assert.ok(body.failed);
      assert.equal(bodies.usedBytes, usedBytes);
      body.write(new Uint8Array(bytes), 0, bytes);
      assert.equal(body.findRoom(1, new BodyPlace()), false);
      body.abandon();
      assert.equal(bodies.usedBytes, usedBytes);
      bodies.limit = { allows: true };
      assert.ok(body.begin(bodies, bytes));
      assert.equal(body.failed, false, "the next one may have memory again");
      body.abandon();
      bodies.free(other);
      assert.equal(bodies.usedBytes, 0);
    });

  it("without memory for its cell is refused", () => {
    const bodies = new BodyArena(0);
    const body = new StoredBody();
    assert.equal(body.begin(bodies, CELL_BYTES_MAX), false);
    assert.deepEqual([body.active, bodies.usedBytes], [false, 0]);
    body.abandon();
    assert.equal(bodies.usedBytes, 0);
  });
});
