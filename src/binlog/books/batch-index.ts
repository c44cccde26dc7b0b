// The locations of the records of batches: for each batch its state, and until it is complete, the
// tally of each shard.

import { assert } from "../../base/assert.ts";
import type { LoggedBatch, Tally } from "../../message/flow-record.ts";
import { type BatchFacts, BatchState } from "../../protocol/batch-facts.ts";
import type { SegmentTable } from "./segment-table.ts";

interface Place {
  segment: number;
  offset: number;
  framedBytes: number;
}

interface TallyPlace extends Place {
  done: number;
  failed: number;
}

interface Entry extends Place {
  /** Undefined while only tallies are known: recovery may meet a copy of the state after them. */
  facts: BatchFacts | undefined;
  /** Tallies by shard. */
  readonly tallies: (TallyPlace | undefined)[];
}

export class BatchIndex {
  readonly #segments: SegmentTable;
  /** Batches by number. */
  readonly #entries = new Map<number, Entry>();
  #isRead = false;

  constructor(segments: SegmentTable) {
    this.#segments = segments;
  }

  /** Number of batches that aren't forgotten. */
  get count(): number {
    return this.#entries.size;
  }

  /** Books the state of a batch. */
  set(facts: BatchFacts, segment: number, offset: number, framedBytes: number): void {
    assert(segment > 0 && framedBytes > 0, "the record of a batch lies in a segment");
    const entry = this.#entry(facts.number);
    if (entry.framedBytes > 0) this.#segments.addLive(entry.segment, -entry.framedBytes);
    if (facts.state === BatchState.Forgotten || facts.state === BatchState.Complete) this.#dropTallies(entry);
    if (facts.state === BatchState.Forgotten) {
      this.#entries.delete(facts.number);
      return;
    }
    entry.facts = facts;
    entry.segment = segment;
    entry.offset = offset;
    entry.framedBytes = framedBytes;
    this.#segments.addLive(segment, framedBytes);
  }

  #entry(number: number): Entry {
    const found = this.#entries.get(number);
    if (found !== undefined) return found;
    const entry = { facts: undefined, tallies: [], segment: 0, offset: 0, framedBytes: 0 };
    this.#entries.set(number, entry);
    return entry;
  }

  #dropTallies({ tallies }: Entry): void {
    for (const tally of tallies)
      if (tally !== undefined) this.#segments.addLive(tally.segment, -tally.framedBytes);
    tallies.length = 0;
  }

  /** Books how many members of a batch have ended on a shard. */
  setTally(tally: Tally, segment: number, offset: number, framedBytes: number): void {
    assert(segment > 0 && framedBytes > 0, "a tally lies in a segment");
    if (this.#isRead && !this.#entries.has(tally.number)) return;
    const entry = this.#entry(tally.number);
    if (entry.facts?.state === BatchState.Complete) return;
    const { done, failed } = tally;
    const before = entry.tallies[tally.shard];
    if (before === undefined) entry.tallies[tally.shard] = { segment, offset, framedBytes, done, failed };
    else {
      assert(before.framedBytes === framedBytes, "all tallies have the same size");
      this.#segments.addLive(before.segment, -before.framedBytes);
      before.segment = segment;
      before.offset = offset;
      before.done = done;
      before.failed = failed;
    }
    this.#segments.addLive(segment, framedBytes);
  }

  /**
   * Drops the tallies of batches that the log has forgotten, after recovery. From here on, a tally
   * makes no batch known: a shard may write a tally after its batch has ended.
   */
  endRecovery(): void {
    this.#isRead = true;
    for (const [number, entry] of this.#entries) {
      if (entry.facts !== undefined) continue;
      this.#dropTallies(entry);
      this.#entries.delete(number);
    }
  }

  isAt(number: number, segment: number, offset: number): boolean {
    const entry = this.#entries.get(number);
    return entry !== undefined && entry.segment === segment && entry.offset === offset;
  }

  tallyIsAt(number: number, shard: number, segment: number, offset: number): boolean {
    const tally = this.#entries.get(number)?.tallies[shard];
    return tally !== undefined && tally.segment === segment && tally.offset === offset;
  }

  /** Returns all batches in the order of their opening. */
  list(): LoggedBatch[] {
    const found: LoggedBatch[] = [];
    for (const [number, { facts, tallies }] of this.#entries) {
      assert(facts !== undefined, "a batch of the log has a state");
      const all = tallies.flatMap((tally, shard) =>
        tally === undefined ? [] : [{ number, shard, done: tally.done, failed: tally.failed }],
      );
      found.push({ facts, tallies: all });
    }
    return found.sort((a, b) => a.facts.number - b.facts.number);
  }
}
