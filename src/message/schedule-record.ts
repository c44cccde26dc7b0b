// A schedule in the log: a PUT in state 5, and UPDATEs in the same state. Its deadline is the next
// tick, 0 if there is none; its attributes are those of its jobs (group, weight, meta) and
//
//   ScheduleName       the name
//   ScheduleCron       the cron expression, a zero byte, and the time zone
//   ScheduleRule       0  u8   missed                ScheduleProgress  0  u8   1: paused
//                      1  u8   overlap                                 1  zero
//                      2  6 zero                                       2  u16  late jobs
//                                                                      4  4 zero
//                      8  f64  interval, ms                            8  f64  version
//                      16 f64  time to live, ms                        16 f64  anchor
//                      24 f64  milliseconds of the delay               24 f64  last tick, or 0
//                                                                      32 f64  each counter of
//                                                                              schema/schedule.ts
//
//   ScheduleHeld       f64  the next tick before the wall clock went back; absent if it has not
//
// The rest of the delay, pri and ttr are in their fields. All times are of the wall clock.

import { latin1 } from "../base/bytes.ts";
import { Attribute, type AttributeWriter } from "../protocol/job-attribute.ts";
import { INTERVAL_MS_MAX, INTERVAL_MS_MIN } from "../protocol/schedule-options.ts";
import {
  eachScheduleCounter,
  SCHEDULE_COUNTER_ROWS,
  SCHEDULE_COUNTERS,
  type ScheduleCounter,
  type ScheduleCounts,
} from "../schema/schedule.ts";

export interface ScheduleRecord {
  readonly name: string;
  readonly cron: string;
  readonly zone: string;
  readonly missed: number;
  readonly overlap: number;
  readonly everyMs: number;
  readonly ttlMs: number;
  readonly delayMillis: number;
}

export interface ProgressRecord extends ScheduleCounts {
  paused: boolean;
  version: number;
  anchorMs: number;
  /** The next tick before the wall clock went back; Infinity if there was none, 0 if it has not. */
  heldMs: number;
  lastMs: number;
  /** Of the ticks that are due at once, those that have put their jobs. */
  lateJobs: number;
}

/** The latest time that a Date can represent: no tick is later. */
export const TICK_MS_MAX = 8.64e15;
const RULE_BYTES = 32;
const COUNTERS_AT = 32;
const PROGRESS_BYTES = COUNTERS_AT + 8 * SCHEDULE_COUNTERS.length;
/** Of the oldest records, which have the first five counters. */
const PROGRESS_BYTES_MIN = 72;
/** A ScheduleHeld with its tag and length. */
const HELD_BYTES = 10;
const LATE_JOBS_AT = 2;
const scratch = new DataView(new ArrayBuffer(Math.max(RULE_BYTES, PROGRESS_BYTES)));
const scratchBytes = new Uint8Array(scratch.buffer);

/** Bytes of the attributes that describe the schedule itself, apart from those of its jobs. */
export const SCHEDULE_HEAD_BYTES_MAX: number = 4 * 2 + RULE_BYTES + PROGRESS_BYTES + 1 + HELD_BYTES;

/** Writes the immutable attributes of a schedule. */
export function writeSchedule(writer: AttributeWriter, schedule: ScheduleRecord): void {
  writeText(writer, Attribute.ScheduleName, schedule.name);
  scratch.setFloat64(0, 0, true);
  scratch.setUint8(0, schedule.missed);
  scratch.setUint8(1, schedule.overlap);
  scratch.setFloat64(8, schedule.everyMs, true);
  scratch.setFloat64(16, schedule.ttlMs, true);
  scratch.setFloat64(24, schedule.delayMillis, true);
  writer.text(Attribute.ScheduleRule, scratchBytes, 0, RULE_BYTES);
  writeText(writer, Attribute.ScheduleCron, `${schedule.cron}\0${schedule.zone}`);
}

/** Writes the mutable attribute of a schedule. */
export function writeProgress(writer: AttributeWriter, progress: Readonly<ProgressRecord>): void {
  scratch.setFloat64(0, 0, true);
  scratch.setUint8(0, progress.paused ? 1 : 0);
  scratch.setUint16(LATE_JOBS_AT, progress.lateJobs, true);
  scratch.setFloat64(8, progress.version, true);
  scratch.setFloat64(16, progress.anchorMs, true);
  scratch.setFloat64(24, progress.lastMs, true);
  for (const name of SCHEDULE_COUNTERS) scratch.setFloat64(counterAt(name), progress[name], true);
  writer.text(Attribute.ScheduleProgress, scratchBytes, 0, PROGRESS_BYTES);
  if (progress.heldMs > 0) writer.float64(Attribute.ScheduleHeld, progress.heldMs);
}

