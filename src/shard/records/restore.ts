// Restores the jobs in the log to a shard's engine, before the shard takes its first command.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import { JobAttributes, type RestoredJob } from "../../engine/jobs/new-job.ts";
import { Schedule } from "../../engine/schedules.ts";
import {
  bodyBytesOf,
  decodeFields,
  emptyRecordFields,
  RECORD_FIXED_BYTES,
  type RecordFields,
  RecordState,
  recordHeadBytes,
  tubeBytesOf,
} from "../../message/record.ts";
import { readSchedule, TICK_MS_MAX } from "../../message/schedule-record.ts";
import { fixedCounters } from "../../schema/job.ts";

/**
 * A buried job that waits for its turn: jobs arrive in no particular order, but burials have one.
 */
interface Buried {
  burySequence: number;
  bytes: Uint8Array;
  offset: number;
}

/** Returns an empty job, which is reused for every record. */
function emptyJob(): { -readonly [Field in keyof RestoredJob]: RestoredJob[Field] } {
  return {
    id: 0,
    pri: 0,
    delaySeconds: 0,
    ttrSeconds: 0,
    bodyBytes: 0,
    atMs: 0,
    tube: "",
    state: JobState.Ready,
    deadlineAtMs: 0,
    counters: fixedCounters(),
    file: 0,
  };
}

export class Restore {
  /** The highest burial number seen. */
  burySequence = 0;
  readonly #engine: Engine;
  readonly #clockOffsetMs: number;
  readonly #nowMs: number;
  readonly #fields = emptyRecordFields();
  readonly #job = emptyJob();
  readonly #attributes = new JobAttributes();
  readonly #buried: Buried[] = [];
  readonly #onJob: (id: number) => number;
  #lastTube = "";

  /**
   * `clockOffsetMs` is the log's clock minus the monotonic clock. `onJob` is called with every id
   * and returns the number of the job's log file.
   */
  constructor(engine: Engine, clockOffsetMs: number, nowMs: number, onJob: (id: number) => number) {
    this.#engine = engine;
    this.#clockOffsetMs = clockOffsetMs;
    this.#nowMs = nowMs;
    this.#onJob = onJob;
  }

  /** Takes the PUT records at `offsets` of `bytes`. Each is the final state of a job. */
  load(bytes: Uint8Array, offsets: Uint32Array): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (const offset of offsets) {
      assert(offset < bytes.length, "a record begins inside its segment");
      decodeFields(view, offset, this.#fields);
      const { state, burySequence } = this.#fields;
      if (state === RecordState.remembered) {
        this.#restoreKey(view, bytes, offset);
        continue;
      }
      if (state === RecordState.schedule) {
        this.#restoreSchedule(view, bytes, offset);
        continue;
      }
      if (state === RecordState.buried) {
        this.burySequence = Math.max(this.burySequence, burySequence);
        this.#buried.push(keptRecord(view, bytes, offset, burySequence));
      } else this.#restore(view, bytes, offset);
    }
  }

  /** Ends the restore: buries the buried jobs in the order of their burial. */
  finish(): void {
    this.#buried.sort((a, b) => a.burySequence - b.burySequence);
    for (const { bytes, offset } of this.#buried) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      decodeFields(view, offset, this.#fields);
      this.#restore(view, bytes, offset);
    }
    this.#buried.length = 0;
    this.#engine.endRestore();
    this.#engine.schedules.endRestore();
  }

  /** Restores the job whose record is at `offset` and has been decoded. */
  #restore(view: DataView, bytes: Uint8Array, offset: number): void {
    const engine = this.#engine;
    const fields = this.#fields;
    const tubeBytes = tubeBytesOf(view, offset);
    const bodyBytes = bodyBytesOf(view, offset);
    const tubeAt = offset + RECORD_FIXED_BYTES;
    const bodyAt = offset + recordHeadBytes(view, offset);
    assert(bodyAt + bodyBytes <= bytes.length, "a record ends inside its segment");
    const body = engine.bodies.allocate(bodyBytes);
    engine.bodies.write(body, 0, bytes, bodyAt, bodyBytes);
    const job = this.#job;
    job.tube = this.#tubeName(bytes, tubeAt, tubeAt + tubeBytes);
    job.id = fields.id;
    job.pri = fields.pri;
    job.delaySeconds = fields.delaySeconds;
    job.ttrSeconds = fields.ttrSeconds;
    job.bodyBytes = bodyBytes;
    const offsetMs = this.#offsetOfRecord();
    job.atMs = fields.createdAtMs - offsetMs;
    const dueAtMs = Math.min(fields.deadlineAtMs - offsetMs, this.#nowMs + delayMsMax(fields));
    job.state = this.#stateOf(fields.state, dueAtMs);
    job.deadlineAtMs = job.state === JobState.Delayed ? dueAtMs : this.#sinceMs(job.state, dueAtMs);
    job.counters = fields.counters;
    job.file = this.#onJob(fields.id);
    const attributesAt = tubeAt + tubeBytes;
    const attributes =
      attributesAt === bodyAt ? undefined : this.#attributes.read(bytes, attributesAt, bodyAt, offsetMs);
    engine.restore(job, body, attributes);
  }

