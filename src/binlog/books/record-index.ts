// Index of the locations of each live job in the log (its full record, latest update and body
// pieces) and of tube settings. It uses no object per job.

import { assert, CHECKED } from "../../base/assert.ts";
import type { BatchFacts } from "../../protocol/batch-facts.ts";
import { type PieceLocation, RecordBooks } from "../format/record-kinds.ts";
import { HEADER_BYTES } from "../format/segment-format.ts";
import { BatchIndex } from "./batch-index.ts";
import type { SegmentTable } from "./segment-table.ts";

/**
 * Small, so that a single job that survives many deleted ones costs 1.3 KB; pages of 1024 took 20.
 */
const PAGE_JOBS = 64;
/** Words of a job in its page: */
const FULL_SEGMENT = 0; // segment of the full record; 0: no such job
const FULL_OFFSET = 1;
const FULL_BYTES = 2; // includes the flags
const UPDATE_SEGMENT = 3; // segment of the latest update after the full record; 0: none
const UPDATE_OFFSET = 4;
const JOB_WORDS = 5;
/** Flag of a full record without a job: only the unique key is remembered. */
const REMEMBERED = 0x8000_0000;
/** Flag of a full record that is a schedule. */
const SCHEDULE = 0x4000_0000;

/** Returns the number of bytes of the frame. */
const bytesOf = (word: number): number => (word & ~(REMEMBERED | SCHEDULE)) >>> 0;
const isRemembered = (word: number): boolean => (word & REMEMBERED) !== 0;
const isSchedule = (word: number): boolean => (word & SCHEDULE) !== 0;

/** The locations of PAGE_JOBS consecutive ids. */
class Page {
  readonly number: number;
  live = 0;
  readonly words = new Uint32Array(PAGE_JOBS * JOB_WORDS);

  constructor(number: number) {
    this.number = number;
  }
}

/** Returns the index of a job's words in its page. */
const rowOf = (id: number): number => (id % PAGE_JOBS) * JOB_WORDS;

/** A job whose body is too big for one record. Such jobs are rare, so objects are good enough. */
interface BigJob {
  /** Number of body bytes missing in the full record; -1 until the full record is seen. */
  missingBytes: number;
  /** Pieces by offset in the body. */
  pieces: Map<number, PieceLocation>;
}

/** The location and the text of a pattern's latest SETTING. */
interface SettingLocation {
  text: string;
  segment: number;
  offset: number;
  framedBytes: number;
}

export class RecordIndex extends RecordBooks {
  readonly #segments: SegmentTable;
  /** Settings by pattern. */
  readonly settings = new Map<string, SettingLocation>();
  readonly batches: BatchIndex;
  readonly #pages = new Map<number, Page>();
  readonly big = new Map<number, BigJob>();
  #lastPage: Page | undefined;
  /** Number of jobs, without schedules and jobs whose unique key alone is remembered. */
  jobs = 0;
  /** Number of remembered unique keys of jobs that no longer exist. */
  remembered = 0;
  schedules = 0;
  /** The highest id in a full record, of a batch, or in the log's own records. */
  maxId = 0;

  constructor(segments: SegmentTable) {
    super();
    this.#segments = segments;
    this.batches = new BatchIndex(segments);
  }

  #page(id: number): Page | undefined {
    const number = Math.floor(id / PAGE_JOBS);
    if (CHECKED)
      assert(
        this.#lastPage === undefined || this.#pages.get(this.#lastPage.number) === this.#lastPage,
        "the current page is kept",
      );
    if (this.#lastPage?.number === number) return this.#lastPage;
    const page = this.#pages.get(number);
    if (page !== undefined) this.#turnTo(page);
    return page;
  }

  /**
   * An empty page is dropped when another page becomes current. A queue that empties after each job
   * therefore doesn't create a page per job.
   */
  #turnTo(page: Page): void {
    if (CHECKED) assert(this.#pages.get(page.number) === page, "the new current page is in the index");
    const last = this.#lastPage;
    if (last !== undefined && last.live === 0) this.#pages.delete(last.number);
    this.#lastPage = page;
  }

