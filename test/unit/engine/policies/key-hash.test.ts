// Test of the hash of unique keys: the vectors of HalfSipHash-1-3 in Linux (lib/test_siphash.c).

import assert from "node:assert/strict";
import { it } from "node:test";
import { hashOf } from "../../../../src/engine/policies/key-table.ts";

const VECTORS = [
  0x5814c896, 0xe7e864ca, 0xbc4b0e30, 0x01539939, 0x7e059ea6, 0x88e3d89b, 0xa0080b65, 0x9d38d9d6, 0x577999b1,
  0xc839caed, 0xe4fa32cf, 0x959246ee, 0x6b28096c, 0x66dd9cd6, 0x16658a7c, 0xd0257b04,
];

it("the hash of a key is HalfSipHash-1-3, wherever the key begins", () => {
  for (const start of [0, 3]) {
    const bytes = Uint8Array.from({ length: start + VECTORS.length + 1 }, (_, at) => at - start);
    const hashes = VECTORS.map((_, length) => hashOf(bytes, start, start + length, 0x03020100, 0x07060504));
    assert.deepEqual(hashes, VECTORS);
  }
});
