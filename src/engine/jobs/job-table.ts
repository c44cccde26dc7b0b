// All jobs of one shard as columns of typed arrays, in pages that are given back when they empty.
//
// There is no JavaScript object per job: a million of them would make the garbage collector the p99.9. A job
// is a slot, a small integer that names a page and a row in it (`pageOf`, `rowOf`). A page is one
// ArrayBuffer, because detaching an ArrayBuffer gives its memory back at once, without waiting for a garbage
// collection.

import { assert } from "../../base/assert.ts";
import { JobExtras } from "./job-extras.ts";

export const PAGE_BITS = 13;
export const PAGE_ROWS = 1 << PAGE_BITS;
export const PAGE_MASK = PAGE_ROWS - 1;

/** No slot: the end of a list, an empty heap, a job not found. */
export const NO_SLOT = -1;

/** The row of a slot in its page. */
export function rowOf(slot: number): number {
  return slot & PAGE_MASK;
}

/** Where a job is in its life. `Free` marks an unused row; a job that is Moving is on its way to another shard. */
export const JobState = { Free: 0, Ready: 1, Reserved: 2, Buried: 3, Delayed: 4, Moving: 5 } as const;
export type JobState = (typeof JobState)[keyof typeof JobState];

const ROW_BYTES = 8 * 3 + 4 * 16 + 1;

/** A block of extras that no page has, kept for the next that needs one: jobs that come and go don't allocate. */
class SpareExtras {
  /** Jobs in pages that have extras. */
  rows = 0;
  #block: JobExtras | undefined;

  /** For a page with so many jobs. Throws RangeError when memory is exhausted. */
  take(rows: number): JobExtras {
    const block = this.#block ?? new JobExtras(PAGE_ROWS);
    this.#block = undefined;
    this.rows += rows;
    return block;
  }

  /** All its rows are clear. */
  give(block: JobExtras): void {
    if (this.#block === undefined) this.#block = block;
    else block.discard();
  }
}

/** One page of columns; `rowOf(slot)` indexes each of them. */
export class JobPage {
  /** Job id. */
  readonly id: Float64Array;
  /** When the put line was read, ms of the monotonic clock; may be negative for a job from the log. */
  readonly createdAtMs: Float64Array;
  /**
   * When a delayed job becomes ready or a reservation ends; since when a ready job is ready, and a buried one buried.
   * Ms of the monotonic clock.
   */
  readonly deadlineAtMs: Float64Array;
  readonly pri: Uint32Array;
  /** Seconds, of the last put or release; only informational. */
  readonly delaySeconds: Uint32Array;
  readonly ttrSeconds: Uint32Array;
  readonly reserves: Uint32Array;
  readonly timeouts: Uint32Array;
  readonly releases: Uint32Array;
  readonly buries: Uint32Array;
  readonly kicks: Uint32Array;
  /** Index of the job's tube. */
  readonly tube: Int32Array;
  /** Index of the session that holds the job; meaningful while it is reserved. */
  readonly holder: Int32Array;
  /** Body in the arena. */
  readonly body: Uint32Array;
  readonly bodyBytes: Uint32Array;
  /** Position in the one heap that the job is in: ready, delayed, or its holder's. */
  readonly heapPosition: Int32Array;
  /**
   * Links of the tube's list of ready or of buried jobs, or of the holder's list of reserved ones. Of a job that is moving:
   * the number of its shipment, and the state that it had before.
   */
  readonly next: Int32Array;
  readonly previous: Int32Array;
  /** Number of the log file with the job's full record; 0 without a log. */
  readonly file: Uint32Array;
  readonly state: Uint8Array;
  /** `state`, four rows in a word: 0 where all of them are free, which JobState.Free is. */
  readonly fourStates: Int32Array;
  /** What few jobs have: made with the first of the page, given back with the page. */
  extras: JobExtras | undefined = undefined;
  readonly #buffer: ArrayBuffer;
  readonly #spareExtras: SpareExtras;
  /** Rows in use. */
  live = 0;
  /** First free row (linked through `next`), or NO_SLOT. */
  freeRow = 0;

  constructor(spareExtras: SpareExtras) {
    const buffer = new ArrayBuffer(PAGE_ROWS * ROW_BYTES);
    let offset = 0;
    const float64 = (): Float64Array => {
      const column = new Float64Array(buffer, offset, PAGE_ROWS);
      offset += PAGE_ROWS * 8;
      return column;
    };
    const uint32 = (): Uint32Array => {
      const column = new Uint32Array(buffer, offset, PAGE_ROWS);
      offset += PAGE_ROWS * 4;
      return column;
    };
    const int32 = (): Int32Array => {
      const column = new Int32Array(buffer, offset, PAGE_ROWS);
      offset += PAGE_ROWS * 4;
      return column;
    };
    this.id = float64();
    this.createdAtMs = float64();
    this.deadlineAtMs = float64();
    this.pri = uint32();
    this.delaySeconds = uint32();
    this.ttrSeconds = uint32();
    this.reserves = uint32();
    this.timeouts = uint32();
    this.releases = uint32();
    this.buries = uint32();
    this.kicks = uint32();
    this.tube = int32();
    this.holder = int32();
    this.body = uint32();
    this.bodyBytes = uint32();
    this.heapPosition = int32();
    this.next = int32();
    this.previous = int32();
    this.file = uint32();
    this.state = new Uint8Array(buffer, offset, PAGE_ROWS);
    this.fourStates = new Int32Array(buffer, offset, PAGE_ROWS / 4);
    for (let row = 0; row < PAGE_ROWS; row++) this.next[row] = row + 1 < PAGE_ROWS ? row + 1 : NO_SLOT;
    this.#buffer = buffer;
    this.#spareExtras = spareExtras;
  }

