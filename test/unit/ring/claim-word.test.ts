import assert from "node:assert/strict";
import { it } from "node:test";
import { ClaimWords } from "../../../src/ring/connection-words.ts";

const words = (): ClaimWords => new ClaimWords(new SharedArrayBuffer(16));

it("ClaimWords lets exactly one end a wait", () => {
  const claims = words();
  assert.equal(claims.length, 4);
  claims.open(2, 7);
  assert.equal(claims.isOpen(2, 7), true);
  assert.equal(claims.claim(2, 7), true);
  assert.equal(claims.claim(2, 7), false);
  assert.equal(claims.isOpen(2, 7), false);
});

it("ClaimWords refuses the number of an earlier wait and keeps the present one open", () => {
  const claims = words();
  claims.open(0, 1);
  claims.claim(0, 1);
  claims.open(0, 2);
  assert.equal(claims.claim(0, 1), false);
  assert.equal(claims.isOpen(0, 1), false);
  assert.equal(claims.isOpen(0, 2), true);
});

it("ClaimWords keeps slots apart", () => {
  const claims = words();
  claims.open(1, 5);
  assert.equal(claims.claim(0, 5), false);
  assert.equal(claims.claim(2, 5), false);
  assert.equal(claims.claim(1, 5), true);
});
