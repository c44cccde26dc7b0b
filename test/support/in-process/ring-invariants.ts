// Checks that every ring between threads holds whole messages between its two positions, and no
// more than its capacity.

import assert from "node:assert/strict";
import type { Topology } from "../../../src/message/topology.ts";
import { DATA_OFFSET, HEAD_WORD, TAIL_WORD } from "../../../src/ring/ring.ts";

/** Throws AssertionError at the first broken invariant. */
export function checkRings({ requests, responses, binlog }: Topology): void {
  for (const [acceptor, rings] of requests.entries())
    for (const [shard, ring] of rings.entries())
      checkRing(ring, `requests of acceptor ${acceptor} to shard ${shard}`);
  for (const [acceptor, rings] of responses.entries())
    for (const [shard, ring] of rings.entries())
      checkRing(ring, `answers of shard ${shard} to acceptor ${acceptor}`);
  for (const [shard, ring] of binlog?.rings.entries() ?? []) checkRing(ring, `records of shard ${shard}`);
}

function checkRing(ring: SharedArrayBuffer, name: string): void {
  const words = new Int32Array(ring);
  const capacity = ring.byteLength - DATA_OFFSET;
  const tail = words[TAIL_WORD]!;
  const head = words[HEAD_WORD]!;
  const used = (tail - head) | 0;
  assert.ok(used >= 0 && used <= capacity, `${name}: ${used} bytes are used of ${capacity}`);
  let at = head;
  while (((tail - at) | 0) > 0) {
    const offset = at & (capacity - 1);
    const length = words[(DATA_OFFSET + offset) >> 2]!;
    const bytes = Math.abs(length);
    assert.ok(length !== 0 && bytes % 8 === 0, `${name}: a message of ${length} bytes`);
    assert.ok(offset + bytes <= capacity, `${name}: a message does not wrap around the end`);
    at = (at + bytes) | 0;
  }
  assert.equal(at, tail, `${name}: messages end where they are published`);
}
