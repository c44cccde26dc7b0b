// Tests of a batch's output: lines and bodies, read in pieces.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BodyArena } from "../../../../src/engine/jobs/body-arena.ts";
import { JobParts } from "../../../../src/shard/sessions/shard-session.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

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
