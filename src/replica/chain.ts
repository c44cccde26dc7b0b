// Which batches of the shared log count: rule 1. Every reader comes to the same answer, whatever else stands there.

import { type BatchHeader, BatchKind, type ChainPlace } from "../message/batch.ts";

/** Where a chain begins. */
export const ORIGIN: ChainPlace = { epoch: 0, n: 0, tag: 0 };

/** Whether a batch is the successor of the one at `place`. Of two that are, the first in the log counts. */
export function follows(place: ChainPlace, { kind, n, previousTag, epoch }: BatchHeader): boolean {
  if (n !== place.n + 1 || previousTag !== place.tag) return false;
  return epoch === (kind === BatchKind.lead ? place.epoch + 1 : place.epoch);
}

export function placeOf({ epoch, n, tag }: ChainPlace): ChainPlace {
  return { epoch, n, tag };
}

/** What a batch says to follow: believed of the first message of the log alone, since a purge ends at a valid one. */
export function placeBefore({ kind, n, previousTag, epoch }: BatchHeader): ChainPlace {
  return { epoch: kind === BatchKind.lead ? epoch - 1 : epoch, n: n - 1, tag: previousTag };
}
