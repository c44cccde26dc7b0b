// What a shard says of the ids of a delete-batch, a byte for each, and how it hands a batch on of which it does not have all.

import { asciiBytes } from "../base/bytes.ts";

export const Deleted = {
  /** There is no such job here, or it may not be deleted. */
  No: 0,
  Yes: 1,
  /** It is not here, and may be on another shard. */
  Elsewhere: 2,
} as const;

/**
 * Behind the header of a Strayed: the shard's last record as uint32, the number of ids as another, the bytes, and the ids as they
 * were given, with blanks between them.
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
