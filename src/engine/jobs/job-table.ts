// All jobs of one shard as columns of typed arrays, in pages that are released when they empty.
//
// There is no JavaScript object per job: with a million of them, the garbage collector would
// determine the p99.9. A slot, a small integer, identifies a job by its page and its row in it
// (`pageOf`, `rowOf`). A page is one ArrayBuffer, because detaching it returns its memory at once,
// without garbage collection.

import { assert, CHECKED } from "../../base/assert.ts";
import { FIXED_COUNTERS, type JobCounter, RARE_COUNTERS } from "../../schema/job.ts";
import { EMPTY_BODY } from "./body-arena.ts";

// The columns of jobs that belong to batches or wait for them. The first such job of a page creates
// a block for the whole page; other pages pay nothing.

export class JobFlows {
  /** Number of the batch of which the job is a member, or was one when it died; 0 for none. */
  readonly batch: Float64Array;
  /** Number of the batch that the job waits for; 0 for none. */
  readonly after: Float64Array;
  /** FlowFlags. */
  readonly flags: Uint8Array;

  /** Throws RangeError when memory is exhausted. */
  constructor(rows: number) {
    const buffer = new ArrayBuffer(rows * 17);
    this.batch = new Float64Array(buffer, 0, rows);
    this.after = new Float64Array(buffer, rows * 8, rows);
    this.flags = new Uint8Array(buffer, rows * 16, rows);
  }

  clear(row: number): void {
    this.batch[row] = 0;
    this.after[row] = 0;
    this.flags[row] = 0;
  }
}

export const FlowFlag = {
  /** The member has died: it counts as failed, whatever becomes of it. */
  Ended: 1,
  /** The job waits for the end of its batch, whatever the outcome. */
  Any: 2,
  /** Its batch was cancelled while a worker had the member, so no sweep removes it. */
  Spared: 4,
} as const;

// Properties that few jobs have: attributes, a TTL, a unique key, a death. The first such job of a
// page creates a block of columns for the whole page; other pages pay nothing.

const EXTRAS_ROW_BYTES = 8 + 4 * 6 + 2 * 2 + 1 + 1;

export class JobExtras {
  /** Expiry time in monotonic ms; 0 for never. */
  readonly expiresAtMs: Float64Array;
  /**
   * The immutable attributes, except times, in the log's form, in the body arena; or EMPTY_BODY.
   */
  readonly attributes: Uint32Array;
  /** The tube in which the job died, in the same arena; or EMPTY_BODY. */
  readonly origin: Uint32Array;
  /** Number of reservations that do not count as attempts. */
  readonly attemptsBase: Uint32Array;
  /** Position in the tube's heap of expiring jobs, or -1. */
  readonly expiryPosition: Int32Array;
  /** Row of the unique key; -1 if the job has none or has lost it. */
  readonly keyRow: Int32Array;
  /** Number of the job's group in its tube; 0 for none. */
  readonly groupRow: Int32Array;
  readonly attributeBytes: Uint16Array;
  /** What the job costs beyond 1. */
  readonly extraCost: Uint16Array;
  readonly originBytes: Uint8Array;
  /** A DeathReason in the low three bits, and flags. */
  readonly flags: Uint8Array;
  /** Columns for batches; created for the first job that needs them (JobTable.makeFlows). */
  flows: JobFlows | undefined = undefined;
  /** Handles of the jobs' notes (policies/job-notes.ts); created for the first (makeNotes). */
  notes: Uint32Array | undefined = undefined;
  readonly #buffer: ArrayBuffer;

