// The failures that the server keeps for each job, as bytes: the last five, newest first. The
// engine keeps them in this form, and the log in attributes (job-attribute.ts).
//
//   0  f64  when; monotonic ms in the engine, wall-clock ms in the log
//   8  u32  the attempt that failed, from 1; 0 for none
//   12 u8   a FailureCause
//   13 u8   bytes of the worker's name
//   14 u16  bytes of the reason
//   16 the worker's name, then the reason
//
// All numbers are little endian.

import { latin1 } from "../base/bytes.ts";

/** The event that ended the attempt. */
export const FailureCause = {
  /** The worker released the job and gave a reason. */
  Released: 1,
  /** The worker buried the job. */
  Buried: 2,
  /** The TTR of the reservation ended. */
  TimedOut: 3,
  /** The connection of the worker ended. */
  Disconnected: 4,
  /** The TTL of the job ended, and its tube keeps expired jobs. */
  Expired: 5,
} as const;
export type FailureCause = (typeof FailureCause)[keyof typeof FailureCause];

/** The words for causes, by FailureCause. */
export const CAUSE_WORDS: readonly string[] = [
  "unknown",
  "released",
  "buried",
  "timed-out",
  "disconnected",
  "expired",
];

/** The failures that a job keeps. */
export const FAILURES_MAX = 5;
export const REASON_BYTES_MAX = 1024;
export const WORKER_BYTES_MAX = 63;
export const FAILURE_HEAD_BYTES = 16;
export const FAILURES_BYTES_MAX: number =
  FAILURES_MAX * (FAILURE_HEAD_BYTES + WORKER_BYTES_MAX + REASON_BYTES_MAX);

export interface Failure {
  readonly atMs: number;
  readonly attempt: number;
  /** One of CAUSE_WORDS. */
  readonly cause: string;
  /** Name or address of the worker; "" if there was none. Latin-1, as the reason. */
  readonly worker: string;
  readonly reason: string;
}

/** Returns the end of the failure at `at`, whose head must lie within `bytes`. */
export function failureEnd(bytes: Uint8Array, at: number): number {
  return at + FAILURE_HEAD_BYTES + bytes[at + 13]! + bytes[at + 14]! + 256 * bytes[at + 15]!;
}

export function failuresAreWhole(bytes: Uint8Array): boolean {
  let count = 0;
  let at = 0;
  for (; at + FAILURE_HEAD_BYTES <= bytes.length; at = failureEnd(bytes, at)) {
    const reasonBytes = bytes[at + 14]! + 256 * bytes[at + 15]!;
    if (bytes[at + 13]! > WORKER_BYTES_MAX || reasonBytes > REASON_BYTES_MAX) return false;
    count++;
  }
  return at === bytes.length && count > 0 && count <= FAILURES_MAX;
}

/** Adds a number of ms to the times of whole failures. */
export function shiftFailures(bytes: Uint8Array, byMs: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; at = failureEnd(bytes, at))
    view.setFloat64(at, view.getFloat64(at, true) + byMs, true);
}

/** Returns whole failures as objects, newest first. */
export function readFailures(bytes: Uint8Array): Failure[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const failures: Failure[] = [];
  for (let at = 0; at < bytes.length; at = failureEnd(bytes, at)) {
    const workerAt = at + FAILURE_HEAD_BYTES;
    const reasonAt = workerAt + bytes[at + 13]!;
    failures.push({
      atMs: view.getFloat64(at, true),
      attempt: view.getUint32(at + 8, true),
      cause: CAUSE_WORDS[bytes[at + 12]!] ?? CAUSE_WORDS[0]!,
      worker: latin1(bytes, workerAt, reasonAt),
      reason: latin1(bytes, reasonAt, failureEnd(bytes, at)),
    });
  }
  return failures;
}
