// The log's books: its segments, and where the records of batches, jobs and settings lie.

import { assert, CHECKED } from "../../base/assert.ts";
import { latin1, type Memory } from "../../base/bytes.ts";
import { decodeTally, type LoggedBatch, type Tally } from "../../message/flow-record.ts";
import {
  FullRecordOf,
  PIECE_HEADER_BYTES,
  patternBytesOf,
  RECORD_ID_AT,
  RecordKind,
  SETTING_HEADER_BYTES,
} from "../../message/record.ts";
import { type BatchFacts, BatchState } from "../../schema/batch.ts";
import type { Handle } from "../disk/disk.ts";
import { EXTRA_REMEMBERED, EXTRA_SCHEDULE, FRAME_BYTES, HEADER_BYTES } from "./segment-format.ts";

// The existing segments, oldest first: their sizes, live bytes and open files.

export interface Segment {
  readonly number: number;
  readonly salt: number;
  readonly createdAtMs: number;
  /** The file's length. For the segment being written, also the end of its durable zeros. */
  fileBytes: number;
  /** The position of the next record. */
  usedBytes: number;
  /** Bytes of frames that a rewrite would copy from this segment. */
  liveBytes: number;
  /** Whether the segment has its END: nothing more is appended, and only compaction reads it. */
  sealed: boolean;
  handle: Handle | undefined;
}

export class SegmentTable {
  #segments: Segment[] = [];
  /** Bytes that a rewrite of all live jobs needs. */
  liveBytes = 0;
  /** Bytes and number of the sealed segments. */
  sealedBytes = 0;
  sealedCount = 0;

  get all(): readonly Segment[] {
    return this.#segments;
  }

  get oldest(): Segment | undefined {
    return this.#segments[0];
  }

  /** Numbers are consecutive, so the distance from the oldest gives the index. */
  get(number: number): Segment | undefined {
    const first = this.#segments[0];
    const found = first === undefined ? undefined : this.#segments[number - first.number];
    if (CHECKED) assert(found === undefined || found.number === number, "segments lie by their numbers");
    return found;
  }

  add(segment: Segment): void {
    const last = this.#segments.at(-1);
    assert(last === undefined || segment.number === last.number + 1, "segments have no gaps");
    assert(segment.number > 0, "segments are counted from 1");
    assert(segment.usedBytes <= segment.fileBytes, "the records of a segment end inside its file");
    this.#segments.push(segment);
  }

  removeOldest(): Segment {
    const segment = this.#segments.shift();
    assert(segment?.liveBytes === 0, "nothing in a removed segment is live");
    if (segment.sealed) {
      this.sealedBytes -= segment.fileBytes;
      this.sealedCount--;
      assert(this.sealedBytes >= 0 && this.sealedCount >= 0, "sealed segments add up");
    }
    if (CHECKED)
      assert(
        this.#segments.reduce((sum, { liveBytes }) => sum + liveBytes, 0) === this.liveBytes,
        "live bytes add up",
      );
    return segment;
  }

  addLive(number: number, bytes: number): void {
    const segments = this.#segments;
    const segment = segments.length === 0 ? undefined : segments[number - segments[0]!.number];
    assert(segment?.number === number, "live bytes lie in a segment of the log");
    segment.liveBytes += bytes;
    assert(segment.liveBytes >= 0, "the live bytes of a segment are never negative");
    this.liveBytes += bytes;
    assert(this.liveBytes >= 0, "the live bytes of the log are never negative");
  }