  /** The columns of what few jobs have; throws RangeError when memory for them is exhausted. */
  makeExtras(): JobExtras {
    return (this.extras ??= this.#spareExtras.take(this.live));
  }

  /** No job of the page is left. */
  giveExtras(): void {
    if (this.extras !== undefined) this.#spareExtras.give(this.extras);
    this.extras = undefined;
  }

  /** Gives the memory back of a page without a job; it must not be used again. */
  discard(): void {
    this.#buffer.transfer(0);
  }
}

/**
 * The pages. Rows are taken from the lowest page with room, so that high pages empty and can be given back.
 */
export class JobTable {
  /** By number; undefined where a page was given back. */
  readonly pages: (JobPage | undefined)[] = [];
  /** Jobs in the table. */
  live = 0;
  /** Groups that tubes remember. */
  groups = 0;
  /** Memory of the pages. */
  reservedBytes = 0;
  /** No page below this one has a free row. */
  #firstRoomy = 0;
  /** Pages without a job; one is kept, so that a queue that comes and goes doesn't allocate. */
  #emptyPages = 0;
  readonly #spareExtras = new SpareExtras();

  /** Jobs in pages where some have extras: each of them has room for extras. */
  get extraRows(): number {
    return this.#spareExtras.rows;
  }

  /**
   * The page of a job's slot. (An assert here costs a put, reserve, delete a tenth; without a page its
   * columns throw.)
   */
  pageOf(slot: number): JobPage {
    return this.pages[slot >>> PAGE_BITS]!;
  }

  /**
   * A free slot, its columns undefined but for `state` = Free. Throws RangeError when memory is exhausted.
   */
  allocate(): number {
    let page = this.pages[this.#firstRoomy];
    if (page === undefined || page.freeRow === NO_SLOT) page = this.#findRoom();
    const row = page.freeRow;
    page.freeRow = page.next[row]!;
    if (page.live++ === 0) this.#emptyPages--;
    if (page.extras !== undefined) this.#spareExtras.rows++;
    this.live++;
    return (this.#firstRoomy << PAGE_BITS) | row;
  }

  /** The lowest page with a free row; a new one if there is none. */
  #findRoom(): JobPage {
    let number = this.#firstRoomy;
    let page = this.pages[number];
    while (page !== undefined && page.freeRow === NO_SLOT) page = this.pages[++number];
    if (page === undefined) {
      page = new JobPage(this.#spareExtras);
      this.pages[number] = page;
      this.reservedBytes += PAGE_ROWS * ROW_BYTES;
      this.#emptyPages++;
    }
    this.#firstRoomy = number;
    return page;
  }

  /** Returns a slot whose state is Free already. */
  free(slot: number): void {
    const number = slot >>> PAGE_BITS;
    const page = this.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Free, "a job is freed once, when it has left its state");
    page.next[row] = page.freeRow;
    page.freeRow = row;
    this.live--;
    if (page.extras !== undefined) this.#spareExtras.rows--;
    if (number < this.#firstRoomy) this.#firstRoomy = number;
    if (--page.live === 0) this.#emptied(page, number);
  }

  #emptied(page: JobPage, number: number): void {
    page.giveExtras();
    if (++this.#emptyPages <= 1) return;
    this.#emptyPages--;
    page.discard();
    this.reservedBytes -= PAGE_ROWS * ROW_BYTES;
    this.pages[number] = undefined;
  }

  /** Calls `visit` for each job. */
  forEach(visit: (slot: number) => void): void {
    for (let number = 0; number < this.pages.length; number++) {
      const page = this.pages[number];
      if (page === undefined || page.live === 0) continue;
      for (let row = 0; row < PAGE_ROWS; row++) {
        // Most pages of most tables are nearly empty.
        while ((row & 3) === 0 && page.fourStates[row >>> 2] === 0) row += 4;
        if (row < PAGE_ROWS && page.state[row] !== JobState.Free) visit((number << PAGE_BITS) | row);
      }
    }
  }
}

/**
 * Whether job `a` goes before job `b`: the smaller pri, then the smaller id; either may be NO_SLOT, which
 * goes last.
 */
export function betterJob(jobs: JobTable, a: number, b: number): boolean {
  if (a === NO_SLOT) return false;
  if (b === NO_SLOT) return true;
  const pageA = jobs.pageOf(a);
  const pageB = jobs.pageOf(b);
  const priA = pageA.pri[rowOf(a)]!;
  const priB = pageB.pri[rowOf(b)]!;
  return priA < priB || (priA === priB && pageA.id[rowOf(a)]! < pageB.id[rowOf(b)]!);
}
