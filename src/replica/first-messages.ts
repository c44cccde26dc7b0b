// Where each segment begins in the part of the shared log that a node did not read, because its own log had all of it. Only a node that
// leads wants to know: it purges below such a place, which is looked up, never computed.

import { batchesOf, type ChainPlace } from "../message/batch.ts";
import { follows, placeBefore, placeOf } from "./chain.ts";
import type { LogMessage } from "./shared-log.ts";

export class FirstMessages {
  /** For each segment the first message with a valid batch of it. */
  readonly sequences = new Map<number, number>();
  #place: ChainPlace | undefined;

  /** Takes the first message of the log, then the next, and so on. */
  take({ sequence, bytes }: LogMessage): void {
    for (const { header } of batchesOf(bytes) ?? []) {
      this.#place ??= placeBefore(header);
      if (!follows(this.#place, header)) continue;
      this.#place = placeOf(header);
      if (!this.sequences.has(header.segment)) this.sequences.set(header.segment, sequence);
    }
  }
}
