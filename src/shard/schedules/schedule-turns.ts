// Decides when a shard checks for due ticks, and how many it handles in a turn.

import type { Schedule } from "../../engine/schedules/schedule.ts";
import { BACK_MS_MAX, type Schedules } from "../../engine/schedules/schedules.ts";

/** The wall clock may be set, so a shard with schedules reads it this often. */
const LOOK_MS = 1000;
/** Ticks of one turn, and the time after which a turn takes no more. */
const TURN_TICKS_MAX = 50;
const TURN_MS = 0.5;

export interface ScheduleTurnsOptions {
  readonly schedules: Schedules;
  /** Returns wall clock minus monotonic clock now, in ms. */
  readonly wallOffsetMs: () => number;
  readonly clock: () => number;
  /** Returns whether the log can take a tick's records now. Ticks wait until it can. */
  readonly mayLog: () => boolean;
}

export class ScheduleTurns {
  readonly #schedules: Schedules;
  readonly #wallOffsetMs: () => number;
  readonly #clock: () => number;
  readonly #mayLog: () => boolean;
  /** The furthest that the wall clock was ahead of the monotonic clock. */
  #highestOffsetMs = Number.NEGATIVE_INFINITY;
  /** By how much it was ahead when the shard last looked. */
  #offsetMs = Number.NEGATIVE_INFINITY;
  /** Schedules whose next tick may have been set by a clock that was ahead; at startup, all. */
  #suspects: Iterator<Schedule> | undefined;
  /** Schedules that may get back the tick that they had before the clock went back. */
  #held: Iterator<Schedule> | undefined;
  #lookAtMs = Number.POSITIVE_INFINITY;
  /** The earliest tick when the shard last looked. */
  #seenMs = Number.POSITIVE_INFINITY;

  constructor({ schedules, wallOffsetMs, clock, mayLog }: ScheduleTurnsOptions) {
    this.#schedules = schedules;
    this.#wallOffsetMs = wallOffsetMs;
    this.#clock = clock;
    this.#mayLog = mayLog;
    this.#suspects = schedules.table.values();
  }

  /** Returns the time of the wall clock at this monotonic time, in whole ms. */
  wallMs(nowMs: number): number {
    const offsetMs = this.#wallOffsetMs();
    this.#highestOffsetMs = Math.max(this.#highestOffsetMs, offsetMs);
    return Math.floor(nowMs + offsetMs);
  }

  /**
   * When to check next, in monotonic ms; Infinity without a schedule. A schedule without a future
   * tick counts, too: it may have ended because a clock was ahead.
   */
  get dueAtMs(): number {
    const { nextAtMs, size } = this.#schedules.table;
    // The log rings when it has room.
    if (size === 0 || !this.#mayLog()) return Number.POSITIVE_INFINITY;
    if (this.#suspects !== undefined || this.#held !== undefined) return 0;
    // A command has set, resumed or deleted a schedule.
    return nextAtMs === this.#seenMs ? this.#lookAtMs : 0;
  }

  /** Handles due ticks, as many as a turn allows. */
  step(nowMs: number): void {
    if (this.dueAtMs > nowMs) return;
    const { table } = this.#schedules;
    const beganMs = this.#clock();
    const offsetMs = this.#wallOffsetMs();
    const wallMs = Math.floor(nowMs + offsetMs);
    this.#lookForSteps(offsetMs);
    for (let left = TURN_TICKS_MAX; left > 0 && this.#mayLog(); left--) {
      // Holds end first: until then, ticks that were dealt with would be due again.
      const wasBusy =
        this.#endOneHold(wallMs) || this.#schedules.runOne(nowMs, wallMs) || this.#checkOne(wallMs);
      if (!wasBusy) break;
      if (this.#clock() - beganMs > TURN_MS) break;
    }
    this.#seenMs = table.nextAtMs;
    const dueAtMs = Math.max(Math.ceil(table.nextAtMs - offsetMs), nowMs + 1);
    this.#lookAtMs = table.nextAtMs <= wallMs ? 0 : Math.min(dueAtMs, nowMs + LOOK_MS);
  }

  #lookForSteps(offsetMs: number): void {
    if (offsetMs > this.#offsetMs + BACK_MS_MAX) this.#held = this.#schedules.table.held.values();
    this.#offsetMs = offsetMs;
    if (offsetMs < this.#highestOffsetMs - BACK_MS_MAX) {
      this.#suspects = this.#schedules.table.values();
      this.#highestOffsetMs = offsetMs;
    } else this.#highestOffsetMs = Math.max(this.#highestOffsetMs, offsetMs);
  }

  /** Ends the next hold, if the time for it has come; returns whether there was one to check. */
  #endOneHold(wallMs: number): boolean {
    const next = this.#held?.next();
    if (next === undefined) return false;
    if (next.done === true) this.#held = undefined;
    else this.#schedules.endHold(next.value, wallMs);
    return next.done !== true;
  }

  /** Corrects the next suspect; returns whether there was one. */
  #checkOne(wallMs: number): boolean {
    const next = this.#suspects?.next();
    if (next === undefined) return false;
    if (next.done === true) this.#suspects = undefined;
    else this.#schedules.correct(next.value, wallMs);
    return next.done !== true;
  }
}
