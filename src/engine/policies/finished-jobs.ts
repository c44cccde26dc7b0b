// The last ends of jobs in tubes with the setting `keep-finished`: what became of a job that is
// gone. In memory only.
//
// A tube has a ring of ids and of cells in the body arena, which outlives the tube. A record is
// about the job as it was in that tube; a job that died there and was deleted later has two. Beyond
// --max-memory, a record takes the room of the tube's oldest ones, or goes unrecorded.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { Attribute } from "../../protocol/job-attribute.ts";
import { readFailures, WORKER_BYTES_MAX } from "../../protocol/job-failure.ts";
import { NOTHING_SET } from "../../schema/setting.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { FINISHED_WORDS, type FinishedJob, type FinishedWord } from "../jobs/ends.ts";
import { rowOf } from "../jobs/job-table.ts";
import type { ShardState, WorkerName } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import { attemptsOf, type Failures, NOBODY } from "./failures.ts";
import { type StoredAttributes, textAttribute } from "./job-store.ts";

/** Maximum of tubes with records, and of records, per shard. */
const TUBES_MAX = 1000;
const RECORDS_MAX = 200_000;
/** Maximum bytes of each text, and of a record; a length takes a byte. */
const TEXT_BYTES_MAX = 255;
const TEXTS = 5;
const HEAD_BYTES = 29 + TEXTS;
const FIRST_PLACES = 8;

/** The ring of a tube. Record `number` is at that place, modulo a power of two. */
class History {
  ids = new Float64Array(FIRST_PLACES);
  cells = new Uint32Array(FIRST_PLACES);
  /** The numbers of the oldest record, of the oldest that the setting keeps, and of the next. */
  oldest = 1;
  shown = 1;
  next = 1;
  lastEndMs = 0;

  get size(): number {
    return this.next - this.oldest;
  }

  at(number: number): number {
    return number & (this.ids.length - 1);
  }

  /** Changes the number of places. Throws RangeError when memory is exhausted. */
  resize(places: number): void {
    assert(places >= this.size, "a ring has a place for each record");
    const ids = new Float64Array(places);
    const cells = new Uint32Array(places);
    for (let number = this.oldest; number < this.next; number++) {
      ids[number & (places - 1)] = this.ids[this.at(number)]!;
      cells[number & (places - 1)] = this.cells[this.at(number)]!;
    }
    this.ids = ids;
    this.cells = cells;
  }
}

export class FinishedJobs {
  /** Number of records, of the tubes with some, and of the places in all rings. */
  size = 0;
  tubes = 0;
  places = 0;
  readonly #shard: ShardState;
  readonly #attributes: StoredAttributes;
  readonly #failures: Failures;
  readonly #workerName: WorkerName;
  readonly #ofTube = new Map<string, History>();
  /** The tubes whose records may be too many for a setting that has changed. */
  #toTrim: Iterator<[string, History]> | undefined;
  readonly #cell = new Uint8Array(HEAD_BYTES + TEXTS * TEXT_BYTES_MAX);
  readonly #view = new DataView(this.#cell.buffer);
  readonly #worker = new Uint8Array(WORKER_BYTES_MAX);

  constructor(shard: ShardState, attributes: StoredAttributes, failures: Failures, workerName: WorkerName) {
    this.#shard = shard;
    this.#attributes = attributes;
    this.#failures = failures;
    this.#workerName = workerName;
  }

