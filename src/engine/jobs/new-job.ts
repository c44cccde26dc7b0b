// Descriptions of jobs for the engine, without their bodies. The engine keeps no reference to these
// objects, so their owners reuse them.

import { Memory } from "../../base/bytes.ts";
import {
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  BatchMark,
  DeathReason,
  FIRST_MUTABLE_ATTRIBUTE,
} from "../../protocol/job-attribute.ts";
import { failuresAreWhole, shiftFailures } from "../../protocol/job-failure.ts";
import { OnDuplicate } from "../../protocol/option-rows.ts";
import { RARE_COUNTER_ATTRIBUTES, RARE_COUNTERS } from "../../schema/job.ts";
import type { JobState } from "./job-table.ts";

export interface JobFacts {
  /** Positive, and unique over all shards. */
  readonly id: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
  readonly bodyBytes: number;
  /**
   * When the job was created, that is, when its put was read; monotonic ms. Negative for a job
   * older than the process.
   */
  readonly atMs: number;
}

export interface NewJob extends JobFacts {
  /** The fraction of the delay, 0 to 999 ms. */
  readonly delayMillis: number;
}

/** A job from the log. */
export interface RestoredJob extends JobFacts {
  readonly tube: string;
  /** Ready, Delayed or Buried. */
  readonly state: JobState;
  /**
   * For a delayed job, when it becomes ready; otherwise when it became ready or was buried.
   * Monotonic ms.
   */
  readonly deadlineAtMs: number;
  /** The fixed counters (schema/job.ts). */
  readonly counters: Uint32Array;
  /** Number of the log file with the full record. */
  readonly file: number;
}

/** Properties of a job that differ at its destination. */
export interface ChangedFacts {
  readonly pri: number;
  readonly ttrSeconds: number;
  readonly releases: number;
  /** Monotonic ms; 0 for never. */
  readonly expiresAtMs: number;
  readonly attemptsBase: number;
}

/** A change to a job; undefined properties stay. */
export interface JobChange {
  readonly pri: number | undefined;
  /** Makes the job ready (0), or delayed by this time. */
  readonly delayMs: number | undefined;
  readonly ttrSeconds: number | undefined;
  /** Time from now until the job expires; 0 for never. */
  readonly ttlMs?: number | undefined;
  /** The destination tube. The job keeps its state there; a held one is returned. */
  readonly tube?: string | undefined;
}

// The attributes of one job on its way into an engine, from its put or from the log. One object
// serves one job after another.

const NO_BYTES = new Uint8Array(0);

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

/** Times are monotonic ms, 0 for never. */
export class JobAttributes {
  /** The immutable attributes, except times, in the log's form. */
  readonly fixed: AttributeWriter = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  /** Position of the unique key in `fixed`; empty if the job has none. */
  keyStart = 0;
  keyEnd = 0;
  untilReserve = false;
  /** When the key may be put again, even if the job is gone. */
  uniqueUntilMs = 0;
  /** For a key that stays in the tube which its job has left: the id of the job; else 0. */
  keyJob = 0;
  expiresAtMs = 0;
  attemptsBase = 0;
  /** The tube in which the job died, or empty. */
  origin: Uint8Array = NO_BYTES;
  reason: number = DeathReason.None;
  moved = false;
  leaving = false;
  /** Why the job was cancelled while a session held it; undefined if it was not. */
  cancelled: Uint8Array | undefined = undefined;
  /** The progress and the note of its worker (policies/job-notes.ts), from another shard. */
  said: Uint8Array = NO_BYTES;
  /** A KeyState; undefined if the log doesn't state what became of the key. */
  keyState: number | undefined;
  /** The job's last failures, in monotonic times (protocol/job-failure.ts). */
  failures: Uint8Array = NO_BYTES;
  /** Its rare counters (schema/job.ts). */
  readonly rareCounters: Uint32Array = new Uint32Array(RARE_COUNTERS);
  /** Whether the log contains nothing about the job except failures and rare counters. */
  hasOnlyFailures = false;
  /** What a put does to a waiting job that has its key, and how long that may be put off. */
  onDuplicate: OnDuplicate = OnDuplicate.Refuse;
  debounceMaxMs = 0;
  /** Number of the batch of which the job is a member, and whether it has ended; 0 for none. */
  batch = 0;
  batchHasEnded = false;
  /** Whether the member outlives the cancellation of its batch. */
  batchIsSpared = false;
  /** Number of the batch that the job waits for, and whether for any outcome; 0 for none. */
  after = 0;
  afterAny = false;
  /** The names of these batches in a put; the engine looks up their numbers. */
  batchName = "";
  afterName = "";
  /** Why the job is buried at once: the batch that it would wait for has failed. */
  lost: Uint8Array | undefined = undefined;

  /** Whether a put names a batch. */
  get namesBatch(): boolean {
    return this.batchName !== "" || this.afterName !== "";
  }

  /** Whether the job belongs to a batch or waits for one. */
  get hasFlows(): boolean {
    return this.batch !== 0 || this.after !== 0;
  }

  /** Whether the job has a unique key. */
  get hasKey(): boolean {
    return this.keyEnd > this.keyStart;
  }

