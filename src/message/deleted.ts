// A shard's results for a delete-batch, one byte for each id, and how it redirects a batch whose
// jobs are not all on it.

import { asciiBytes } from "../base/bytes.ts";

export const Deleted = {
  /** There is no such job here, or it may not be deleted. */
  No: 0,
  Yes: 1,
  /** It is not here and may be on another shard. */
  Elsewhere: 2,
} as const;

/**
 * Packs the part of a Redirected message after its header: the shard's last record as uint32, the
 * number of results as uint32, the results, and the ids as the client sent them, separated by
 * spaces.
 */
export function packDeleted(results: Uint8Array, ids: string, recordNumber: number): Uint8Array {
  const packed = new Uint8Array(DELETED_HEADER_BYTES + results.length + ids.length);
  const view = new DataView(packed.buffer);
  view.setUint32(0, recordNumber, true);
  view.setUint32(4, results.length, true);
  packed.set(results, DELETED_HEADER_BYTES);
  packed.set(asciiBytes(ids), DELETED_HEADER_BYTES + results.length);
  return packed;
}

export const DELETED_HEADER_BYTES = 8;