  /** Notes that a reservation begins; without the setting or memory, its start is unknown. */
  begins(slot: number, { keepFinished }: Tube, nowMs: number): void {
    const { bodies, jobs } = this.#shard;
    const page = jobs.pageOf(slot);
    if (page.startedAtMs === undefined && (keepFinished === 0 || !bodies.limit.allows)) return;
    try {
      jobs.makeStarts(page)[rowOf(slot)] = keepFinished === 0 ? -1 : nowMs;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  /**
   * Keeps the end of a job, which must still have all that belongs to it. `holder` is the session
   * that held it until now, or NOBODY; `reason` says why it was cancelled.
   */
  add(slot: number, state: FinishedWord, holder: number, nowMs: number, reason?: Uint8Array): void {
    const tube = this.#shard.tubeOf(slot);
    assert(tube.keepFinished > 0 && state !== "open", "the end of a job is kept where that is set");
    const bytes = this.#write(slot, state, holder, nowMs, reason);
    const history = this.#roomFor(tube.name, tube.keepFinished, bytes);
    if (history === undefined) return;
    const { bodies, jobs } = this.#shard;
    let cell: number = EMPTY_BODY;
    try {
      if (history.size === history.ids.length) this.#resize(history, 2 * history.ids.length);
      cell = bodies.allocate(bytes);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return;
    }
    bodies.write(cell, 0, this.#cell, 0, bytes);
    const at = history.at(history.next);
    history.ids[at] = jobs.pageOf(slot).id[rowOf(slot)]!;
    history.cells[at] = cell;
    history.next++;
    history.lastEndMs = nowMs;
    this.size++;
  }

  #resize(history: History, places: number): void {
    const before = history.ids.length;
    history.resize(places);
    this.places += places - before;
  }

  /** Makes room for a record of this size; returns undefined if there is none. */
  #roomFor(tube: string, kept: number, bytes: number): History | undefined {
    const history = this.#ofTube.get(tube);
    while (history !== undefined && history.size >= kept) this.#dropOldest(history);
    if (!this.#shard.bodies.limit.allows) return this.#exchange(history, bytes);
    if (this.size >= RECORDS_MAX && history !== undefined && history.size > 0) this.#dropOldest(history);
    while (this.size >= RECORDS_MAX || (history === undefined && this.tubes >= TUBES_MAX))
      this.#forgetStalest(tube);
    return history ?? this.#begin(tube);
  }

  /** Gives the memory of the oldest records to a new one. */
  #exchange(history: History | undefined, bytes: number): History | undefined {
    const { bodies } = this.#shard;
    const enough = bodies.usedBytes - bytes;
    while (history !== undefined && history.size > 0) {
      this.#dropOldest(history);
      if (bodies.usedBytes <= enough) return history;
    }
    return undefined;
  }

  #begin(tube: string): History {
    const history = new History();
    this.#ofTube.set(tube, history);
    this.tubes++;
    this.places += history.ids.length;
    return history;
  }