  #pageOrNew(id: number): Page {
    const page = this.#page(id);
    if (page !== undefined) return page;
    const fresh = new Page(Math.floor(id / PAGE_JOBS));
    if (CHECKED) assert(!this.#pages.has(fresh.number), "a page is made once");
    this.#pages.set(fresh.number, fresh);
    this.#turnTo(fresh);
    assert(fresh.live === 0, "a new page has no job");
    return fresh;
  }

  /** Books the full record of a job that no longer exists, but whose unique key is remembered. */
  override setRemembered(id: number, segment: number, offset: number, framedBytes: number): void {
    this.setFull(id, segment, offset, framedBytes, 0, REMEMBERED);
  }

  override setSchedule(id: number, segment: number, offset: number, framedBytes: number): void {
    this.setFull(id, segment, offset, framedBytes, 0, SCHEDULE);
  }

  /**
   * Books a full record: the job exists, whatever the index had before. With REMEMBERED, only its
   * key does; with SCHEDULE it is a schedule.
   */
  override setFull(
    id: number,
    segment: number,
    offset: number,
    framedBytes: number,
    missingBodyBytes: number,
    flag = 0,
  ): void {
    if (CHECKED) assert(segment > 0, "a full record lies in a segment");
    if (CHECKED) assert(framedBytes < SCHEDULE, "a length leaves room for its flag");
    const page = this.#pageOrNew(id);
    const row = rowOf(id);
    const before = page.words[row + FULL_SEGMENT]!;
    if (before === 0) {
      page.live++;
      assert(page.live <= PAGE_JOBS, "a page holds no more jobs than it has rows");
      if (id > this.maxId) this.maxId = id;
    } else this.#discount(before, page.words[row + FULL_BYTES]!);
    if (flag === 0) this.jobs++;
    else if (flag === SCHEDULE) this.schedules++;
    else this.remembered++;
    page.words[row + FULL_SEGMENT] = segment;
    page.words[row + FULL_OFFSET] = offset;
    page.words[row + FULL_BYTES] = framedBytes | flag;
    page.words[row + UPDATE_SEGMENT] = 0;
    this.#segments.addLive(segment, framedBytes);
    if (missingBodyBytes > 0) this.#bigJob(id).missingBytes = missingBodyBytes;
    // Only the key is remembered now: a full record without body replaces one in pieces. (During
    // recovery, the old record may be gone while its pieces remain.)
    else if (this.big.size > 0) this.#dropPieces(id);
  }

