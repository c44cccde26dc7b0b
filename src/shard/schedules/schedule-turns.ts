// When a shard looks for ticks that are due, and how many it works off in a turn.

import type { Schedules } from "../../engine/schedules/schedules.ts";

/** The wall clock may be set, so a shard with schedules looks at it this often. */
const LOOK_MS = 1000;
/** Ticks of one turn, and the time after which a turn takes no more. */
const TURN_TICKS_MAX = 50;
const TURN_MS = 0.5;

export class ScheduleTurns {
  readonly #schedules: Schedules;
  readonly #wallOffsetMs: () => number;
  readonly #clock: () => number;
  #lookAtMs = Number.POSITIVE_INFINITY;
  /** The earliest tick when the shard last looked. */
  #seenMs = Number.POSITIVE_INFINITY;

  /** `wallOffsetMs` returns wall clock minus monotonic clock now, in ms. */
  constructor(schedules: Schedules, wallOffsetMs: () => number, clock: () => number) {
    this.#schedules = schedules;
    this.#wallOffsetMs = wallOffsetMs;
    this.#clock = clock;
  }

  /** The time of the wall clock at this monotonic time, in whole ms. */
  wallMs(nowMs: number): number {
    return Math.floor(nowMs + this.#wallOffsetMs());
  }

  /** When to look next, in monotonic ms; Infinity without a schedule that waits for a tick. */
  get dueAtMs(): number {
    const { nextAtMs } = this.#schedules.table.timers;
    if (nextAtMs === Number.POSITIVE_INFINITY) return nextAtMs;
    // A command has set, resumed or deleted a schedule.
    return nextAtMs === this.#seenMs ? this.#lookAtMs : 0;
  }

  /** Works off ticks that are due, as far as a turn goes. */
  step(nowMs: number): void {
    if (this.dueAtMs > nowMs) return;
    const { timers } = this.#schedules.table;
    const beganMs = this.#clock();
    const offsetMs = this.#wallOffsetMs();
    const wallMs = Math.floor(nowMs + offsetMs);
    let left = TURN_TICKS_MAX;
    while (left > 0 && this.#schedules.runOne(nowMs, wallMs)) {
      left--;
      if (this.#clock() - beganMs > TURN_MS) break;
    }
    this.#seenMs = timers.nextAtMs;
    const dueAtMs = Math.max(Math.ceil(timers.nextAtMs - offsetMs), nowMs + 1);
    this.#lookAtMs = timers.nextAtMs <= wallMs ? 0 : Math.min(dueAtMs, nowMs + LOOK_MS);
  }
}
