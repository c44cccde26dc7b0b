// Finds the beginning of each segment in the part of the shared log that a node skipped because its
// local log had it. Only a leader needs this: it purges below such a message, and looks the
// position up instead of computing it.

import { assert } from "../base/assert.ts";
import { type ChainPlace, logBatchesOf } from "../message/log-batch.ts";
import { follows, placeBefore, placeOf } from "./chain.ts";
import type { LogMessage } from "./shared-log.ts";

export class FirstMessages {
  /** For each segment, the first message that contains a valid batch of it. */
  readonly sequences = new Map<number, number>();
  #place: ChainPlace | undefined;
  #last = 0;

  /** Takes the messages of the log in order, from the first. */
  take({ sequence, bytes }: LogMessage): void {
    assert(sequence > this.#last, "the messages of the log are in order");
    this.#last = sequence;
    for (const { header } of logBatchesOf(bytes) ?? []) {
      this.#place ??= placeBefore(header);
      if (!follows(this.#place, header)) continue;
      this.#place = placeOf(header);
      if (!this.sequences.has(header.segment)) this.sequences.set(header.segment, sequence);
    }
  }
}