  /** Restores the unique key of a job that is gone. */
  #restoreKey(view: DataView, bytes: Uint8Array, offset: number): void {
    const tubeAt = offset + RECORD_FIXED_BYTES;
    const attributesAt = tubeAt + tubeBytesOf(view, offset);
    const end = offset + recordHeadBytes(view, offset);
    assert(attributesAt <= end && end <= bytes.length, "the attributes of a key end inside their record");
    const attributes = this.#attributes.read(bytes, attributesAt, end, this.#offsetOfRecord());
    const tube = bytes.slice(tubeAt, attributesAt);
    this.#engine.policies.keys.restoreRemembered(tube, this.#fields.id, attributes);
  }

  #restoreSchedule(view: DataView, bytes: Uint8Array, offset: number): void {
    const { schedules, bodies } = this.#engine;
    const tubeAt = offset + RECORD_FIXED_BYTES;
    const attributesAt = tubeAt + tubeBytesOf(view, offset);
    const bodyAt = offset + recordHeadBytes(view, offset);
    const record = readSchedule(bytes, attributesAt, bodyAt);
    assert(attributesAt <= bodyAt && bodyAt <= bytes.length, "the body of a schedule follows its attributes");
    if (record === undefined || schedules.table.get(record.name) !== undefined) return;
    const { id, pri, delaySeconds, ttrSeconds, deadlineAtMs } = this.#fields;
    const { name, missed, overlap, ttlMs, delayMillis, attributes, cron, zone, everyMs } = record;
    const timing = { cron, zone, everyMs };
    const tube = latin1(bytes, tubeAt, attributesAt);
    const facts = {
      name,
      tube,
      timing,
      missed,
      overlap,
      pri,
      delaySeconds,
      delayMillis,
      ttrSeconds,
      ttlMs,
      attributes,
    };
    const schedule = new Schedule(id, facts);
    schedule.takeOver({ ...record, nextMs: isTick(deadlineAtMs) ? deadlineAtMs : Number.POSITIVE_INFINITY });
    schedule.bodyBytes = bodyBytesOf(view, offset);
    schedule.body = bodies.allocate(schedule.bodyBytes);
    bodies.write(schedule.body, 0, bytes, bodyAt, schedule.bodyBytes);
    schedules.restore(schedule);
  }

  /**
   * Returns by how much the log's clock is ahead of the monotonic clock, for the times of the
   * decoded record. A record from the future was written by a clock that was ahead: no time has
   * passed for its job, so that no more of its times remains than was recorded.
   */
  #offsetOfRecord(): number {
    return Math.max(this.#clockOffsetMs, this.#fields.createdAtMs - this.#nowMs);
  }

  /** Returns the state of a job now: a delay that ended while the server was down is over. */
  #stateOf(state: RecordState, deadlineAtMs: number): JobState {
    if (state === RecordState.buried) return JobState.Buried;
    return state === RecordState.delayed && deadlineAtMs > this.#nowMs ? JobState.Delayed : JobState.Ready;
  }

  /**
   * Returns when the job entered its state, as far as the log shows. The log has no time of a
   * release, a kick or a burial.
   */
  #sinceMs(state: JobState, dueAtMs: number): number {
    if (state === JobState.Buried) return this.#nowMs;
    const { atMs, delaySeconds } = this.#job;
    const { state: logged } = this.#fields;
    return Math.min(this.#nowMs, logged === RecordState.delayed ? dueAtMs : atMs + delaySeconds * 1000);
  }

  /** Returns a tube's name. Consecutive jobs often have the same tube and then share one string. */
  #tubeName(bytes: Uint8Array, start: number, end: number): string {
    assert(start <= end && end <= bytes.length, "the name of a tube lies in its record");
    const last = this.#lastTube;
    let same = last.length === end - start;
    for (let i = 0; same && i < last.length; i++) same = last.charCodeAt(i) === bytes[start + i];
    if (!same) this.#lastTube = latin1(bytes, start, end);
    return this.#lastTube;
  }
}

/**
 * Returns the longest that the delay of a record can last. It has whole seconds, and a fraction if
 * the deadline has one.
 */
function delayMsMax({ delaySeconds, createdAtMs, deadlineAtMs }: RecordFields): number {
  const sinceCreatedMs = Math.max(0, deadlineAtMs - createdAtMs);
  return Math.min(sinceCreatedMs, delaySeconds * 1000 + 999);
}

/** Returns whether the deadline of a schedule is a tick; it is 0 if there is none. */
const isTick = (deadlineAtMs: number): boolean => deadlineAtMs > 0 && deadlineAtMs <= TICK_MS_MAX;

/** Copies one record, so that the segment it came in can be freed. */
function keptRecord(view: DataView, bytes: Uint8Array, offset: number, burySequence: number): Buried {
  const length = recordHeadBytes(view, offset) + bodyBytesOf(view, offset);
  return { burySequence, bytes: new Uint8Array(bytes.subarray(offset, offset + length)), offset: 0 };
}
