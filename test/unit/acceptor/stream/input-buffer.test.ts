import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { InputBuffer } from "../../../../src/acceptor/stream/line-reader.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const step = fc.oneof(
  fc.record({ append: fc.uint8Array({ maxLength: 700 }), skip: fc.nat(5) }),
  fc.record({ use: fc.nat(900) }),
);

it("InputBuffer holds unread bytes, and no memory when it is empty", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const buffer = new InputBuffer();
      let held: number[] = [];
      for (const each of steps) {
        if ("append" in each) {
          const from = Math.min(each.skip, each.append.length);
          buffer.append(each.append, from, each.append.length);
          held.push(...each.append.subarray(from));
          // The bytes are valid during the call only.
          each.append.fill(0);
        } else {
          const used = Math.min(each.use, held.length);
          buffer.consumeTo(buffer.start + used);
          held = held.slice(used);
          if (held.length === 0) assert.equal(buffer.bytes.length, 0);
        }
        assert.equal(buffer.length, held.length);
        assert.deepEqual([...buffer.bytes.subarray(buffer.start, buffer.end)], held);
      }
      buffer.clear();
      assert.deepEqual([buffer.length, buffer.bytes.length], [0, 0]);
    }),
    100,
  );
});