  /** Throws RangeError when memory is exhausted. */
  constructor(rows: number) {
    const buffer = new ArrayBuffer(rows * EXTRAS_ROW_BYTES);
    let offset = 0;
    const next = (bytes: number): number => {
      offset += rows * bytes;
      return offset - rows * bytes;
    };
    this.expiresAtMs = new Float64Array(buffer, next(8), rows);
    this.attributes = new Uint32Array(buffer, next(4), rows).fill(EMPTY_BODY);
    this.origin = new Uint32Array(buffer, next(4), rows).fill(EMPTY_BODY);
    this.attemptsBase = new Uint32Array(buffer, next(4), rows);
    this.expiryPosition = new Int32Array(buffer, next(4), rows).fill(-1);
    this.keyRow = new Int32Array(buffer, next(4), rows).fill(-1);
    this.groupRow = new Int32Array(buffer, next(4), rows);
    this.attributeBytes = new Uint16Array(buffer, next(2), rows);
    this.extraCost = new Uint16Array(buffer, next(2), rows);
    this.originBytes = new Uint8Array(buffer, next(1), rows);
    this.flags = new Uint8Array(buffer, next(1), rows);
    this.#buffer = buffer;
  }

  /** Returns whether the job, ready or delayed, is due to expire. */
  isOver(row: number, nowMs: number): boolean {
    assert(this.expiryPosition[row]! < 0 || this.expiresAtMs[row]! > 0, "a job that expires has a time");
    return this.expiryPosition[row]! >= 0 && this.expiresAtMs[row]! <= nowMs;
  }

  /** Returns whether the job has died and was not revived. */
  isDead(row: number): boolean {
    return (this.flags[row]! & ExtraFlag.Reason) !== 0;
  }

  /** Returns whether the job was cancelled while a session held it. */
  isCancelled(row: number): boolean {
    return (this.flags[row]! & ExtraFlag.Cancelled) !== 0;
  }

  /** Returns whether no policy applies to the row. The job may have been moved. */
  isPlain(row: number): boolean {
    return (
      this.expiresAtMs[row] === 0 &&
      this.attributes[row] === EMPTY_BODY &&
      this.attemptsBase[row] === 0 &&
      (this.flags[row]! & ~ExtraFlag.Moved) === 0
    );
  }

  /** Clears the row, whose cells and key the caller has already released. */
  clear(row: number): void {
    assert(this.expiryPosition[row] === -1, "a removed job is not among those that expire");
    assert(this.keyRow[row] === -1, "a removed job has no key");
    assert(this.groupRow[row] === 0, "a removed job has left its group");
    this.expiresAtMs[row] = 0;
    this.attributes[row] = EMPTY_BODY;
    this.origin[row] = EMPTY_BODY;
    this.attemptsBase[row] = 0;
    this.expiryPosition[row] = -1;
    this.keyRow[row] = -1;
    this.groupRow[row] = 0;
    this.attributeBytes[row] = 0;
    this.extraCost[row] = 0;
    this.originBytes[row] = 0;
    this.flags[row] = 0;
  }

  /** Returns the memory; the block must not be used again. */
  discard(): void {
    this.#buffer.transfer(0);
  }
}

/** Bits of `flags`, besides the reason. */
export const ExtraFlag = {
  Reason: 0x07,
  /** The job was cancelled while a session held it. */
  Cancelled: 0x08,
  /** The job may not be in the tube that its PUT in the log names. */
  Moved: 0x10,
  /** The key ends with the first reservation. */
  UntilReserve: 0x20,
  /** The job is dead, and has to go to the dead-letter tube of its tube. */
  Leaving: 0x40,
  /** The job was put with a unique key, whether it still has it or not. */
  Keyed: 0x80,
} as const;

export const PAGE_BITS = 13;
export const PAGE_ROWS = 1 << PAGE_BITS;
export const PAGE_MASK = PAGE_ROWS - 1;

/** No slot: the end of a list, an empty heap, a job not found. */
export const NO_SLOT = -1;

/** Returns the row of a slot in its page. */
export function rowOf(slot: number): number {
  return slot & PAGE_MASK;
}

