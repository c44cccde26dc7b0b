import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { DeferredMessages } from "../../../../src/shard/sessions/shard-session.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

/**
 * A message as a ring holds it, at an offset that is a multiple of 8: its length, then bytes of
 * `value`.
 */
function message(offset: number, words: number, value: number): DeferredMessages["bytes"] {
  const bytes = new Uint8Array(offset + words * 8).fill(value, offset);
  new Int32Array(bytes.buffer)[offset >> 2] = words * 8;
  return bytes;
}

function sourceOf(bytes: Uint8Array): Parameters<DeferredMessages["push"]>[0] {
  const { buffer } = bytes;
  return {
    bytes,
    int32: new Int32Array(buffer),
    uint32: new Uint32Array(buffer),
    float64: new Float64Array(buffer),
  };
}

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ words: fc.integer({ min: 1, max: 60 }), offset: fc.constantFrom(0, 8, 4000) }),
  },
  { weight: 2, arbitrary: fc.constant("shift" as const) },
);

it("DeferredMessages returns messages in order, with every view", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const deferred = new DeferredMessages();
      const expected: { words: number; value: number }[] = [];
      let value = 0;
      for (const each of steps) {
        if (each !== "shift") {
          value = (value % 255) + 1;
          const bytes = message(each.offset, each.words, value);
          deferred.push(sourceOf(bytes), each.offset);
          bytes.fill(0);
          expected.push({ words: each.words, value });
        } else if (expected.length > 0) {
          const first = expected.shift()!;
          const offset = deferred.shift();
          assert.equal(offset % 8, 0);
          assert.equal(deferred.int32[offset >> 2], first.words * 8);
          const body = deferred.bytes.subarray(offset + 4, offset + first.words * 8);
          assert.ok(body.every((byte) => byte === first.value));
          assert.equal(deferred.uint32[(offset >> 2) + 1]! & 0xff, first.value);
          assert.ok(deferred.float64.length >= (offset >> 3) + first.words);
        }
        assert.equal(deferred.isEmpty, expected.length === 0);
      }
    }),
  );
});
