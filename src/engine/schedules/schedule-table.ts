// The schedules of one shard, and their order in time.

import { assert, CHECKED } from "../../base/assert.ts";
import type { BodyArena } from "../jobs/body-arena.ts";
import { TimerHeap } from "../queues/timer-heap.ts";
import type { Schedule } from "./schedule.ts";

/** Maximum number of schedules of a shard. */
export const SCHEDULES_MAX = 20_000;

export class ScheduleTable {
  readonly #byName = new Map<string, Schedule>();
  readonly #bodies: BodyArena;
  /** By the wall clock. */
  readonly timers: TimerHeap<Schedule> = new TimerHeap<Schedule>();
  /** Schedules with further due ticks. They take turns, and must not delay those in `timers`. */
  readonly behind: Set<Schedule> = new Set<Schedule>();
  /** Number of schedules; a field, because every put reads it. */
  size = 0;
  /** Bytes of names, expressions and attributes. */
  textBytes = 0;
  readonly paused = new Set<Schedule>();
  /** Schedules whose tick was last refused, until it gets its job or is passed over. */
  readonly refused = new Set<Schedule>();
  /** Schedules whose next tick was set back with the wall clock. */
  readonly held = new Set<Schedule>();
  /** Schedules that have missed ticks, until they put a job or are paused. */
  readonly missing = new Set<Schedule>();

  constructor(bodies: BodyArena) {
    this.#bodies = bodies;
  }

  get isFull(): boolean {
    return this.size >= SCHEDULES_MAX;
  }

  get(name: string): Schedule | undefined {
    return this.#byName.get(name);
  }

  values(): MapIterator<Schedule> {
    return this.#byName.values();
  }

  /** Adds a schedule with a new name. */
  add(schedule: Schedule): void {
    assert(!this.#byName.has(schedule.name), "a name has one schedule");
    this.#byName.set(schedule.name, schedule);
    this.size = this.#byName.size;
    this.textBytes += textBytesOf(schedule);
    if (schedule.paused) this.paused.add(schedule);
    if (schedule.heldMs > 0) this.held.add(schedule);
    if (schedule.missedInARow > 0) this.missing.add(schedule);
  }

  /** Forgets a schedule and frees its body. */
  remove(schedule: Schedule): void {
    assert(this.#byName.get(schedule.name) === schedule, "a schedule is forgotten once");
    this.#byName.delete(schedule.name);
    this.size = this.#byName.size;
    this.timers.set(schedule.timer, Number.POSITIVE_INFINITY);
    this.behind.delete(schedule);
    this.textBytes -= textBytesOf(schedule);
    this.paused.delete(schedule);
    this.refused.delete(schedule);
    this.held.delete(schedule);
    this.missing.delete(schedule);
    assert(this.textBytes >= 0, "the sums of schedules add up");
    this.#bodies.free(schedule.body);
  }

  /** Returns how far the slowest schedule is behind at `wallMs`: how long its tick has been due. */
  lateMs(wallMs: number): number {
    const { first } = this.timers;
    // A tick in a pause is not late: it is passed over as soon as the log can take ticks.
    let earliestMs = first === undefined || first.paused ? wallMs : first.nextMs;
    // In `timers`, these are at their next attempt, or absent.
    for (const { nextMs } of this.refused) earliestMs = Math.min(earliestMs, nextMs);
    for (const { nextMs } of this.behind) earliestMs = Math.min(earliestMs, nextMs);
    return Math.max(0, wallMs - earliestMs);
  }

  /** Begins or ends a pause. */
  setPaused(schedule: Schedule, paused: boolean): void {
    if (schedule.paused === paused) return;
    schedule.paused = paused;
    if (paused) this.paused.add(schedule);
    else this.paused.delete(schedule);
    assert(this.paused.size <= this.size, "only existing schedules are paused");
    this.refused.delete(schedule);
    this.noteMissed(schedule, 0);
  }

  /** Notes the next tick that a schedule had before the wall clock went back, or 0. */
  setHeld(schedule: Schedule, heldMs: number): void {
    schedule.heldMs = heldMs;
    if (heldMs > 0) this.held.add(schedule);
    else this.held.delete(schedule);
  }

  /** Goes on to a later tick. A hold ends where the clock comes to the time before it went back. */
  setNext(schedule: Schedule, nextMs: number): void {
    assert(nextMs > schedule.nextMs, "ticks follow each other");
    schedule.nextMs = nextMs;
    if (schedule.heldMs > 0 && nextMs >= schedule.heldMs) this.setHeld(schedule, 0);
  }

  /** Notes how many ticks a schedule has missed in a row. */
  noteMissed(schedule: Schedule, ticks: number): void {
    schedule.missedInARow = ticks;
    if (ticks > 0) this.missing.add(schedule);
    else this.missing.delete(schedule);
  }

  /** When the next schedule needs attention, on the wall clock; 0 for now. */
  get nextAtMs(): number {
    return this.behind.size > 0 ? 0 : this.timers.nextAtMs;
  }

  /** Sets the timer of a schedule to its next tick, or clears it if the schedule is frozen. */
  setTimer(schedule: Schedule, retryAtMs = 0): void {
    if (CHECKED) assert(this.get(schedule.name) === schedule, "a schedule with a timer exists");
    this.behind.delete(schedule);
    const atMs = Math.max(schedule.nextMs, retryAtMs);
    assert(!Number.isNaN(atMs), "the next tick of a schedule is a time, or never");
    this.timers.set(schedule.timer, schedule.isFrozen ? Number.POSITIVE_INFINITY : atMs);
  }

  /** Does the same after a tick that was handled at `wallMs`. A due schedule joins `behind`. */
  setTimerAfterTick(schedule: Schedule, wallMs: number): void {
    this.setTimer(schedule);
    if (schedule.timer.atMs > wallMs) return;
    this.timers.set(schedule.timer, Number.POSITIVE_INFINITY);
    this.behind.add(schedule);
  }
}

function textBytesOf({ name, facts }: Schedule): number {
  const { tube, timing, attributes } = facts;
  return name.length + tube.length + timing.cron.length + timing.zone.length + attributes.length;
}