  clear(): this {
    this.fixed.clear();
    this.keyStart = this.keyEnd = 0;
    this.untilReserve = false;
    this.uniqueUntilMs = 0;
    this.keyJob = 0;
    this.expiresAtMs = 0;
    this.attemptsBase = 0;
    this.origin = NO_BYTES;
    this.reason = DeathReason.None;
    this.moved = false;
    this.leaving = false;
    this.cancelled = undefined;
    this.said = NO_BYTES;
    this.keyState = undefined;
    this.failures = NO_BYTES;
    this.rareCounters.fill(0);
    this.hasOnlyFailures = false;
    this.onDuplicate = OnDuplicate.Refuse;
    this.debounceMaxMs = 0;
    this.batch = 0;
    this.batchHasEnded = false;
    this.batchIsSpared = false;
    this.after = 0;
    this.afterAny = false;
    this.batchName = "";
    this.afterName = "";
    this.lost = undefined;
    return this;
  }

  /** Sets the unique key, at most 200 bytes. */
  setKey(bytes: Uint8Array, start: number, end: number, untilReserve: boolean): void {
    this.fixed.text(Attribute.UniqueKey, bytes, start, end);
    this.keyEnd = this.fixed.length;
    this.keyStart = this.keyEnd - (end - start);
    this.untilReserve = untilReserve;
    if (untilReserve) this.fixed.flag(Attribute.UntilReserve);
  }

  /** Reads an attribute list from the log; `wallOffsetMs` is wall clock minus monotonic clock. */
  read(bytes: Uint8Array, start: number, end: number, wallOffsetMs: number): this {
    this.clear();
    this.hasOnlyFailures = true;
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    for (let at = start; at + 2 <= end && bytes[at] !== 0; at += 2 + bytes[at + 1]!)
      this.#take(bytes, view, at, wallOffsetMs);
    // Only a log that was edited by hand contains incomplete failures.
    if (!failuresAreWhole(this.failures)) this.failures = NO_BYTES;
    else shiftFailures(this.failures, -wallOffsetMs);
    return this;
  }

  #take(bytes: Uint8Array, view: DataView, at: number, wallOffsetMs: number): void {
    const tag = bytes[at]!;
    const valueAt = at + 2;
    const end = valueAt + bytes[at + 1]!;
    if (tag === Attribute.Failures) {
      this.failures = joined(this.failures, bytes.subarray(valueAt, end));
      return;
    }
    const counter = RARE_COUNTER_ATTRIBUTES.indexOf(tag);
    if (counter >= 0) {
      this.rareCounters[counter] = view.getUint32(valueAt, true);
      return;
    }
    this.hasOnlyFailures = false;
    switch (tag) {
      case Attribute.UniqueKey:
        this.setKey(bytes, valueAt, end, false);
        break;
      case Attribute.UntilReserve:
        this.untilReserve = true;
        this.fixed.flag(Attribute.UntilReserve);
        break;
      case Attribute.UniqueUntil:
        this.uniqueUntilMs = sinceStart(view.getFloat64(valueAt, true), wallOffsetMs);
        break;
      case Attribute.KeyJob:
        this.keyJob = view.getFloat64(valueAt, true);
        break;
      case Attribute.ExpiresAt:
        this.expiresAtMs = sinceStart(view.getFloat64(valueAt, true), wallOffsetMs);
        break;
      case Attribute.AttemptsBase:
        this.attemptsBase = view.getUint32(valueAt, true);
        break;
      case Attribute.Origin:
        this.origin = bytes.slice(valueAt, end);
        break;
      case Attribute.Reason:
        this.reason = bytes[valueAt]!;
        break;
      case Attribute.Moved:
        this.moved = true;
        break;
      case Attribute.Leaving:
        this.leaving = true;
        break;
      case Attribute.Cancelled:
        this.cancelled = bytes.slice(valueAt, end);
        break;
      case Attribute.Said:
        this.said = bytes.slice(valueAt, end);
        break;
      case Attribute.Key:
        this.keyState = bytes[valueAt]!;
        break;
      case Attribute.Batch:
        this.batch = view.getFloat64(valueAt, true);
        this.batchHasEnded = (bytes[valueAt + 8]! & BatchMark.Ended) !== 0;
        this.batchIsSpared = (bytes[valueAt + 8]! & BatchMark.Spared) !== 0;
        break;
      case Attribute.After:
        this.after = view.getFloat64(valueAt, true);
        this.afterAny = bytes[valueAt + 8] === 1;
        break;
      default:
        // Keeps unknown attributes of later versions if they are immutable.
        if (tag < FIRST_MUTABLE_ATTRIBUTE) this.fixed.text(tag as Attribute, bytes, valueAt, end);
    }
  }
}

/**
 * Converts a time of the log to the monotonic clock. A time before that clock's start lies in the
 * past. It must not become 0, which means "never": the job's next record would lose it.
 */
function sinceStart(atMs: number, wallOffsetMs: number): number {
  return atMs === 0 ? 0 : Math.max(Number.MIN_VALUE, atMs - wallOffsetMs);
}
