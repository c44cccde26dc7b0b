// Tests of bodies in very many pieces: complete, and in few buffers.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BodyPieces } from "../../../../src/http/app/request-bodies.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const PIECES = 20_000;

it("pieces of any lengths form the whole body, and never stay many", (t) => {
  printSeed(t);
  const random = new SeededRandom(seed);
  for (const lengths of [[1], [1, 1024], [1023], [1, 5000], [0, 1, 700, 3000]]) {
    const pieces = new BodyPieces();
    const all: Buffer[] = [];
    for (let piece = 0; piece < PIECES; piece++) {
      const bytes = Buffer.alloc(random.pick(lengths)!, piece);
      all.push(bytes);
      pieces.add(bytes);
    }
    const whole = Buffer.concat(all);
    assert.equal(pieces.length, whole.length);
    assert.ok(Buffer.concat(pieces.all()).equals(whole), `${lengths}`);
    const most = 10 + (2 * whole.length) / 1024;
    assert.ok(pieces.all().length <= most, `${lengths}: ${pieces.all().length} pieces, ${most} are enough`);
  }
});
