// Appends the end of the local log to the shared log, which lacks it because it was never sent or
// the log servers lost it.

import { assert } from "../base/assert.ts";
import { LOG_BATCH_BYTES_MAX, logBatchesOf } from "../message/log-batch.ts";
import type { SharedLog } from "./shared-log.ts";

/**
 * Appends the batches in order after message `expectedLast`. Rejects with a LogError if another
 * node was first or the outcome is unknown. Readers ignore duplicates.
 */
export async function appendTail(
  log: Pick<SharedLog, "append">,
  batches: readonly Uint8Array[],
  expectedLast: number,
): Promise<void> {
  let last = expectedLast;
  for (const message of joined(batches)) last = await log.append(message, last);
}

/** Yields messages that join batches of one segment, each as large as a message may be. */
export function* joined(batches: readonly Uint8Array[]): Generator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  let segment = 0;
  for (const batch of batches) {
    const { header } = logBatchesOf(batch)![0]!;
    if (parts.length > 0 && (header.segment !== segment || bytes + batch.length > LOG_BATCH_BYTES_MAX)) {
      yield Buffer.concat(parts);
      parts = [];
      bytes = 0;
    }
    segment = header.segment;
    parts.push(batch);
    bytes += batch.length;
    assert(parts.length === 1 || bytes <= LOG_BATCH_BYTES_MAX, "joined batches fit into a message");
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}
