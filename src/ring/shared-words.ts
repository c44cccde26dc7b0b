// The words that threads share besides their rings and doorbells: flags, the memory of jobs, job
// ids, the shards of jobs, how far the log is, and what it asks for.

import { assert } from "../base/assert.ts";

// Flags that all threads share and that change rarely.

export class ControlWords {
  readonly words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer);
  }

  isSet(word: number): boolean {
    return Atomics.load(this.words, word) !== 0;
  }

  set(word: number): void {
    assert(word < this.words.length, "a flag to set lies in its memory");
    Atomics.store(this.words, word, 1);
  }

  clear(word: number): void {
    assert(word < this.words.length, "a flag to clear lies in its memory");
    Atomics.store(this.words, word, 0);
  }
}

// The memory that jobs of all shards use, and its limit: three words that all threads share.
//
// Shards claim and return several pages at a time, so the sum never exceeds the limit and a put
// pays nothing.

/** The unit of accounting. */
export const MEMORY_PAGE_BYTES = 4096;
/** Maximum of a word: 8 TiB. */
const PAGES_MAX = 0x7fff_ffff;
/**
 * The share of the limit below which puts are accepted again: hysteresis, so that the server
 * doesn't alternate.
 */
const AGAIN_SHARE = 0.98;

export class MemoryWords {
  readonly #words: Int32Array;
  readonly #used: number;
  readonly #limit: number;
  readonly #full: number;

  /**
   * `words` holds at these indexes: the pages in use, the limit in pages or 0, and 1 while the
   * memory is full.
   */
  constructor(words: Int32Array, used: number, limit: number, full: number) {
    assert(used !== limit && limit !== full && full !== used, "the words of the memory are different");
    this.#words = words;
    this.#used = used;
    this.#limit = limit;
    this.#full = full;
  }

