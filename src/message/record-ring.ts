// The size of a shard's ring to the log.

import { assert } from "../base/assert.ts";
import { messageBytesMax } from "../ring/ring-layout.ts";
import { APPEND_HEADER_BYTES } from "./append.ts";
import { UPDATE_BYTES_MAX } from "./record.ts";

const RECORD_RING_BYTES_MIN = 32 * 1024;
const RECORD_RING_BYTES_MAX = 1024 * 1024;

/**
 * Returns the smallest segment size. Smaller segments would reserve less than the smallest rings of
 * this many shards can hold.
 */
export function segmentBytesMin(shards: number): number {
  return 4 * RECORD_RING_BYTES_MIN * shards;
}

/**
 * Returns the size of each shard's ring to the log. Together the rings hold at most a quarter of a
 * segment, which is what may still arrive after the log has reported that it is full. The log makes
 * its segments large enough for that (segmentBytesMin).
 */
export function recordRingBytes(shards: number, segmentBytes: number): number {
  let bytes = RECORD_RING_BYTES_MAX;
  while (bytes > RECORD_RING_BYTES_MIN && bytes * shards > segmentBytes / 4) bytes /= 2;
  assert(
    messageBytesMax(bytes) >= APPEND_HEADER_BYTES + UPDATE_BYTES_MAX,
    "the longest record without a body fits into a message",
  );
  return bytes;
}
