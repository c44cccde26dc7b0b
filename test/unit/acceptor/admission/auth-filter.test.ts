// Tests of the ids that a limited token may name, read from the replies to its client, however
// these are split and whatever bodies contain.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ReservedIds } from "../../../../src/acceptor/admission/auth-filter.ts";

const FORGED = "x\r\nRESERVED 5 3\r\nabc\r\n";
const LENGTH = FORGED.length;

/** Observes the replies in pieces of `size` bytes. */
function observed(replies: string, size: number): ReservedIds {
  const ids = new ReservedIds();
  const bytes = Buffer.from(replies, "latin1");
  for (let at = 0; at < bytes.length; at += size) {
    const piece = bytes.subarray(at, at + size);
    ids.observe(piece, piece.length);
  }
  return ids;
}

describe("ReservedIds", () => {
  for (const size of [1, 2, 3, 7, 1000]) {
    describe(`in pieces of ${size} bytes`, () => {
      it("knows each job that was reserved, alone and in a batch", () => {
        const ids = observed(
          "USING a\r\nRESERVED 12 1\r\nx\r\nRESERVED_BATCH 2\r\nRESERVED 7 0 mail-1\r\n\r\nRESERVED 8 2 mail-2\r\nab\r\n",
          size,
        );
        assert.deepEqual(
          [12, 7, 8, 1, 2, 0].map((id) => ids.has(id)),
          [true, true, true, false, false, false],
        );
      });

      for (const [name, head] of [
        ["a peeked job", `FOUND 9 ${LENGTH}`],
        ["a reserved job", `RESERVED 9 ${LENGTH}`],
        ["a reserved job with its tube", `RESERVED 9 ${LENGTH} mail-1`],
        ["a report", `OK ${LENGTH}`],
      ] as const) {
        it(`ignores the body of ${name}`, () => {
          const ids = observed(`${head}\r\n${FORGED}\r\nRESERVED 11 1\r\nz\r\n`, size);
          assert.equal(ids.has(5), false, "the body names it");
          assert.equal(ids.has(11), true, "the reply behind the body is read");
          assert.equal(ids.has(9), head.startsWith("RESERVED"));
        });
      }

      it("ignores other replies", () => {
        const ids = observed(
          "INSERTED 5\r\nKICKED 5\r\nWATCHING 5\r\nDELETED_BATCH 5\r\nFOUND 5 0\r\n\r\n",
          size,
        );
        assert.equal(ids.has(5), false);
      });
    });
  }

  it("forgets an id, and beyond 100,000 the oldest one", () => {
    const ids = observed("RESERVED 1 0\r\n\r\nRESERVED 2 0\r\n\r\n", 1000);
    ids.forget(1);
    assert.deepEqual([ids.has(1), ids.has(2)], [false, true]);
    for (let id = 10; id < 10 + 99_999; id++) {
      const reply = Buffer.from(`RESERVED ${id} 0\r\n\r\n`);
      ids.observe(reply, reply.length);
    }
    assert.deepEqual([ids.has(2), ids.has(10)], [true, true]);
    // Job 2 is given once more, and job 10 is then the one given longest ago.
    for (const id of [2, 3]) {
      const reply = Buffer.from(`RESERVED ${id} 0\r\n\r\n`);
      ids.observe(reply, reply.length);
    }
    assert.deepEqual(
      [2, 10, 11, 3].map((id) => ids.has(id)),
      [true, false, true, true],
    );
  });
});
