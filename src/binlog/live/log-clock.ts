// The log's clock, which the times in its records follow. It is the wall clock without the steps
// that it made while a server ran, so that a delay lasts as long as it was recorded to, whoever
// sets the wall clock. The log has a note of how far the wall clock is ahead:
// docs/architecture/log-format.md.

import { assert } from "../../base/assert.ts";
import type { Storage } from "./storage.ts";
import { settingRecord } from "./whole-job.ts";

/** The note is a SETTING of this pattern, which matches no tube. Older servers ignore it. */
export const CLOCK_PATTERN = "@clock";
const AHEAD = "ahead=";
/** Time between two looks at the wall clock. */
const LOOK_MS = 1000;
/** A smaller difference isn't noted: readings of two clocks differ by as much under load. */
const STEP_MS_MIN = 100;
/** No clock shows a later time: the end of the year 9999. */
const LAST_MS = 253_402_300_800_000;

interface LogClockOptions {
  readonly storage: Storage;
  /** How far the wall clock is ahead of the log's clock, as the log has it. */
  readonly notedMs: number;
  /** When the newest job was put, by the log's clock; 0 if there is none. */
  readonly newestMs: number;
  /** Returns wall clock minus monotonic clock now, in ms. */
  readonly wallOffsetMs: () => number;
  readonly nowMs: number;
}

/** Returns how far ahead the wall clock is, according to the text of a note. */
export function readClock(text: string | undefined): number {
  const aheadMs = text?.startsWith(AHEAD) === true ? Number(text.slice(AHEAD.length)) : 0;
  return Math.abs(aheadMs) < LAST_MS ? aheadMs : 0;
}

const clockText = (aheadMs: number): string => `${AHEAD}${Math.round(aheadMs)}`;

export class LogClock {
  /** The log's clock minus the monotonic clock, ms. It never changes while the server runs. */
  readonly offsetMs: number;
  readonly #storage: Storage;
  readonly #wallOffsetMs: () => number;
  #notedMs: number;
  /** When to look at the wall clock next, in monotonic ms. */
  lookAtMs: number;

  constructor({ storage, notedMs, newestMs, wallOffsetMs, nowMs }: LogClockOptions) {
    this.#storage = storage;
    this.#wallOffsetMs = wallOffsetMs;
    this.#notedMs = notedMs;
    const wallMs = nowMs + wallOffsetMs();
    // If the wall clock shows a time before the newest job, it is behind, or was ahead and nobody
    // noted it: no time has passed since.
    const newest = newestMs < LAST_MS ? newestMs : 0;
    this.offsetMs = Math.max(wallMs - notedMs, newest) - nowMs;
    this.lookAtMs = nowMs;
  }

  /** Notes how far the wall clock is ahead, if that has changed. Call it once `lookAtMs` is due. */
  look(nowMs: number): void {
    assert(Number.isFinite(nowMs), "a look has a time");
    this.lookAtMs = nowMs + LOOK_MS;
    const aheadMs = this.#wallOffsetMs() - this.offsetMs;
    if (Math.abs(aheadMs - this.#notedMs) < STEP_MS_MIN) return;
    // Without room, the next look tries again.
    if (this.#storage.appendNow(settingRecord(CLOCK_PATTERN, clockText(aheadMs)))) this.#notedMs = aheadMs;
  }
}