/** The state of a job. `Free` marks an unused row; a Moving job is in transit to another shard. */
export const JobState = { Free: 0, Ready: 1, Reserved: 2, Buried: 3, Delayed: 4, Moving: 5 } as const;
export type JobState = (typeof JobState)[keyof typeof JobState];

const ROW_BYTES = 8 * 3 + 4 * (11 + FIXED_COUNTERS) + 1;

/**
 * Keeps one unused block of extras for the next page that needs one, so that jobs that come and go
 * don't allocate.
 */
class SpareExtras {
  /** Number of jobs in pages that have extras. */
  rows = 0;
  /** Number of these pages whose block has columns of batches; a spare block keeps them. */
  flowPages = 0;
  /** The same for notes. */
  notePages = 0;
  #block: JobExtras | undefined;

  /** Returns a block for a page with this many jobs. Throws RangeError when memory is exhausted. */
  take(rows: number): JobExtras {
    const block = this.#block ?? new JobExtras(PAGE_ROWS);
    this.#block = undefined;
    this.rows += rows;
    if (block.flows !== undefined) this.flowPages++;
    if (block.notes !== undefined) this.notePages++;
    return block;
  }

  /** Takes back a block whose rows are all clear. */
  give(block: JobExtras): void {
    if (CHECKED)
      assert(
        block.flags.every((flags) => flags === 0),
        "the rows of a spare block are clear",
      );
    if (block.flows !== undefined) this.flowPages--;
    if (block.notes !== undefined) this.notePages--;
    assert(this.flowPages >= 0 && this.notePages >= 0 && this.rows >= 0, "the blocks in use are counted");
    if (this.#block === undefined) this.#block = block;
    else block.discard();
  }
}

/** A page of columns, indexed by `rowOf(slot)`. */
export class JobPage {
  /** Job id. */
  readonly id: Float64Array;
  /** When the put was read, monotonic ms; may be negative for a job from the log. */
  readonly createdAtMs: Float64Array;
  /**
   * For a delayed job, when it becomes ready; for a reserved one, when the reservation ends; for a
   * ready or buried one, when it became so. Monotonic ms.
   */
  readonly deadlineAtMs: Float64Array;
  readonly pri: Uint32Array;
  /** Delay of the last put or release in seconds; for information only. */
  readonly delaySeconds: Uint32Array;
  readonly ttrSeconds: Uint32Array;
  /** The fixed counters of each job, one job after the other (schema/job.ts). */
  readonly counters: Uint32Array;
  /** Index of the job's tube. */
  readonly tube: Int32Array;
  /** Index of the session that holds the job; valid while it is reserved. */
  readonly holder: Int32Array;
  /** Handle of the body in the arena. */
  readonly body: Uint32Array;
  readonly bodyBytes: Uint32Array;
  /** Position in the one heap that contains the job: ready, delayed, or its holder's. */
  readonly heapPosition: Int32Array;
  /**
   * Links of the tube's list of ready or buried jobs, or of the holder's list of reserved ones. For
   * a moving job: the number of its transfer, and its previous state.
   */
  readonly next: Int32Array;
  readonly previous: Int32Array;
  /** Number of the log file with the job's full record; 0 without a log. */
  readonly file: Uint32Array;
  readonly state: Uint8Array;
  /** `state`, four rows per word: 0, four times JobState.Free, if all four are free. */
  readonly fourStates: Int32Array;
  /**
   * Properties that few jobs have; created for the first such job, and released with the page's
   * last job.
   */
  extras: JobExtras | undefined = undefined;
  /** Handles of the jobs' failures, or EMPTY_BODY; created for the first job that has failed. */
  failures: Uint32Array | undefined = undefined;
  /** The rare counters of each job; created with `failures`. */
  rareCounters: Uint32Array | undefined = undefined;
  /** When each job's last reservation began, ms, or -1; created for a tube that keeps ends. */
  startedAtMs: Float64Array | undefined = undefined;
  readonly #buffer: ArrayBuffer;
  readonly #spareExtras: SpareExtras;
  /** Number of rows in use. */
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
    const uint32 = (perRow = 1): Uint32Array => {
      const column = new Uint32Array(buffer, offset, perRow * PAGE_ROWS);
      offset += perRow * PAGE_ROWS * 4;
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
    this.counters = uint32(FIXED_COUNTERS);
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

  count(row: number, counter: JobCounter): number {
    if (counter < FIXED_COUNTERS) return this.counters[row * FIXED_COUNTERS + counter]!;
    return this.rareCounters?.[row * RARE_COUNTERS + counter - FIXED_COUNTERS] ?? 0;
  }

  /** Adds to a fixed counter of the job in a row. */
  addTo(row: number, counter: JobCounter, change: 1 | -1 = 1): void {
    if (CHECKED) assert(counter < FIXED_COUNTERS, "a rare counter may need memory");
    const at = row * FIXED_COUNTERS + counter;
    this.counters[at] = this.counters[at]! + change;
  }

  /** Sets all fixed counters of the job in a row, or clears them. */
  setCounters(row: number, from?: Uint32Array): void {
    const at = row * FIXED_COUNTERS;
    for (let k = 0; k < FIXED_COUNTERS; k++) this.counters[at + k] = from === undefined ? 0 : from[k]!;
  }

  /**
   * Returns the page's extras, created if necessary. Throws RangeError when memory is exhausted.
   */
  makeExtras(): JobExtras {
    return (this.extras ??= this.#spareExtras.take(this.live));
  }

  /** Releases the extras of a page without jobs. */
  giveExtras(): void {
    assert(this.live === 0, "only a page without jobs releases its extras");
    if (this.extras !== undefined) this.#spareExtras.give(this.extras);
    this.extras = undefined;
  }

  /** Returns the memory of a page without jobs; the page must not be used again. */
  discard(): void {
    assert(this.live === 0, "a page with jobs stays");
    this.#buffer.transfer(0);
  }
}

/**
 * The pages. Allocation uses the lowest page with room, so that high pages empty and can be
 * released.
 */
export class JobTable {
  /** Pages by number; undefined for released ones. */
  readonly pages: (JobPage | undefined)[] = [];
  /** Number of jobs in the table. */
  live = 0;
  /** Number of groups that tubes remember, and of buckets that they have. */
  groups = 0;
  buckets = 0;
  /** Memory of the pages, in bytes. */
  reservedBytes = 0;
  /** No page below this number has a free row. */
  #firstRoomy = 0;
  /**
   * Number of pages without jobs; one is kept, so that a queue that fills and empties doesn't
   * allocate.
   */
  #emptyPages = 0;
  /** Number of pages with columns for failures. */
  failurePages = 0;
  /** Number of pages with a column of starts. */
  startPages = 0;
  /** Counts the extras, too. */
  readonly spareExtras: SpareExtras = new SpareExtras();

  /**
   * Returns the page of a job's slot. (An assert here would slow put, reserve and delete by a
   * tenth; without a page, access to its columns throws.)
   */
  pageOf(slot: number): JobPage {
    return this.pages[slot >>> PAGE_BITS]!;
  }

  /** Returns what a job takes of limits and shares, 1 or more; 1 for NO_SLOT. */
  costOf(slot: number): number {
    if (slot === NO_SLOT) return 1;
    return 1 + (this.pageOf(slot).extras?.extraCost[rowOf(slot)] ?? 0);
  }

  /**
   * Returns a free slot, whose columns are undefined except `state`, which is Free. Throws
   * RangeError when memory is exhausted.
   */
  allocate(): number {
    let page = this.pages[this.#firstRoomy];
    if (page === undefined || page.freeRow === NO_SLOT) page = this.#findRoom();
    const row = page.freeRow;
    if (CHECKED) assert(page.state[row] === JobState.Free, "a free row has no job");
    page.freeRow = page.next[row]!;
    if (page.live++ === 0) this.#emptyPages--;
    if (page.extras !== undefined) this.spareExtras.rows++;
    this.live++;
    return (this.#firstRoomy << PAGE_BITS) | row;
  }

  /** Returns the lowest page with a free row, or a new one. */
  #findRoom(): JobPage {
    let number = this.#firstRoomy;
    let page = this.pages[number];
    while (page !== undefined && page.freeRow === NO_SLOT) page = this.pages[++number];
    if (page === undefined) {
      page = new JobPage(this.spareExtras);
      this.pages[number] = page;
      this.reservedBytes += PAGE_ROWS * ROW_BYTES;
      this.#emptyPages++;
    }
    assert(page.freeRow !== NO_SLOT && page.live < PAGE_ROWS, "a page with room has a free row");
    this.#firstRoomy = number;
    return page;
  }

  /** Frees a slot whose state is already Free. */
  free(slot: number): void {
    const number = slot >>> PAGE_BITS;
    const page = this.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Free, "a job is freed once, when it has left its state");
    page.next[row] = page.freeRow;
    page.freeRow = row;
    this.live--;
    if (page.extras !== undefined) this.spareExtras.rows--;
    if (number < this.#firstRoomy) this.#firstRoomy = number;
    if (--page.live === 0) this.#emptied(page, number);
  }

  #emptied(page: JobPage, number: number): void {
    assert(this.#emptyPages >= 0, "empty pages are counted");
    page.giveExtras();
    if (page.failures !== undefined) this.failurePages--;
    page.failures = undefined;
    page.rareCounters = undefined;
    if (page.startedAtMs !== undefined) this.startPages--;
    page.startedAtMs = undefined;
    if (++this.#emptyPages <= 1) return;
    this.#emptyPages--;
    page.discard();
    this.reservedBytes -= PAGE_ROWS * ROW_BYTES;
    this.pages[number] = undefined;
  }

  /**
   * Returns the page's column of failures, created if necessary, with the rare counters.
   * Throws RangeError when memory is exhausted.
   */
  makeFailures(page: JobPage): Uint32Array {
    if (page.failures !== undefined) return page.failures;
    assert(page.live > 0, "only a page with jobs has failures");
    const rareCounters = new Uint32Array(RARE_COUNTERS * PAGE_ROWS);
    page.failures = new Uint32Array(PAGE_ROWS).fill(EMPTY_BODY);
    page.rareCounters = rareCounters;
    this.failurePages++;
    return page.failures;
  }

  /** Does the same for the column of starts. */
  makeStarts(page: JobPage): Float64Array {
    if (page.startedAtMs !== undefined) return page.startedAtMs;
    assert(page.live > 0, "only a page with jobs has starts");
    page.startedAtMs = new Float64Array(PAGE_ROWS).fill(-1);
    this.startPages++;
    return page.startedAtMs;
  }

  /**
   * Returns the page's columns of batches, created if necessary. Throws RangeError when memory is
   * exhausted.
   */
  makeFlows(page: JobPage): JobFlows {
    const extras = page.makeExtras();
    if (extras.flows !== undefined) return extras.flows;
    assert(page.live > 0, "only a page with jobs has batches");
    extras.flows = new JobFlows(PAGE_ROWS);
    this.spareExtras.flowPages++;
    return extras.flows;
  }

  /** Does the same for the column of notes. */
  makeNotes(page: JobPage): Uint32Array {
    const extras = page.makeExtras();
    if (extras.notes !== undefined) return extras.notes;
    assert(page.live > 0, "only a page with jobs has notes");
    extras.notes = new Uint32Array(PAGE_ROWS).fill(EMPTY_BODY);
    this.spareExtras.notePages++;
    return extras.notes;
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
 * Returns whether job `a` goes before job `b`: the smaller pri, then the smaller id. Either may be
 * NO_SLOT, which goes last.
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
