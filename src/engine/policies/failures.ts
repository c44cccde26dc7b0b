// The failures of jobs: why and when their last attempts failed, which worker held them, and how
// many ended with the connection of their worker.
//
// A job that has failed has a cell in the body arena; its length comes first, then its failures
// (protocol/job-failure.ts). The handles and the rare counters (schema/job.ts) are columns that
// only pages with such a job have. Without memory for a failure, or beyond --max-memory, it goes
// unrecorded, though disconnects still count: no command fails for it.

import { assert } from "../../base/assert.ts";
import { copyBytes } from "../../base/bytes.ts";
import { Attribute, type AttributeWriter } from "../../protocol/job-attribute.ts";
import {
  FAILURE_HEAD_BYTES,
  FAILURES_BYTES_MAX,
  FAILURES_MAX,
  FailureCause,
  failureEnd,
  REASON_BYTES_MAX,
  shiftFailures,
  WORKER_BYTES_MAX,
} from "../../protocol/job-failure.ts";
import type { Span } from "../../protocol/request.ts";
import { FIXED_COUNTERS, JobCounter, RARE_COUNTER_ATTRIBUTES, RARE_COUNTERS } from "../../schema/job.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { type JobPage, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { JobAttributes } from "../jobs/new-job.ts";
import type { ShardState, WorkerName } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import type { TubePolicy } from "../tubes/tube-settings.ts";

// Attempts of jobs and the backoff after each lost one. An attempt is a reservation that counts:
// kicks and blameless returns raise the job's `attemptsBase`.

/** Returns the number of the job's attempts. */
export function attemptsOf(page: JobPage, row: number): number {
  return page.count(row, JobCounter.reserves) - (page.extras?.attemptsBase[row] ?? 0);
}

/** Returns whether the job has used up the attempts that its tube allows. */
export function isSpent({ policy }: Tube, attempts: number): boolean {
  return policy !== undefined && policy.maxAttempts > 0 && attempts >= policy.maxAttempts;
}

/** Restores all attempts of a job, and its first backoff, if its tube counts attempts. */
export function resetAttempts(page: JobPage, row: number, { policy }: Tube): void {
  const counts = policy !== undefined && (policy.maxAttempts > 0 || policy.backoffMs > 0);
  if (counts && page.count(row, JobCounter.reserves) > 0)
    page.makeExtras().attemptsBase[row] = page.count(row, JobCounter.reserves);
}

/**
 * Returns how long a job waits after its `attempts`-th lost attempt: twice as long as after the
 * previous one, minus up to a quarter. That keeps jobs that failed together from returning
 * together. Deterministic, so a replay computes the same.
 */
export function backoffMs(policy: TubePolicy, id: number, attempts: number): number {
  assert(policy.backoffMs > 0, "a backoff is positive");
  const exponent = Math.min(60, Math.max(0, attempts - 1));
  const wholeMs = Math.min(policy.backoffMaxMs, policy.backoffMs * 2 ** exponent, MAX_DELAY_MS);
  assert(wholeMs < Number.POSITIVE_INFINITY, "a backoff has an end");
  return Math.max(1, Math.round(wholeMs * (1 - spread(id, attempts) / 4)));
}

/** The longest delay that a command can set. */
const MAX_DELAY_MS = 0xffff_ffff * 1000;

