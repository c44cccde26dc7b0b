import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { BodyArena } from "../../../../src/engine/jobs/body-arena.ts";
import {
  Adoptions,
  DeferredMessages,
  JobParts,
  type ShardSession,
} from "../../../../src/shard/sessions/shard-session.ts";
import { checkProperty } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

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

// Tests of sessions that move between acceptors: Detach and Adopt arrive in different rings, in any
// order.

const [a, b] = [{ name: "a" }, { name: "b" }] as unknown as ShardSession[];

function adoptions(): { adoptions: Adoptions; placed: unknown[][] } {
  const placed: unknown[][] = [];
  return { adoptions: new Adoptions(3, (...place) => void placed.push(place)), placed };
}

describe("Adoptions", () => {
  it("give a displaced session another place at once", () => {
    const { adoptions: sessions, placed } = adoptions();
    sessions.detached(5, a!);
    assert.deepEqual(placed, []);
    sessions.adopt(5, 1, 40);
    assert.deepEqual(placed, [[a, 1, 40]]);
    assert.equal(sessions.isWaiting(1), false);
  });

  it("hold back only the ring of an Adopt that came first", () => {
    const { adoptions: sessions, placed } = adoptions();
    sessions.adopt(5, 1, 40);
    sessions.adopt(6, 2, 41);
    sessions.detached(7, a!);
    assert.deepEqual(
      [0, 1, 2].map((port) => sessions.isWaiting(port)),
      [false, true, true],
    );
    sessions.detached(6, b!);
    assert.deepEqual(placed, [[b, 2, 41]]);
    assert.deepEqual(
      [0, 1, 2].map((port) => sessions.isWaiting(port)),
      [false, true, false],
    );
    sessions.detached(5, a!);
    assert.deepEqual(placed[1], [a, 1, 40]);
    assert.equal(sessions.isWaiting(1), false);
  });

  it("adopt each session once", () => {
    const { adoptions: sessions, placed } = adoptions();
    sessions.detached(5, a!);
    sessions.adopt(5, 1, 40);
    sessions.adopt(5, 2, 41);
    assert.equal(placed.length, 1);
    assert.equal(sessions.isWaiting(2), true);
  });
});

// Tests of a batch's output: lines and bodies, read in pieces.

it("JobParts give the same bytes at once and in pieces of any size, also if bodies are freed meanwhile", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new SeededRandom(seed);
    const bodies = new BodyArena();
    const parts = new JobParts();
    parts.begin();
    let expected = "";
    const handles: number[] = [];
    const addLine = (text: string): void => {
      parts.line(Buffer.from(text));
      expected += text;
    };
    if (random.chance(0.5)) addLine("RESERVED_BATCH\r\n");
    for (let left = random.between(0, 5); left > 0; left--) {
      const text = "b".repeat(random.pick([0, 1, 5, 300, 70_000]));
      addLine(`RESERVED ${left} ${text.length}\r\n`);
      const handle = bodies.allocate(text.length);
      bodies.write(handle, 0, Buffer.from(text), 0, text.length);
      handles.push(handle);
      parts.body(handle, text.length);
      expected += `${text}\r\n`;
    }
    assert.equal(parts.bytes, expected.length);
    const whole = Buffer.alloc(parts.bytes + 2, "?");
    parts.copyTo(bodies, whole, 1);
    assert.equal(whole.toString("latin1"), `?${expected}?`, `seed ${seed}`);
    const cursor = parts.keep(bodies);
    for (const handle of handles) bodies.free(handle);
    parts.begin();
    parts.line(Buffer.from("another reply"));
    let text = "";
    while (cursor.leftBytes > 0) {
      const piece = Buffer.alloc(Math.min(cursor.leftBytes, random.pick([1, 2, 7, 1000, 32_768])));
      cursor.copy(piece, 0, piece.length);
      text += piece.toString("latin1");
    }
    assert.equal(text, expected, `seed ${seed}`);
    cursor.end();
  }
});
