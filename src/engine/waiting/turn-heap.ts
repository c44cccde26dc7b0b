// The tubes of one batch of a session that picks by weight, in the order of their turns.

import { assert } from "../../base/assert.ts";
import { betterJob, type JobTable } from "../jobs/job-table.ts";
import type { Tube } from "../tubes/tube.ts";
import type { Share } from "./tube-turns.ts";

export interface TubeInTurn {
  readonly tube: Tube;
  /** The share of the tube, or a copy that a list charges. */
  readonly share: Share;
  /** Place in the order: see `TubeTurns.placeOf`. */
  place: number;
  /** The tube's next job. */
  slot: number;
}

/** A binary heap; among tubes in the same place, the one with the better job comes first. */
export class TurnHeap<Entry extends TubeInTurn> {
  readonly #jobs: JobTable;
  readonly #entries: Entry[] = [];

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  get first(): Entry | undefined {
    return this.#entries[0];
  }

  /** Returns whether the first entry comes before a tube in this place with this job. */
  isBefore(place: number, slot: number): boolean {
    const { first } = this;
    if (first === undefined) return false;
    return first.place < place || (first.place === place && betterJob(this.#jobs, first.slot, slot));
  }

  push(entry: Entry): void {
    const entries = this.#entries;
    let position = entries.length;
    entries.push(entry);
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (!this.#goesBefore(entry, entries[parent]!)) break;
      entries[position] = entries[parent]!;
      position = parent;
    }
    entries[position] = entry;
  }

  removeFirst(): void {
    const last = this.#entries.pop();
    assert(last !== undefined, "only a member is removed");
    if (this.#entries.length > 0) this.#siftDown(last);
  }

  /** Updates the heap after the place or the job of the first entry has changed. */
  firstChanged(): void {
    assert(this.first !== undefined, "the entry that has changed is there");
    this.#siftDown(this.first);
  }

  /** Sifts an entry down from the top. */
  #siftDown(entry: Entry): void {
    const entries = this.#entries;
    let position = 0;
    for (let child = 1; child < entries.length; child = position * 2 + 1) {
      if (child + 1 < entries.length && this.#goesBefore(entries[child + 1]!, entries[child]!)) child++;
      if (!this.#goesBefore(entries[child]!, entry)) break;
      entries[position] = entries[child]!;
      position = child;
    }
    entries[position] = entry;
  }

  #goesBefore(a: Entry, b: Entry): boolean {
    return a.place < b.place || (a.place === b.place && betterJob(this.#jobs, a.slot, b.slot));
  }
}