  /** Stops counting the full record of a job or a remembered key. */
  #discount(segment: number, bytes: number): void {
    assert(segment > 0, "a record that is replaced lies in a segment");
    this.#segments.addLive(segment, -bytesOf(bytes));
    if (isRemembered(bytes)) this.remembered--;
    else if (isSchedule(bytes)) this.schedules--;
    else this.jobs--;
    const least = Math.min(this.jobs, this.remembered, this.schedules);
    assert(least >= 0, "jobs, remembered keys and schedules are never negative");
  }

  #dropPieces(id: number): void {
    const big = this.big.get(id);
    if (big === undefined) return;
    for (const piece of big.pieces.values()) this.#segments.addLive(piece.segment, -piece.framedBytes);
    this.big.delete(id);
  }

  /** Books a SETTING; an empty text means that the pattern no longer has settings. */
  setSetting(pattern: string, text: string, segment: number, offset: number, framedBytes: number): void {
    const before = this.settings.get(pattern);
    if (before !== undefined) this.#segments.addLive(before.segment, -before.framedBytes);
    this.settings.delete(pattern);
    if (text === "") return;
    assert(offset >= HEADER_BYTES, "a SETTING lies after the header");
    assert(segment > 0 && framedBytes > 0, "a SETTING lies in a segment");
    this.settings.set(pattern, { text, segment, offset, framedBytes });
    this.#segments.addLive(segment, framedBytes);
  }

  /** Books the state of a batch. Its number is an id, which no start may give again. */
  setBatch(facts: BatchFacts, segment: number, offset: number, framedBytes: number): void {
    assert(facts.number > 0, "a batch has a number");
    if (facts.number > this.maxId) this.maxId = facts.number;
    this.batches.set(facts, segment, offset, framedBytes);
  }

  override settingIsAt(pattern: string, segment: number, offset: number): boolean {
    const setting = this.settings.get(pattern);
    return setting !== undefined && setting.segment === segment && setting.offset === offset;
  }

  override batchIsAt(number: number, segment: number, offset: number): boolean {
    return this.batches.isAt(number, segment, offset);
  }

  override tallyIsAt(number: number, shard: number, segment: number, offset: number): boolean {
    return this.batches.tallyIsAt(number, shard, segment, offset);
  }

  #bigJob(id: number): BigJob {
    let job = this.big.get(id);
    if (job === undefined) this.big.set(id, (job = { missingBytes: -1, pieces: new Map() }));
    return job;
  }

  /** Books a piece, new or copied to another place. */
  override setPiece(id: number, piece: PieceLocation): void {
    assert(piece.bodyBytes > 0, "a piece has a part of the body");
    assert(
      piece.segment > 0 && piece.framedBytes > piece.bodyBytes,
      "a PIECE lies in a segment, with its head",
    );
    const job = this.#bigJob(id);
    const before = job.pieces.get(piece.bodyOffset);
    if (before !== undefined) this.#segments.addLive(before.segment, -before.framedBytes);
    job.pieces.set(piece.bodyOffset, piece);
    this.#segments.addLive(piece.segment, piece.framedBytes);
  }

  /** Books an update; returns false if there is no such job. */
  override setUpdate(id: number, segment: number, offset: number): boolean {
    const page = this.#page(id);
    const row = rowOf(id);
    if (page === undefined || page.words[row + FULL_SEGMENT] === 0) return false;
    if (CHECKED) assert(segment > 0, "an update lies in a segment");
    page.words[row + UPDATE_SEGMENT] = segment;
    page.words[row + UPDATE_OFFSET] = offset;
    return true;
  }

  /** Removes a job for good; returns false if the index lacks it. */
  override remove(id: number): boolean {
    this.#dropPieces(id);
    const page = this.#page(id);
    const row = rowOf(id);
    if (page === undefined || page.words[row + FULL_SEGMENT] === 0) return false;
    this.#discount(page.words[row + FULL_SEGMENT]!, page.words[row + FULL_BYTES]!);
    page.words[row + FULL_SEGMENT] = 0;
    page.words[row + UPDATE_SEGMENT] = 0;
    // This page is current now; the next switch to another page drops it if it is empty.
    page.live--;
    assert(page.live >= 0, "the jobs of a page add up");
    return true;
  }

  /** Returns the segment of a job's full record (`file` in stats-job), or 0. */
  fullSegmentOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + FULL_SEGMENT] ?? 0;
  }

  override fullIsAt(id: number, segment: number, offset: number): boolean {
    const page = this.#page(id);
    const row = rowOf(id);
    return (
      page !== undefined &&
      page.words[row + FULL_SEGMENT] === segment &&
      page.words[row + FULL_OFFSET] === offset
    );
  }

  override pieceIsAt(id: number, bodyOffset: number, segment: number, offset: number): boolean {
    const piece = this.big.get(id)?.pieces.get(bodyOffset);
    return piece !== undefined && piece.segment === segment && piece.offset === offset;
  }

  /** Returns the segment of a job's latest update, or 0; updateOffsetOf returns its offset. */
  updateSegmentOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + UPDATE_SEGMENT] ?? 0;
  }

  updateOffsetOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + UPDATE_OFFSET] ?? 0;
  }

  /**
   * Returns the ids of jobs with incomplete bodies: unfinished puts, which were never acknowledged.
   */
  unfinished(): number[] {
    const ids: number[] = [];
    for (const [id, job] of this.big) {
      let have = 0;
      for (const piece of job.pieces.values()) have += piece.bodyBytes;
      if (have !== job.missingBytes) ids.push(id);
    }
    if (CHECKED)
      assert(
        this.#pages.values().reduce((sum, { live }) => sum + live, 0) ===
          this.jobs + this.remembered + this.schedules,
        "the pages have all jobs",
      );
    return ids;
  }
}
