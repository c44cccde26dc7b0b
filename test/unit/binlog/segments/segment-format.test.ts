// Tests of the bytes of the log's own records.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import { encodeOwn, OWN_RECORD_BYTES, OwnKind } from "../../../../src/binlog/segments/segment-format.ts";

it("an END, MARK or DROP sets each of its bytes, whatever was there, and no other", () => {
  for (const kind of [OwnKind.end, OwnKind.mark, OwnKind.drop])
    for (const hasNext of [false, true]) {
      const memory = Memory.ofSize(8 + OWN_RECORD_BYTES + 8);
      memory.bytes.fill(0xee);
      encodeOwn(memory, 8, { kind, hasNext, oldest: 0x0102_0304, maxId: 5 });
      assert.deepEqual(
        [...memory.bytes],
        [
          ...new Array(8).fill(0xee),
          ...[kind, hasNext ? 1 : 0, 0, 0, 4, 3, 2, 1],
          ...[0, 0, 0, 0, 0, 0, 0x14, 0x40],
          ...new Array(8).fill(0xee),
        ],
      );
    }
});
