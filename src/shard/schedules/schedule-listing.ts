// A page of list-schedules: finds the first schedules by name after a given one, without sorting
// all of them, over as many turns as it takes.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Schedule } from "../../engine/schedules/schedule.ts";
import { type ScheduleLine, type SchedulePage, schedulePage } from "../../protocol/schedule-list.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";
import { scheduleLine } from "./schedule-text.ts";

/** Cost in Engine.looks, for each schedule and for each line. */
const SCHEDULE_LOOKS = 3;
const LINE_LOOKS = 60;
/** A line takes as long as changing so many jobs. */
const JOBS_PER_LINE = 5;

interface ListedSchedules {
  /** The page begins with the first name above this one. */
  readonly after: string;
  /** Undefined for all tubes. */
  readonly tube: string | undefined;
  readonly limit: number;
}

export class ScheduleListing implements SlicedCommand {
  readonly #engine: Engine;
  readonly #session: ShardSession;
  readonly #listed: ListedSchedules;
  readonly #finish: (page: SchedulePage) => void;
  /** Those that are not looked at yet. New ones come last, so none is missed. */
  readonly #left: Iterator<Schedule, undefined>;
  /** The first ones so far, by name. */
  readonly #found: Schedule[] = [];
  #hasMore = false;
  readonly #lines: ScheduleLine[] = [];
  #hasLooked = false;

  constructor(
    engine: Engine,
    session: ShardSession,
    listed: ListedSchedules,
    finish: (page: SchedulePage) => void,
  ) {
    assert(listed.limit > 0, "a page has room for a schedule");
    this.#engine = engine;
    this.#session = session;
    this.#listed = listed;
    this.#finish = finish;
    this.#left = engine.schedules.table.values();
  }

  get jobs(): number {
    const { size } = this.#engine.schedules.table;
    return size + JOBS_PER_LINE * Math.min(size, this.#listed.limit);
  }

  step(jobsMax: number): boolean {
    assert(jobsMax > 0, "a slice looks at a schedule");
    // The client is gone.
    if (this.#session.ended) return true;
    let left = jobsMax;
    for (; left > 0 && !this.#hasLooked; left--) {
      const { value } = this.#left.next();
      this.#engine.looks += SCHEDULE_LOOKS;
      if (value === undefined) this.#hasLooked = true;
      else this.#look(value);
    }
    for (; left > 0 && this.#lines.length < this.#found.length; left -= JOBS_PER_LINE) {
      const schedule = this.#found[this.#lines.length]!;
      this.#engine.looks += LINE_LOOKS;
      this.#lines.push({ name: schedule.name, line: scheduleLine(schedule) });
    }
    return this.#hasLooked && this.#lines.length === this.#found.length;
  }

  #look(schedule: Schedule): void {
    const { after, tube, limit } = this.#listed;
    const { name, facts } = schedule;
    if (name <= after || (tube !== undefined && facts.tube !== tube)) return;
    const found = this.#found;
    const isFull = found.length === limit;
    if (isFull && name > found[limit - 1]!.name) {
      this.#hasMore = true;
      return;
    }
    const place = placeOf(found, name);
    // Meanwhile, it may have been set again, or deleted and set.
    if (found[place]?.name === name) {
      found[place] = schedule;
      return;
    }
    if (isFull) {
      this.#hasMore = true;
      found.pop();
    }
    found.splice(place, 0, schedule);
    assert(found.length <= limit, "the first schedules are no more than asked for");
  }

  finish(): void {
    this.#finish(schedulePage(this.#lines, this.#listed.limit, this.#hasMore));
  }
}

/** Returns where a name belongs in a sorted list. */
function placeOf(sorted: readonly Schedule[], name: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.name < name) low = middle + 1;
    else high = middle;
  }
  return low;
}
