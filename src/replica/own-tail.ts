// Brings the end of the own log to the shared one, which does not have it: it was never sent, or the log servers have lost it.

import { BATCH_BYTES_MAX, batchesOf } from "../message/batch.ts";
import type { SharedLog } from "./shared-log.ts";

/**
 * Appends the batches behind message `expectedLast`, in their order. Rejects with a LogError: another node was first, or nobody
 * knows. What is appended twice is ignored by all readers.
 */
export async function appendTail(
  log: Pick<SharedLog, "append">,
  batches: readonly Uint8Array[],
  expectedLast: number,
): Promise<void> {
  let last = expectedLast;
  for (const message of joined(batches)) last = await log.append(message, last);
}

/** Batches of one segment, as many as a message takes. */
export function* joined(batches: readonly Uint8Array[]): Generator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  let segment = 0;
  for (const batch of batches) {
    const { header } = batchesOf(batch)![0]!;
    if (parts.length > 0 && (header.segment !== segment || bytes + batch.length > BATCH_BYTES_MAX)) {
      yield Buffer.concat(parts);
      parts = [];
      bytes = 0;
    }
    segment = header.segment;
    parts.push(batch);
    bytes += batch.length;
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}