/** Returns a pseudo-random number from 0 to below 1, from a hash. */
function spread(id: number, attempts: number): number {
  let hash = Math.imul((id % 0x1_0000_0000) ^ Math.imul(attempts, 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000;
}

const NO_BYTES = new Uint8Array(0);
const LENGTH_BYTES = 2;
/** The attribute of a rare counter. */
const COUNTER_BYTES = 6;
/** Maximum bytes in an attribute of the log. */
const CHUNK_BYTES = 255;
/** A job that lost no worker for this time is no longer the worst of its tube. */
const LOST_JOB_MS = 600_000;
/** No session: no client held the job. */
export const NOBODY = -1;

export class Failures {
  readonly #shard: ShardState;
  readonly #workerName: WorkerName;
  readonly #old = new Uint8Array(FAILURES_BYTES_MAX);
  /** A cell: the length, then failures. */
  readonly #cell = new Uint8Array(LENGTH_BYTES + FAILURES_BYTES_MAX);
  readonly #view = new DataView(this.#cell.buffer);

  constructor(shard: ShardState, workerName: WorkerName) {
    this.#shard = shard;
    this.#workerName = workerName;
  }

  /**
   * Records that the job's attempt failed now, with the session that held it (or NOBODY) and at
   * most REASON_BYTES_MAX bytes of reason. The caller logs the job. Returns false if there is no
   * memory for it.
   */
  add(slot: number, cause: FailureCause, session: number, nowMs: number, reason?: Span): boolean {
    if (cause === FailureCause.Disconnected) this.#countDisconnect(slot, nowMs);
    if (!this.#shard.bodies.limit.allows) return false;
    const page = this.#shard.jobs.pageOf(slot);
    const cell = this.#cell;
    const start = LENGTH_BYTES + FAILURE_HEAD_BYTES;
    const job = page.id[rowOf(slot)]!;
    const workerBytes = session === NOBODY ? 0 : this.#workerName(session, job, cell, start);
    const reasonBytes = reason?.length ?? 0;
    assert(
      workerBytes <= WORKER_BYTES_MAX && reasonBytes <= REASON_BYTES_MAX,
      "a failure is of bounded size",
    );
    this.#view.setFloat64(LENGTH_BYTES, nowMs, true);
    this.#view.setUint32(LENGTH_BYTES + 8, session === NOBODY ? 0 : attemptsOf(page, rowOf(slot)), true);
    cell[LENGTH_BYTES + 12] = cause;
    cell[LENGTH_BYTES + 13] = workerBytes;
    this.#view.setUint16(LENGTH_BYTES + 14, reasonBytes, true);
    reason?.copyTo(cell, start + workerBytes);
    const old = this.of(slot);
    const keptBytes = endOfNewest(old, FAILURES_MAX - 1);
    copyBytes(cell, start + workerBytes + reasonBytes, old, 0, keptBytes);
    return this.#store(slot, FAILURE_HEAD_BYTES + workerBytes + reasonBytes + keptBytes);
  }

  /** Counts a reservation that ended with its connection, even without room for the failure. */
  #countDisconnect(slot: number, nowMs: number): void {
    const tube = this.#shard.tubeOf(slot);
    this.#shard.jobDisconnects++;
    tube.disconnects++;
    const count = this.countRare(slot, JobCounter.disconnects);
    const worst = nowMs - tube.lostAtMs > LOST_JOB_MS ? NO_SLOT : this.lostJobOf(tube);
    if (worst !== NO_SLOT && this.#disconnectsOf(worst) > count) return;
    tube.lostJob = this.#shard.jobs.pageOf(slot).id[rowOf(slot)]!;
    tube.lostAtMs = nowMs;
  }

  /** Returns the job of a tube that lately lost the most workers, or NO_SLOT. */
  lostJobOf(tube: Tube): number {
    if (tube.lostJob === 0) return NO_SLOT;
    const slot = this.#shard.find(tube.lostJob);
    return slot !== NO_SLOT && this.#shard.tubeOf(slot) === tube ? slot : NO_SLOT;
  }

  /** Adds 1 to a rare counter and returns it. Without memory, the job keeps the former count. */
  countRare(slot: number, counter: JobCounter): number {
    const count = this.#shard.jobs.pageOf(slot).count(rowOf(slot), counter) + 1;
    this.#setRare(slot, counter, count);
    return count;
  }

  #setRare(slot: number, counter: JobCounter, count: number): void {
    const { jobs } = this.#shard;
    const page = jobs.pageOf(slot);
    try {
      jobs.makeFailures(page);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return;
    }
    page.rareCounters![rowOf(slot) * RARE_COUNTERS + counter - FIXED_COUNTERS] = count;
  }

  #disconnectsOf(slot: number): number {
    return this.#shard.jobs.pageOf(slot).count(rowOf(slot), JobCounter.disconnects);
  }

  /** Gives a job of the log or of another shard its failures and rare counters. */
  restore(slot: number, { failures, rareCounters }: Pick<JobAttributes, "failures" | "rareCounters">): void {
    assert(failures.length <= FAILURES_BYTES_MAX, "a job keeps its last failures only");
    for (let k = 0; k < RARE_COUNTERS; k++)
      if (rareCounters[k]! > 0) this.#setRare(slot, (FIXED_COUNTERS + k) as JobCounter, rareCounters[k]!);
    if (failures.length === 0) return;
    copyBytes(this.#cell, LENGTH_BYTES, failures, 0, failures.length);
    this.#store(slot, failures.length);
  }

  /** Stores the failures in `#cell` in place of the job's. */
  #store(slot: number, length: number): boolean {
    const { bodies, jobs } = this.#shard;
    const row = rowOf(slot);
    assert(length > 0 && length <= FAILURES_BYTES_MAX, "a cell has failures, and room for them");
    this.#view.setUint16(0, length, true);
    let handle: number = EMPTY_BODY;
    try {
      const handles = jobs.makeFailures(jobs.pageOf(slot));
      handle = bodies.allocate(LENGTH_BYTES + length);
      bodies.write(handle, 0, this.#cell, 0, LENGTH_BYTES + length);
      bodies.free(handles[row]!);
      handles[row] = handle;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      bodies.free(handle);
      return false;
    }
    return true;
  }

  /** Returns the job's failures in monotonic times. They are valid until the next call. */
  of(slot: number): Uint8Array {
    const handle = this.#shard.jobs.pageOf(slot).failures?.[rowOf(slot)] ?? EMPTY_BODY;
    if (handle === EMPTY_BODY) return NO_BYTES;
    const { bodies } = this.#shard;
    bodies.read(handle, 0, this.#old, 0, LENGTH_BYTES);
    const length = this.#old[0]! + 256 * this.#old[1]!;
    assert(length <= FAILURES_BYTES_MAX, "the failures of a job fit into the scratch space");
    bodies.read(handle, LENGTH_BYTES, this.#old, 0, length);
    return this.#old.subarray(0, length);
  }

  /** Frees the failures of a job that is removed. Its page must have a column for them. */
  forget(slot: number): void {
    const { failures, rareCounters } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(
      failures !== undefined && rareCounters !== undefined,
      "the page of a job that failed has columns for failures",
    );
    this.#shard.bodies.free(failures[row]!);
    failures[row] = EMPTY_BODY;
    rareCounters.fill(0, row * RARE_COUNTERS, (row + 1) * RARE_COUNTERS);
  }

  /** Writes the attributes with the job's failures, in wall-clock times, and its rare counters. */
  write(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const page = this.#shard.jobs.pageOf(slot);
    for (let k = 0; k < RARE_COUNTERS; k++) {
      const count = page.count(rowOf(slot), (FIXED_COUNTERS + k) as JobCounter);
      if (count > 0) writer.uint32(RARE_COUNTER_ATTRIBUTES[k]!, count);
    }
    const failures = this.of(slot);
    if (failures.length === 0) return;
    shiftFailures(failures, wallOffsetMs);
    for (let at = 0; at < failures.length; at += CHUNK_BYTES)
      writer.text(Attribute.Failures, failures, at, Math.min(failures.length, at + CHUNK_BYTES));
  }

  /** Returns the maximum number of bytes that `write` appends, with the padding of a long list. */
  attributeBytes(slot: number): number {
    const { length } = this.of(slot);
    return length + 2 * Math.ceil(length / CHUNK_BYTES) + RARE_COUNTERS * COUNTER_BYTES + 32;
  }
}

/** Returns where the newest `count` failures end. */
function endOfNewest(failures: Uint8Array, count: number): number {
  let end = 0;
  for (let left = count; left > 0 && end < failures.length; left--) end = failureEnd(failures, end);
  assert(end <= failures.length, "the failures of a job are whole");
  return end;
}