  #dropOldest(history: History): void {
    assert(history.size > 0, "only a record that exists is dropped");
    this.#shard.bodies.free(history.cells[history.at(history.oldest)]!);
    history.oldest++;
    history.shown = Math.max(history.shown, history.oldest);
    this.size--;
  }

  #forget(tube: string, history: History): void {
    while (history.size > 0) this.#dropOldest(history);
    this.places -= history.ids.length;
    this.tubes--;
    this.#ofTube.delete(tube);
    assert(this.tubes === this.#ofTube.size, "the tubes with records are counted");
    assert(this.size >= 0 && this.places >= 0, "records are counted");
  }

  /** Forgets the records of the tube, other than `but`, in which the last job ended longest ago. */
  #forgetStalest(but: string): void {
    let stalest: [string, History] | undefined;
    for (const entry of this.#ofTube)
      if (entry[0] !== but && (stalest === undefined || entry[1].lastEndMs < stalest[1].lastEndMs))
        stalest = entry;
    assert(stalest !== undefined, "there are records of another tube");
    this.#forget(...stalest);
  }

  // --- the setting changes -----------------------------------------------------------------------

  /** Shows no more records of a tube than this; `trim` drops the others. */
  clip(tube: string, kept: number): void {
    const history = this.#ofTube.get(tube);
    if (history !== undefined) history.shown = Math.max(history.shown, history.next - kept);
  }

  /** Does so for all tubes, which may be gone, after a setting has changed. */
  beginTrim(): void {
    const { settings } = this.#shard;
    for (const tube of this.#ofTube.keys())
      this.clip(tube, settings.policyOf(tube)?.keepFinished ?? NOTHING_SET.keepFinished);
    this.#toTrim = this.tubes === 0 ? undefined : this.#ofTube.entries();
  }

  /** Drops such records, with about this many looks; returns whether that was all. */
  trim(looks: number): boolean {
    for (let left = looks; left > 0 && this.#toTrim !== undefined; left--) {
      const { done, value } = this.#toTrim.next();
      if (done === true) this.#toTrim = undefined;
      else left -= this.#trimOne(...value);
    }
    return this.#toTrim === undefined;
  }

  /** Returns how many records it has dropped. */
  #trimOne(tube: string, history: History): number {
    const before = history.size;
    while (history.oldest < history.shown) this.#dropOldest(history);
    const dropped = before - history.size;
    if (history.size === 0) this.#forget(tube, history);
    else if (dropped > 0)
      this.#resize(history, Math.max(FIRST_PLACES, 2 ** Math.ceil(Math.log2(history.size))));
    return dropped;
  }

  // --- records -----------------------------------------------------------------------------------

  /** The tubes with records. */
  get names(): Iterable<string> {
    return this.#ofTube.keys();
  }

  /** Returns the kept ends of jobs of a tube, with their numbers, newest first, below `before`. */
  *ofTube(tube: string, before: number): Generator<readonly [number: number, job: FinishedJob]> {
    const history = this.#ofTube.get(tube);
    if (history === undefined) return;
    for (let number = Math.min(history.next, before) - 1; number >= history.shown; number--)
      yield [number, this.#read(history, number)];
  }

  /** Returns the last kept end of a job, and its tube. */
  find(id: number): { readonly tube: string; readonly job: FinishedJob } | undefined {
    let found: { tube: string; job: FinishedJob } | undefined;
    for (const [tube, history] of this.#ofTube) {
      let number = history.next - 1;
      while (number >= history.shown && history.ids[history.at(number)] !== id) number--;
      if (number < history.shown) continue;
      const job = this.#read(history, number);
      if (found === undefined || job.endedAtMs >= found.job.endedAtMs) found = { tube, job };
    }
    return found;
  }

  /** Writes a record to `#cell`; returns its length. */
  #write(slot: number, state: FinishedWord, holder: number, nowMs: number, cancelled?: Uint8Array): number {
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { notes } = this.#attributes;
    const fixed = this.#attributes.fixedAttributes(slot);
    const said = notes.of(slot);
    const attempts = attemptsOf(page, row);
    this.#view.setFloat64(0, page.createdAtMs[row]!, true);
    this.#view.setFloat64(8, page.startedAtMs?.[row] ?? -1, true);
    this.#view.setFloat64(16, nowMs, true);
    this.#view.setUint32(24, attempts, true);
    this.#cell[28] = FINISHED_WORDS.indexOf(state);
    const workerBytes = holder === NOBODY ? 0 : this.#workerName(holder, page.id[row]!, this.#worker, 0);
    const texts = [
      latin1(this.#worker, 0, workerBytes),
      textAttribute(fixed, fixed.length, Attribute.UniqueKey),
      textAttribute(fixed, fixed.length, Attribute.Group),
      latin1(said.note, 0, said.note.length),
      state === "dead" ? this.#failureOf(slot, attempts) : textOf(cancelled ?? said.cancelled),
    ];
    let end = HEAD_BYTES;
    for (const [index, text] of texts.entries()) {
      const length = Math.min(text.length, TEXT_BYTES_MAX);
      this.#cell[29 + index] = length;
      for (let k = 0; k < length; k++) this.#cell[end++] = text.charCodeAt(k);
    }
    return end;
  }

  /** Returns why this attempt failed, if its worker said so. */
  #failureOf(slot: number, attempt: number): string {
    const last = readFailures(this.#failures.of(slot))[0];
    return last === undefined || last.attempt !== attempt ? "" : last.reason;
  }

  #read(history: History, number: number): FinishedJob {
    const place = history.at(number);
    const { bodies } = this.#shard;
    const cell = this.#cell;
    bodies.read(history.cells[place]!, 0, cell, 0, HEAD_BYTES);
    const lengths = cell.slice(29, HEAD_BYTES);
    bodies.read(
      history.cells[place]!,
      HEAD_BYTES,
      cell,
      HEAD_BYTES,
      lengths.reduce((sum, each) => sum + each, 0),
    );
    let end = HEAD_BYTES;
    const [worker = "", unique = "", group = "", note = "", reason = ""] = Array.from(lengths, (length) =>
      latin1(cell, end, (end += length)),
    );
    return {
      id: history.ids[place]!,
      state: FINISHED_WORDS[cell[28]!]!,
      putAtMs: this.#view.getFloat64(0, true),
      startedAtMs: this.#view.getFloat64(8, true),
      endedAtMs: this.#view.getFloat64(16, true),
      attempts: this.#view.getUint32(24, true),
      ...{ worker, unique, group, note, reason },
    };
  }
}

const textOf = (bytes: Uint8Array | undefined): string =>
  bytes === undefined ? "" : latin1(bytes, 0, bytes.length);