  fileBytes(): number {
    // The segments that are not sealed come last.
    let sum = this.sealedBytes;
    for (let at = this.#segments.length - 1; at >= 0 && !this.#segments[at]!.sealed; at--)
      sum += this.#segments[at]!.fileBytes;
    return sum;
  }

  /** Marks the segment as complete. */
  seal(segment: Segment): void {
    assert(!segment.sealed, "a segment is sealed once");
    assert(segment.handle === undefined, "a sealed segment is closed");
    assert(segment.fileBytes === segment.usedBytes, "a sealed segment ends with its last record");
    assert(this.#segments[this.sealedCount] === segment, "segments are sealed in order");
    segment.sealed = true;
    this.sealedBytes += segment.fileBytes;
    this.sealedCount++;
  }
}

// The locations of the records of batches: for each batch its state, and until it is complete, the
// tally of each shard.

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

  /** Yields what is kept in a segment. */
  *keptIn(segment: number): Generator<Kept> {
    for (const { facts, tallies, ...place } of this.#entries.values()) {
      if (facts !== undefined && place.segment === segment) yield { kind: "batch", facts };
      for (const [shard, tally] of tallies.entries())
        if (tally?.segment === segment)
          yield {
            kind: "tally",
            tally: { number: facts!.number, shard, done: tally.done, failed: tally.failed },
          };
    }
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

/** A live record, as the index knows it. */
export type Kept =
  /** `from` and `bytes` are those of JobPart in ring/shared-words.ts. */
  | { kind: "job"; id: number; from: number; bytes: number; offset: number; framedBytes: number }
  | { kind: "setting"; pattern: string; text: string }
  | { kind: "batch"; facts: BatchFacts }
  | { kind: "tally"; tally: Tally };

// Index of the locations of each live job in the log (its full record, latest update and body
// pieces) and of tube settings. It uses no object per job.

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

const bytesOf = (word: number): number => (word & ~(REMEMBERED | SCHEDULE)) >>> 0;
const isRemembered = (word: number): boolean => (word & REMEMBERED) !== 0;
const isSchedule = (word: number): boolean => (word & SCHEDULE) !== 0;

function ownerOf(word: number): number {
  if (isRemembered(word)) return FullRecordOf.key;
  return isSchedule(word) ? FullRecordOf.schedule : FullRecordOf.job;
}

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

/** The location of a part of a body. */
interface PieceLocation {
  bodyOffset: number;
  bodyBytes: number;
  segment: number;
  offset: number;
  framedBytes: number;
}

export class RecordIndex {
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

  /**
   * Books a record of a job. A log in use calls this on writes, and recovery on reads, so both have
   * the same books. `extra` is the record's recordExtra.
   */
  book(kind: number, id: number, segment: number, offset: number, framedBytes: number, extra: number): void {
    switch (kind) {
      case RecordKind.put:
        if (extra === EXTRA_REMEMBERED) this.setFull(id, segment, offset, framedBytes, 0, REMEMBERED);
        else if (extra === EXTRA_SCHEDULE) this.setFull(id, segment, offset, framedBytes, 0, SCHEDULE);
        else this.setFull(id, segment, offset, framedBytes, extra);
        break;
      case RecordKind.update:
        this.setUpdate(id, segment, offset);
        break;
      case RecordKind.delete:
      case RecordKind.tally:
        this.remove(id);
        break;
      default: {
        const bodyBytes = framedBytes - FRAME_BYTES - PIECE_HEADER_BYTES;
        assert(kind === RecordKind.piece && bodyBytes > 0, "any other booked record is a PIECE with bytes");
        this.setPiece(id, { bodyOffset: extra, bodyBytes, segment, offset, framedBytes });
      }
    }
  }

  /**
   * Returns whether the record at `at`, whose frame is at `offset` of `segment`, has to be kept.
   * Updates and deletes don't: the copy of a full record includes them.
   */
  isLive(memory: Memory, at: number, segment: number, offset: number): boolean {
    const { bytes, view } = memory;
    const id = view.getFloat64(at + RECORD_ID_AT, true);
    switch (bytes[at]) {
      case RecordKind.put:
        return this.fullIsAt(id, segment, offset);
      case RecordKind.piece:
        return this.pieceIsAt(id, view.getUint32(at + 4, true), segment, offset);
      case RecordKind.setting: {
        const patternAt = at + SETTING_HEADER_BYTES;
        const pattern = latin1(bytes, patternAt, patternAt + patternBytesOf(view, at));
        return this.settingIsAt(pattern, segment, offset);
      }
      case RecordKind.batch:
        return this.batches.isAt(id, segment, offset);
      case RecordKind.tally: {
        const { number, shard } = decodeTally(view, at);
        return this.batches.tallyIsAt(number, shard, segment, offset);
      }
      default:
        return false;
    }
  }

  /**
   * Books a full record: the job exists, whatever the index had before. With REMEMBERED, only its
   * key does; with SCHEDULE it is a schedule.
   */
  setFull(
    id: number,
    segment: number,
    offset: number,
    framedBytes: number,
    missingBodyBytes: number,
    flag = 0,
  ): void {
    if (CHECKED) assert(segment > 0, "a full record lies in a segment");
    if (CHECKED) assert(framedBytes < SCHEDULE, "a length leaves room for its flag");
    let page = this.#lastPage;
    if (page?.number !== Math.floor(id / PAGE_JOBS)) page = this.#pageOrNew(id);
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

  settingIsAt(pattern: string, segment: number, offset: number): boolean {
    const setting = this.settings.get(pattern);
    return setting !== undefined && setting.segment === segment && setting.offset === offset;
  }

  #bigJob(id: number): BigJob {
    let job = this.big.get(id);
    if (job === undefined) this.big.set(id, (job = { missingBytes: -1, pieces: new Map() }));
    return job;
  }

  /** Books a piece, new or copied to another place. */
  setPiece(id: number, piece: PieceLocation): void {
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
  setUpdate(id: number, segment: number, offset: number): boolean {
    const page = this.#page(id);
    const row = rowOf(id);
    if (page === undefined || page.words[row + FULL_SEGMENT] === 0) return false;
    if (CHECKED) assert(segment > 0, "an update lies in a segment");
    page.words[row + UPDATE_SEGMENT] = segment;
    page.words[row + UPDATE_OFFSET] = offset;
    return true;
  }

  /** Removes a job for good; returns false if the index lacks it. */
  remove(id: number): boolean {
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

  /** Returns the segment of a job's latest update, or 0; updateOffsetOf returns its offset. */
  updateSegmentOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + UPDATE_SEGMENT] ?? 0;
  }

  updateOffsetOf(id: number): number {
    return this.#page(id)?.words[rowOf(id) + UPDATE_OFFSET] ?? 0;
  }

  /**
   * Yields the live records of a segment, and undefined after each page of jobs, as a place to
   * pause. Records that move meanwhile may be yielded or not.
   */
  *keptIn(segment: number): Generator<Kept | undefined> {
    for (const { number, words } of this.#pages.values()) {
      for (let row = 0; row < PAGE_JOBS; row++) {
        const at = row * JOB_WORDS;
        if (words[at + FULL_SEGMENT] !== segment) continue;
        const id = number * PAGE_JOBS + row;
        const bytes = Math.max(0, this.big.get(id)?.missingBytes ?? 0);
        const word = words[at + FULL_BYTES]!;
        const framedBytes = bytesOf(word);
        yield { kind: "job", id, from: ownerOf(word), bytes, offset: words[at + FULL_OFFSET]!, framedBytes };
      }
      yield undefined;
    }
    yield* this.#piecesIn(segment);
    for (const [pattern, { text, segment: place }] of this.settings)
      if (place === segment) yield { kind: "setting", pattern, text };
    yield* this.batches.keptIn(segment);
  }

  *#piecesIn(segment: number): Generator<Kept> {
    for (const [id, { pieces }] of this.big)
      for (const { segment: place, bodyOffset, bodyBytes, offset, framedBytes } of pieces.values())
        if (place === segment)
          yield { kind: "job", id, from: bodyOffset, bytes: bodyBytes, offset, framedBytes };
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

// Initial state of a log in use: its books, and the position of the next record.

/** The result of recovery, or the state of an empty directory. */
export interface LogState {
  table: SegmentTable;
  index: RecordIndex;
  /** The last sequence number in the log. */
  lastSequence: number;
  /** The oldest segment that counts. */
  oldest: number;
  /** The number of the first segment to create if the table is empty. */
  first: number;
  /** At most two segments of the table without records; the first of them is written next. */
  empty: Segment[];
}

/**
 * Returns a log without records, whose first segment has the number `first`. If it follows another
 * log, `oldest` is that log's oldest segment: all of it counts until a DROP in the new log is
 * durable.
 */
export function emptyLog(first = 1, lastSequence = 0, maxId = 0, oldest = first): LogState {
  assert(oldest >= 1 && oldest <= first, "the first segment of a log counts");
  assert(lastSequence >= 0 && maxId >= 0, "sequences and ids go up from 0");
  const table = new SegmentTable();
  const index = new RecordIndex(table);
  index.maxId = maxId;
  return { table, index, lastSequence, oldest, first, empty: [] };
}
