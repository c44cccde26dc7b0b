// The ready and delayed jobs of a tube that have a TTL, the first to expire first.

import { assert, CHECKED } from "../../base/assert.ts";
import { type JobTable, PAGE_BITS, PAGE_MASK } from "../jobs/job-table.ts";
import { IndexedHeap } from "./indexed-heap.ts";

export class ExpiryHeap extends IndexedHeap {
  readonly #jobs: JobTable;

  constructor(jobs: JobTable) {
    super();
    this.#jobs = jobs;
  }

  /** When the first job expires, or Infinity. */
  get soonestMs(): number {
    const slot = this.top;
    return slot < 0 ? Number.POSITIVE_INFINITY : this.#expiresAtMs(slot);
  }

  #expiresAtMs(slot: number): number {
    const atMs = this.#jobs.pages[slot >>> PAGE_BITS]!.extras!.expiresAtMs[slot & PAGE_MASK]!;
    if (CHECKED) assert(atMs > 0, "a job among those that expire has a time");
    return atMs;
  }

  protected override less(a: number, b: number): boolean {
    const atA = this.#expiresAtMs(a);
    const atB = this.#expiresAtMs(b);
    if (atA !== atB) return atA < atB;
    const idA = this.#jobs.pages[a >>> PAGE_BITS]!.id[a & PAGE_MASK]!;
    return idA < this.#jobs.pages[b >>> PAGE_BITS]!.id[b & PAGE_MASK]!;
  }

  protected override positionOf(slot: number): number {
    return this.#jobs.pages[slot >>> PAGE_BITS]!.extras!.expiryPosition[slot & PAGE_MASK]!;
  }

  protected override place(slot: number, position: number): void {
    this.#jobs.pages[slot >>> PAGE_BITS]!.extras!.expiryPosition[slot & PAGE_MASK] = position;
  }
}
