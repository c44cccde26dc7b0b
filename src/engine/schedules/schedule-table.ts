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
  /** Number of schedules; a field, because every put reads it. */
  size = 0;
  /** Bytes of names, expressions and attributes. */
  textBytes = 0;

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
  }

  /** Forgets a schedule and frees its body. */
  remove(schedule: Schedule): void {
    assert(this.#byName.get(schedule.name) === schedule, "a schedule is forgotten once");
    this.#byName.delete(schedule.name);
    this.size = this.#byName.size;
    this.timers.set(schedule.timer, Number.POSITIVE_INFINITY);
    this.textBytes -= textBytesOf(schedule);
    assert(this.textBytes >= 0, "the bytes of schedules add up");
    this.#bodies.free(schedule.body);
  }

  /** Sets when a schedule is looked at: at its next tick, unless it is paused or frozen. */
  aim(schedule: Schedule, retryAtMs = 0): void {
    if (CHECKED) assert(this.get(schedule.name) === schedule, "a schedule that is awaited is there");
    const rests = schedule.paused || schedule.isFrozen;
    this.timers.set(schedule.timer, rests ? Number.POSITIVE_INFINITY : Math.max(schedule.nextMs, retryAtMs));
  }
}

function textBytesOf({ name, facts }: Schedule): number {
  const { tube, timing, attributes } = facts;
  return name.length + tube.length + timing.cron.length + timing.zone.length + attributes.length;
}
