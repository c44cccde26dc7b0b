// The tubes of one batch of a session that picks by weight, in the order of their turns.

import { assert, CHECKED } from "../../base/assert.ts";
import { betterJob, type JobTable } from "../jobs/job-table.ts";
import { BestHeap } from "../queues/best-heap.ts";
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

/** Among tubes in the same place, the one with the better job comes first. */
export class TurnHeap<Entry extends TubeInTurn> extends BestHeap<Entry> {
  readonly #jobs: JobTable;

  constructor(jobs: JobTable) {
    super((a, b) => isBefore(jobs, a, b.place, b.slot));
    this.#jobs = jobs;
  }

  /** Returns whether the first entry comes before a tube in this place with this job. */
  isBefore(place: number, slot: number): boolean {
    return this.first !== undefined && isBefore(this.#jobs, this.first, place, slot);
  }
}

function isBefore(jobs: JobTable, a: TubeInTurn, place: number, slot: number): boolean {
  if (CHECKED) assert(!Number.isNaN(a.place + place), "a tube has a place in the order");
  return a.place < place || (a.place === place && betterJob(jobs, a.slot, slot));
}
