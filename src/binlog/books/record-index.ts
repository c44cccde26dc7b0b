// Where each live job lies in the log: its full record, its latest update, the pieces of its body; and where
// settings of tubes do. No object per job.

import { PIECE_HEADER_BYTES, RecordKind } from "../../message/record.ts";
import { EXTRA_REMEMBERED, FRAME_BYTES } from "../format/segment-format.ts";
import type { SegmentTable } from "./segment-table.ts";

/**
 * Few, so that a single job that stays among many deleted ones costs little: 1.3 KB, where pages of 1024 took
 * 20.
 */
const PAGE_JOBS = 64;
/** Words of a job in its page: */
const FULL_SEGMENT = 0; // the segment of the full record; 0: no such job
const FULL_OFFSET = 1;
const FULL_BYTES = 2; // and REMEMBERED
const UPDATE_SEGMENT = 3; // the segment of the latest update after the full record; 0: none
const UPDATE_OFFSET = 4;
const JOB_WORDS = 5;
/** Of a full record that is no job any more: only its unique key is remembered. */
const REMEMBERED = 0x8000_0000;

/** Bytes of the frame. */
const bytesOf = (word: number): number => (word & ~REMEMBERED) >>> 0;
const isRemembered = (word: number): boolean => (word & REMEMBERED) !== 0;

/** The locations of as many consecutive ids. */
class Page {
  readonly number: number;
  live = 0;
  readonly words = new Uint32Array(PAGE_JOBS * JOB_WORDS);

  constructor(number: number) {
    this.number = number;
  }
}

/** Where a job's words begin in its page. */
const rowOf = (id: number): number => (id % PAGE_JOBS) * JOB_WORDS;

export interface PieceLocation {
  bodyOffset: number;
  bodyBytes: number;
  segment: number;
  offset: number;
  framedBytes: number;
}

/** A body too big for one record. Rare, so objects are good enough. */
export interface BigJob {
  /** Body bytes that are missing in the full record; -1 while that has not been seen. */
  missingBytes: number;
  /** By offset in the body. */
  pieces: Map<number, PieceLocation>;
}

/** Where the latest SETTING of a pattern is, and what it says. */
export interface SettingLocation {
  text: string;
  segment: number;
  offset: number;
  framedBytes: number;
}

export class RecordIndex {
  readonly #segments: SegmentTable;
  /** By pattern. */
  readonly settings = new Map<string, SettingLocation>();
  readonly #pages = new Map<number, Page>();
  readonly big = new Map<number, BigJob>();
  #lastPage: Page | undefined;
  /** Without those of which only the unique key is remembered. */
  jobs = 0;
  /** Unique keys of jobs that are gone. */
  remembered = 0;
  /** The highest id seen in a full record or told by the log. */
  maxId = 0;

  constructor(segments: SegmentTable) {
    this.#segments = segments;
  }

  #page(id: number): Page | undefined {
    const number = Math.floor(id / PAGE_JOBS);
    if (this.#lastPage?.number === number) return this.#lastPage;
    const page = this.#pages.get(number);
    if (page !== undefined) this.#turnTo(page);
    return page;
  }