const counterAt = (name: ScheduleCounter): number => COUNTERS_AT + 8 * SCHEDULE_COUNTER_ROWS[name].at;

function writeText(writer: AttributeWriter, tag: Attribute, text: string): void {
  for (let i = 0; i < text.length; i++) textBytes[i] = text.charCodeAt(i);
  writer.text(tag, textBytes, 0, text.length);
}
const textBytes = new Uint8Array(255);

export type WholeSchedule = ScheduleRecord & ProgressRecord & { readonly attributes: Uint8Array };

/**
 * Reads a schedule from attributes; undefined if they are not those of one. Only a log restored
 * from an edited dump has such attributes: records have checksums.
 */
export function readSchedule(bytes: Uint8Array, start: number, end: number): WholeSchedule | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const found = new Map<number, number>();
  const ofJobs: number[] = [];
  for (let at = start; at + 2 <= end && bytes[at] !== 0; at += 2 + bytes[at + 1]!) {
    found.set(bytes[at]!, at + 2);
    if (isOfJobs(bytes[at]!)) ofJobs.push(...bytes.subarray(at, at + 2 + bytes[at + 1]!));
  }
  const name = found.get(Attribute.ScheduleName);
  const rule = found.get(Attribute.ScheduleRule);
  const cron = found.get(Attribute.ScheduleCron);
  const progress = found.get(Attribute.ScheduleProgress);
  if (name === undefined || rule === undefined || cron === undefined || progress === undefined)
    return undefined;
  const progressBytes = bytes[progress - 1]!;
  if (bytes[rule - 1] !== RULE_BYTES || progressBytes < PROGRESS_BYTES_MIN) return undefined;
  const held = found.get(Attribute.ScheduleHeld);
  const [expression = "", zone = ""] = textAt(bytes, cron).split("\0");
  const schedule: WholeSchedule = {
    name: textAt(bytes, name),
    cron: expression,
    zone,
    missed: view.getUint8(rule),
    overlap: view.getUint8(rule + 1),
    everyMs: view.getFloat64(rule + 8, true),
    ttlMs: view.getFloat64(rule + 16, true),
    delayMillis: view.getFloat64(rule + 24, true),
    paused: view.getUint8(progress) === 1,
    version: view.getFloat64(progress + 8, true),
    anchorMs: view.getFloat64(progress + 16, true),
    heldMs: held === undefined ? 0 : view.getFloat64(held, true),
    lastMs: view.getFloat64(progress + 24, true),
    lateJobs: view.getUint16(progress + LATE_JOBS_AT, true),
    ...eachScheduleCounter((name) =>
      counterAt(name) + 8 <= progressBytes ? view.getFloat64(progress + counterAt(name), true) : 0,
    ),
    attributes: Uint8Array.from(ofJobs),
  };
  return isPossible(schedule) ? schedule : undefined;
}

function isPossible(schedule: WholeSchedule): boolean {
  const { name, everyMs, ttlMs, delayMillis, anchorMs, heldMs, lastMs } = schedule;
  const counts = [ttlMs, delayMillis, schedule.version, ...SCHEDULE_COUNTERS.map((name) => schedule[name])];
  if (name === "" || !counts.every((count) => count >= 0 && count <= Number.MAX_SAFE_INTEGER)) return false;
  if (![anchorMs, lastMs].every((ms) => Math.abs(ms) <= TICK_MS_MAX)) return false;
  if (!(heldMs >= 0 && (heldMs <= TICK_MS_MAX || heldMs === Number.POSITIVE_INFINITY))) return false;
  return everyMs === 0 || (everyMs >= INTERVAL_MS_MIN && everyMs <= INTERVAL_MS_MAX);
}

const isOfJobs = (tag: number): boolean =>
  tag === Attribute.Group || tag === Attribute.Weight || tag === Attribute.Meta;

function textAt(bytes: Uint8Array, at: number): string {
  return latin1(bytes, at, at + bytes[at - 1]!);
}