  /** The limit in bytes; Infinity for none. */
  get limitBytes(): number {
    const pages = Atomics.load(this.#words, this.#limit);
    return pages === 0 ? Number.POSITIVE_INFINITY : pages * MEMORY_PAGE_BYTES;
  }

  /**
   * Sets the limit: at least one page, or Infinity for none. Existing jobs stay, even if they
   * exceed it.
   */
  set limitBytes(bytes: number) {
    assert(bytes >= MEMORY_PAGE_BYTES, "a limit is at least one page");
    const pages =
      bytes === Number.POSITIVE_INFINITY ? 0 : Math.min(PAGES_MAX, Math.floor(bytes / MEMORY_PAGE_BYTES));
    Atomics.store(this.#words, this.#limit, pages);
    if (pages > 0 && this.usedPages > pages) this.noteFull();
  }

  get usedPages(): number {
    return Atomics.load(this.#words, this.#used);
  }

  get usedBytes(): number {
    return this.usedPages * MEMORY_PAGE_BYTES;
  }

  /** Whether new jobs are refused. */
  get isFull(): boolean {
    if (Atomics.load(this.#words, this.#full) === 0) return false;
    if (this.usedBytes > this.limitBytes * AGAIN_SHARE) return true;
    Atomics.store(this.#words, this.#full, 0);
    return false;
  }

  /** Refuses new jobs until enough memory is free. */
  noteFull(): void {
    Atomics.store(this.#words, this.#full, 1);
  }

  /** Claims pages if the limit allows it. */
  claim(pages: number): boolean {
    const limit = Atomics.load(this.#words, this.#limit);
    let used = this.usedPages;
    while (limit === 0 || used + pages <= limit) {
      const found = Atomics.compareExchange(this.#words, this.#used, used, used + pages);
      if (found === used) return true;
      used = found;
    }
    return false;
  }

  /** Counts pages that are already in use. */
  take(pages: number): void {
    const used = Atomics.add(this.#words, this.#used, pages) + pages;
    assert(used >= pages, "the pages in use include those taken");
    const limit = Atomics.load(this.#words, this.#limit);
    if (limit > 0 && used > limit) this.noteFull();
  }

  give(pages: number): void {
    const before = Atomics.sub(this.#words, this.#used, pages);
    assert(pages >= 0 && before >= pages, "pages given back were taken");
  }
}

// Hands out job ids 1, 2, 3 … over all threads without a BigInt; also the numbers of tubes.
//
// Two int32 words hold the low 32 bits of the next id, taken with an atomic add, and a hint. The
// hint is the next id divided by 2^24; the thread that takes a multiple of 2^24 stores it. A taker
// completes its low bits to the number nearest to the hint. That number is right as long as the
// hint is less than 2^31 ids behind.

const HINT_UNIT = 2 ** 24;
const LOW_RANGE = 2 ** 32;

export class JobIds {
  readonly #words: Int32Array;
  readonly #low: number;
  readonly #hint: number;

  /** Uses `words[at]` and `words[at + 1]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at + 1 < words.length, "the two words of the ids lie in their memory");
    this.#words = words;
    this.#low = at;
    this.#hint = at + 1;
  }

  /** Sets the next id; call before any thread takes one. */
  reset(nextId: number): void {
    assert(nextId >= 1 && nextId <= Number.MAX_SAFE_INTEGER, "ids are positive safe integers");
    Atomics.store(this.#words, this.#low, (nextId % LOW_RANGE) | 0);
    Atomics.store(this.#words, this.#hint, Math.floor(nextId / HINT_UNIT));
  }

  take(): number {
    const id = this.#complete(Atomics.add(this.#words, this.#low, 1) >>> 0);
    assert(id >= 0 && id <= Number.MAX_SAFE_INTEGER, "a number that is taken is a safe integer");
    if (id % HINT_UNIT === 0) Atomics.store(this.#words, this.#hint, id / HINT_UNIT);
    return id;
  }

  /** The next id, without taking it. */
  get next(): number {
    return this.#complete(Atomics.load(this.#words, this.#low) >>> 0);
  }

  /** Returns the last id that was taken; 0 if none was since the next one was `first`. */
  lastSince(first: number): number {
    const next = this.#complete(Atomics.load(this.#words, this.#low) >>> 0);
    assert(next >= first, "ids only go up");
    return next === first ? 0 : next - 1;
  }

  #complete(low: number): number {
    const near = Atomics.load(this.#words, this.#hint) * HINT_UNIT;
    const id = near - (near % LOW_RANGE) + low;
    if (id < near - LOW_RANGE / 2) return id + LOW_RANGE;
    return id > near + LOW_RANGE / 2 ? id - LOW_RANGE : id;
  }
}

// The highest job id that the log has lent: jobs with higher ids stay invisible. One int32, which
// wraps.

export class LentIds {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at < words.length, "the word of the lent ids lies in its memory");
    this.#words = words;
    this.#at = at;
  }

  /** Makes ids up to `limit` visible. */
  publish(limit: number): void {
    assert(limit >= 0 && limit <= Number.MAX_SAFE_INTEGER, "a limit of ids is a safe integer");
    Atomics.store(this.#words, this.#at, limit | 0);
  }

  /** The limit modulo 2^32, for `isLent`. A stale copy is at worst too low. */
  get low(): number {
    return Atomics.load(this.#words, this.#at);
  }
}

/**
 * Returns whether `id` may be visible, given the low bits of the limit. The two must be less than
 * 2^31 apart.
 */
export function isLent(low: number, id: number): boolean {
  assert(id > 0, "an id that may be visible is not 0");
  return ((low - id) | 0) >= 0;
}

// Maps recent jobs to the shard that holds them, in shared memory of a fixed size.
//
// An entry is one int32: 24 bits of the id above the table's size, and 8 bits for the shard plus 1.
// The thread that takes an id writes its entry before it sends the put. A shard that receives a
// moved job writes the entry before any client can see the job there. So a match was true when it
// was written. A shard that lacks the job checks whether the entry still names it; if so, the job
// doesn't exist. No match means "ask all shards", as for jobs older than the last million.

const JOB_ENTRIES_BITS = 20;
const JOB_ENTRIES = 2 ** JOB_ENTRIES_BITS;
const TAG_RANGE = 2 ** 24;

/** Result of `find` for an id that is not in the table. */
export const UNKNOWN_SHARD = -1;

export class JobDirectory {
  /** Size of a directory in bytes of shared memory. */
  static readonly BYTES: number = JOB_ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    assert(buffer.byteLength === JobDirectory.BYTES, "a job directory fills its memory");
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, shard: number): void {
    assert(shard >= 0 && shard < 0xff, "a shard fits into 8 bits with 1 added");
    const tag = Math.floor(id / JOB_ENTRIES) % TAG_RANGE;
    Atomics.store(this.#entries, id % JOB_ENTRIES, (tag << 8) | (shard + 1));
  }

  /** Returns the entry for the id, which other ids share; it changes when the job moves. */
  entry(id: number): number {
    return Atomics.load(this.#entries, id % JOB_ENTRIES);
  }

  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % JOB_ENTRIES);
    if (entry === 0 || entry >>> 8 !== Math.floor(id / JOB_ENTRIES) % TAG_RANGE) return UNKNOWN_SHARD;
    return (entry & 0xff) - 1;
  }
}

// Maps recent jobs to the log file that holds their full record, in shared memory of a fixed size.
//
// An entry is one int32: 8 bits of the id above the table's size, and 24 bits of the file number.
// Only the log's thread writes entries; shards read them for stats-job.

const FILE_ENTRIES = 2 ** 20;
const FILE_BITS = 24;
const FILE_TAG_RANGE = 2 ** (32 - FILE_BITS);

export class FileTable {
  /** Size of a table in bytes of shared memory. */
  static readonly BYTES: number = FILE_ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    assert(buffer.byteLength === FileTable.BYTES, "a file table fills its memory");
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, file: number): void {
    assert(file > 0, "the full record of a job lies in a file");
    const tag = Math.floor(id / FILE_ENTRIES) % FILE_TAG_RANGE;
    Atomics.store(this.#entries, id % FILE_ENTRIES, (tag << FILE_BITS) | (file % 2 ** FILE_BITS));
  }

  /** Returns the file, or 0 for a job that is not in the table. */
  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % FILE_ENTRIES);
    const tag = Math.floor(id / FILE_ENTRIES) % FILE_TAG_RANGE;
    return entry >>> FILE_BITS === tag ? entry & (2 ** FILE_BITS - 1) : 0;
  }
}

// A sequence number of a group's shared log (of a batch or a message) in one int32, which wraps.
// The group's thread writes it, and the log's thread reads it.

export class BatchWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at < words.length, "a batch word lies in its memory");
    this.#words = words;
    this.#at = at;
  }

  publish(n: number): void {
    Atomics.store(this.#words, this.#at, n | 0);
  }

  /** The lower 32 bits. */
  get lowBits(): number {
    return Atomics.load(this.#words, this.#at) >>> 0;
  }

  /** Returns the number, which must not exceed `highest` or be 2^31 below it. */
  read(highest: number): number {
    const n = highest - ((highest - Atomics.load(this.#words, this.#at)) | 0);
    assert(n <= highest, "no batch is acknowledged before it is sent");
    return n;
  }
}

// The progress of each shard's log records: two int32 record numbers per shard, which wrap.
//
// Written: the kernel has the record, so it survives the process. Synced: the disk has it, so it
// survives the machine. Only the log's thread writes them; those of the shared log, the group's.

/** Distance between two shards' entries in int32 words: one cache line. */
export const LOG_WORDS = 16;

/** Position of each number in a shard's entry. */
export const LogWord = { Written: 0, Synced: 1 } as const;
export type LogWord = (typeof LogWord)[keyof typeof LogWord];

export class LogWords {
  readonly #words: Int32Array;
  readonly #word: LogWord;

  constructor(buffer: SharedArrayBuffer, word: LogWord) {
    this.#words = new Int32Array(buffer);
    this.#word = word;
  }

  /** Publishes that all records of the shard up to `number` have reached this point. */
  publish(shard: number, number: number): void {
    const at = shard * LOG_WORDS + this.#word;
    assert(at >= 0 && at < this.#words.length, "a shard has its line of progress");
    assert(((number - Atomics.load(this.#words, at)) | 0) >= 0, "a shard's progress never goes back");
    Atomics.store(this.#words, at, number | 0);
  }

  /** Returns whether any number differs from `seen`, which has one per shard. */
  differFrom(seen: Int32Array): boolean {
    for (let shard = 0; shard < seen.length; shard++)
      if (Atomics.load(this.#words, shard * LOG_WORDS + this.#word) !== seen[shard]) return true;
    return false;
  }

  /** Copies all numbers to `seen`. */
  copyTo(seen: Int32Array): void {
    assert(seen.length * LOG_WORDS <= this.#words.length, "a copy has no more shards than there are");
    for (let shard = 0; shard < seen.length; shard++)
      seen[shard] = Atomics.load(this.#words, shard * LOG_WORDS + this.#word);
  }

  reached(shard: number, number: number): boolean {
    const at = shard * LOG_WORDS + this.#word;
    assert(at < this.#words.length, "a shard that is waited for has its line of progress");
    return ((Atomics.load(this.#words, at) - number) | 0) >= 0;
  }
}

// The words by which the HTTP thread asks the log for a cut, and the log answers. A backup has a
// number; the HTTP thread asks for one at a time.

/** Offsets from the word that the log writes. */
const OLDEST = 1;
const LAST = 2;
const KEPT = 3;

/** The segments of a cut; none if `last` is below `oldest`. */
export interface CutSegments {
  readonly oldest: number;
  readonly last: number;
}

export class BackupWords {
  readonly #words: Int32Array;
  readonly #asked: number;
  readonly #answered: number;

  /** The HTTP thread writes the word at `asked`, the log those from `answered` on. */
  constructor(words: Int32Array, asked: number, answered: number) {
    this.#words = words;
    this.#asked = asked;
    this.#answered = answered;
    assert(asked < words.length && answered + KEPT < words.length, "the words lie in their memory");
  }

  /** The backup that needs its segments now; 0 for none. */
  get asked(): number {
    return Atomics.load(this.#words, this.#asked);
  }

  /** Asks for a cut, or gives it back with 0. Ring the log's bell afterwards. */
  ask(number: number): void {
    Atomics.store(this.#words, this.#asked, number);
  }

  /** Hands out a cut. */
  grant(number: number, { oldest, last }: CutSegments): void {
    assert(number > 0, "a cut is for a backup");
    Atomics.store(this.#words, this.#answered + OLDEST, oldest);
    Atomics.store(this.#words, this.#answered + LAST, last);
    this.#answer(number);
  }

  /** Refuses a cut, or takes it back. */
  refuse(number: number): void {
    assert(number > 0, "a refusal is for a backup");
    this.#answer(-number);
  }

  #answer(number: number): void {
    Atomics.store(this.#words, this.#answered, number);
    Atomics.notify(this.#words, this.#answered);
  }

  /** Publishes how many dropped segments are still on the disk. */
  setKept(count: number): void {
    Atomics.store(this.#words, this.#answered + KEPT, count);
  }

  get kept(): number {
    return Atomics.load(this.#words, this.#answered + KEPT);
  }

  isRefused(number: number): boolean {
    return Atomics.load(this.#words, this.#answered) === -number;
  }

  /** Resolves with the answer to `ask(number)`, or with "late" after `limitMs`. */
  async answer(number: number, limitMs: number): Promise<CutSegments | "refused" | "late"> {
    for (;;) {
      const answered = Atomics.load(this.#words, this.#answered);
      if (answered === number) break;
      if (answered === -number) return "refused";
      const wait = Atomics.waitAsync(this.#words, this.#answered, answered, limitMs);
      if (wait.async && (await wait.value) === "timed-out") return "late";
    }
    const word = (at: number): number => Atomics.load(this.#words, this.#answered + at) >>> 0;
    return { oldest: word(OLDEST), last: word(LAST) };
  }
}

// The words by which the log gets records again that it can't read: it names parts of live jobs,
// and each shard records those of its own jobs once more, from memory.

/** A part of a job: its PUT, or a piece of its body. */
export interface JobPart {
  readonly id: number;
  /** Offset of the piece in the body, or one of FullRecordOf (message/record.ts). */
  readonly from: number;
  /** Bytes of the piece; for the PUT, those of the body that are in pieces. */
  readonly bytes: number;
}

/** Maximum number of parts in one request. */
export const RESTATED_MAX = 64;
/** The words at the beginning of the buffer. */
const RESTATE_ASKED = 0;
const RESTATE_COUNT = 1;
/** Segments below this one hold damage, so that the log must rewrite them. */
const REWRITE_BELOW = 16;
/** Float64 words: the parts follow the first cache lines, the answers of the shards the parts. */
const PARTS_AT = 16;
const PART_WORDS = 3;
const ANSWERS_AT = 2 * (PARTS_AT + PART_WORDS * RESTATED_MAX);
const ANSWER_WORDS = 16;

export class RestateWords {
  readonly #words: Int32Array;
  readonly #parts: Float64Array;
  readonly #shards: number;

  constructor(buffer: SharedArrayBuffer, shards: number) {
    assert(buffer.byteLength === RestateWords.bytesFor(shards), "each shard has a word for its answer");
    this.#words = new Int32Array(buffer);
    this.#parts = new Float64Array(buffer, 0, PARTS_AT + PART_WORDS * RESTATED_MAX);
    this.#shards = shards;
  }

  static bytesFor(shards: number): number {
    return 4 * (ANSWERS_AT + ANSWER_WORDS * shards);
  }

  /** Any thread: asks the log to rewrite this segment and those before it. */
  rewrite(segment: number): void {
    for (;;) {
      const below = Atomics.load(this.#words, REWRITE_BELOW);
      if (segment < below) return;
      if (Atomics.compareExchange(this.#words, REWRITE_BELOW, below, segment + 1) === below) return;
    }
  }

  get rewriteBelow(): number {
    return Atomics.load(this.#words, REWRITE_BELOW);
  }

  /** The log: whether all shards have answered the last request. */
  get isAnswered(): boolean {
    const asked = this.asked;
    for (let shard = 0; shard < this.#shards; shard++)
      if (Atomics.load(this.#words, ANSWERS_AT + ANSWER_WORDS * shard) !== asked) return false;
    return true;
  }

  /** The log: asks for parts. Ring the shards' bells afterwards. */
  ask(parts: readonly JobPart[]): void {
    assert(this.isAnswered, "the log asks for one batch of parts at a time");
    assert(parts.length > 0 && parts.length <= RESTATED_MAX, "a request has room for its parts");
    for (const [index, { id, from, bytes }] of parts.entries())
      this.#parts.set([id, from, bytes], PARTS_AT + PART_WORDS * index);
    this.#words[RESTATE_COUNT] = parts.length;
    Atomics.store(this.#words, RESTATE_ASKED, (this.asked + 1) | 0);
  }

  /** The number of the last request. */
  get asked(): number {
    return Atomics.load(this.#words, RESTATE_ASKED);
  }

  /** A shard: the parts of the last request. */
  get parts(): JobPart[] {
    return Array.from({ length: this.#words[RESTATE_COUNT]! }, (_, index) => {
      const at = PARTS_AT + PART_WORDS * index;
      return { id: this.#parts[at]!, from: this.#parts[at + 1]!, bytes: this.#parts[at + 2]! };
    });
  }

  /** A shard: it has recorded its parts of the request. */
  answer(shard: number, asked: number): void {
    assert(shard < this.#shards, "a shard has its own word");
    Atomics.store(this.#words, ANSWERS_AT + ANSWER_WORDS * shard, asked);
  }
}