  /**
   * A page is dropped once it is empty and not the last in use: a queue that empties with each job makes no
   * page for each.
   */
  #turnTo(page: Page): void {
    const last = this.#lastPage;
    if (last !== undefined && last.live === 0) this.#pages.delete(last.number);
    this.#lastPage = page;
  }

  #pageOrNew(id: number): Page {
    const page = this.#page(id);
    if (page !== undefined) return page;
    const fresh = new Page(Math.floor(id / PAGE_JOBS));
    this.#pages.set(fresh.number, fresh);
    this.#turnTo(fresh);
    return fresh;
  }

  /**
   * Books a record of a job: in a log in use when it is written, at a start when it is read, so that both
   * have the same books. `extra` is its recordExtra.
   */
  book(kind: number, id: number, segment: number, offset: number, framedBytes: number, extra: number): void {
    switch (kind) {
      case RecordKind.put:
        if (extra === EXTRA_REMEMBERED) this.setFull(id, segment, offset, framedBytes, 0, REMEMBERED);
        else this.setFull(id, segment, offset, framedBytes, extra);
        break;
      case RecordKind.update:
        this.setUpdate(id, segment, offset);
        break;
      case RecordKind.delete:
        this.remove(id);
        break;
      default: {
        const bodyBytes = framedBytes - FRAME_BYTES - PIECE_HEADER_BYTES;
        this.setPiece(id, { bodyOffset: extra, bodyBytes, segment, offset, framedBytes });
      }
    }
  }

  /** A full record was written: the job is there, whatever was known of it before; or with REMEMBERED its key is. */
  setFull(
    id: number,
    segment: number,
    offset: number,
    framedBytes: number,
    missingBodyBytes: number,
    flag = 0,
  ): void {
    const page = this.#pageOrNew(id);
    const row = rowOf(id);
    const before = page.words[row + FULL_SEGMENT]!;
    if (before === 0) {
      page.live++;
      if (id > this.maxId) this.maxId = id;
    } else this.#discount(before, page.words[row + FULL_BYTES]!);
    if (flag === 0) this.jobs++;
    else this.remembered++;
    page.words[row + FULL_SEGMENT] = segment;
    page.words[row + FULL_OFFSET] = offset;
    page.words[row + FULL_BYTES] = framedBytes | flag;
    page.words[row + UPDATE_SEGMENT] = 0;
    this.#segments.addLive(segment, framedBytes);
    if (missingBodyBytes > 0) this.#bigJob(id).missingBytes = missingBodyBytes;
    // Only its key is remembered any more: a full record without a body takes the place of one in pieces. (At a
    // start that one may be gone already, and pieces of it still there.)
    else if (this.big.size > 0) this.#dropPieces(id);
  }

  /** The full record of a job, or of a key, counts no more. */
  #discount(segment: number, bytes: number): void {
    this.#segments.addLive(segment, -bytesOf(bytes));
    if (isRemembered(bytes)) this.remembered--;
    else this.jobs--;
  }

  #dropPieces(id: number): void {
    const big = this.big.get(id);
    if (big === undefined) return;
    for (const piece of big.pieces.values()) this.#segments.addLive(piece.segment, -piece.framedBytes);
    this.big.delete(id);
  }

  /** A SETTING was written; an empty text says that the pattern has no settings any more. */
  setSetting(pattern: string, text: string, segment: number, offset: number, framedBytes: number): void {
    const before = this.settings.get(pattern);
    if (before !== undefined) this.#segments.addLive(before.segment, -before.framedBytes);
    this.settings.delete(pattern);
    if (text === "") return;
    this.settings.set(pattern, { text, segment, offset, framedBytes });
    this.#segments.addLive(segment, framedBytes);
  }

  settingIsAt(pattern: string, segment: number, offset: number): boolean {
    const setting = this.settings.get(pattern);
    return setting !== undefined && setting.segment === segment && setting.offset === offset;
  }

  #bigJob(id: number): BigJob {
    let job = this.big.get(id);
    if (job === undefined) this.big.set(id, (job = { missingBytes: -1, pieces: new Map() }));
    return job;
  }

  /** A piece was written, or written again elsewhere. */
  setPiece(id: number, piece: PieceLocation): void {
    const job = this.#bigJob(id);
    const before = job.pieces.get(piece.bodyOffset);
    if (before !== undefined) this.#segments.addLive(before.segment, -before.framedBytes);
    job.pieces.set(piece.bodyOffset, piece);
    this.#segments.addLive(piece.segment, piece.framedBytes);
  }

  /** An update was written; false if there is no such job. */
  setUpdate(id: number, segment: number, offset: number): boolean {
    const page = this.#page(id);
    const row = rowOf(id);
    if (page === undefined || page.words[row + FULL_SEGMENT] === 0) return false;
    page.words[row + UPDATE_SEGMENT] = segment;
    page.words[row + UPDATE_OFFSET] = offset;
    return true;
  }

  /** The job is gone for good; false if it was not known. */
  remove(id: number): boolean {
    this.#dropPieces(id);
    const page = this.#page(id);
    const row = rowOf(id);
    if (page === undefined || page.words[row + FULL_SEGMENT] === 0) return false;
    this.#discount(page.words[row + FULL_SEGMENT]!, page.words[row + FULL_BYTES]!);
    page.words[row + FULL_SEGMENT] = 0;
    page.words[row + UPDATE_SEGMENT] = 0;
    // By now it is the last in use: the next one that is drops it if it is empty.
    page.live--;
    return true;
  }

  /** The segment of a job's full record (what stats-job shows as `file`), or 0. */
  fullSegmentOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + FULL_SEGMENT] ?? 0;
  }

  fullIsAt(id: number, segment: number, offset: number): boolean {
    const page = this.#page(id);
    const row = rowOf(id);
    return (
      page !== undefined &&
      page.words[row + FULL_SEGMENT] === segment &&
      page.words[row + FULL_OFFSET] === offset
    );
  }

  pieceIsAt(id: number, bodyOffset: number, segment: number, offset: number): boolean {
    const piece = this.big.get(id)?.pieces.get(bodyOffset);
    return piece !== undefined && piece.segment === segment && piece.offset === offset;
  }

  /** The segment of the latest update of a job, or 0; the offset there by updateOffsetOf. */
  updateSegmentOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + UPDATE_SEGMENT] ?? 0;
  }

  updateOffsetOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + UPDATE_OFFSET] ?? 0;
  }

  /** Ids of jobs whose body never became whole: puts that were not finished, so never acknowledged. */
  unfinished(): number[] {
    const ids: number[] = [];
    for (const [id, job] of this.big) {
      let have = 0;
      for (const piece of job.pieces.values()) have += piece.bodyBytes;
      if (have !== job.missingBytes) ids.push(id);
    }
    return ids;
  }
}
