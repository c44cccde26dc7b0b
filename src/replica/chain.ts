// Validity rule for batches of the shared log (rule 1). Every reader reaches the same result,
// whatever else the log contains.

import { assert } from "../base/assert.ts";
import { type ChainPlace, type LogBatchHeader, LogBatchKind } from "../message/log-batch.ts";

/** The place before the first batch of a chain. */
export const ORIGIN: ChainPlace = { epoch: 0, n: 0, tag: 0 };

/** The node number of the LEAD with which an operator dissolves a group; it ends all leads. */
export const DETACHED = 0xffff_ffff;

/** Returns a unique tag: a random safe integer above 0. */
export function newTag(random: () => number): number {
  const tag = 1 + Math.floor(random() * (Number.MAX_SAFE_INTEGER - 1));
  assert(tag > 0 && tag <= Number.MAX_SAFE_INTEGER, "a tag is a safe integer above 0");
  return tag;
}

/** Returns whether a batch succeeds the one at `place`. If two do, the first in the log counts. */
export function follows(place: ChainPlace, { kind, n, previousTag, epoch }: LogBatchHeader): boolean {
  if (n !== place.n + 1 || previousTag !== place.tag) return false;
  return epoch === (kind === LogBatchKind.lead ? place.epoch + 1 : place.epoch);
}

export function placeOf({ epoch, n, tag }: ChainPlace): ChainPlace {
  return { epoch, n, tag };
}

/**
 * Returns the place that a batch claims to follow. Readers trust this only for the log's first
 * message, because a purge ends at a valid one.
 */
export function placeBefore({ kind, n, previousTag, epoch }: LogBatchHeader): ChainPlace {
  return { epoch: kind === LogBatchKind.lead ? epoch - 1 : epoch, n: n - 1, tag: previousTag };
}
