// The next ticks of a schedule for inspect-schedule, one after another: the search for one may take
// some milliseconds.

import type { Schedule } from "../../engine/schedules/schedule.ts";
import type { Schedules } from "../../engine/schedules/schedules.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

const RUNS = 5;

export class NextRuns implements SlicedCommand {
  readonly jobs = 1;
  readonly #schedules: Schedules;
  readonly #name: string;
  readonly #finish: (schedule: Schedule | undefined, runs: readonly number[]) => void;
  #schedule: Schedule | undefined;
  #runs: number[] = [];

  /** `finish` gets undefined if the schedule no longer exists. */
  constructor(
    schedules: Schedules,
    name: string,
    finish: (schedule: Schedule | undefined, runs: readonly number[]) => void,
  ) {
    this.#schedules = schedules;
    this.#name = name;
    this.#finish = finish;
  }

  step(): boolean {
    const schedule = this.#schedules.table.get(this.#name);
    const runs = this.#runs;
    // Meanwhile, the schedule may have been deleted or set again, or its next tick may have
    // changed.
    if (schedule !== this.#schedule || schedule?.nextMs !== runs[0]) {
      this.#schedule = schedule;
      this.#runs = schedule === undefined ? [] : [schedule.nextMs];
    } else if (schedule !== undefined) runs.push(this.#schedules.tickAfter(schedule, runs.at(-1)!));
    return (
      this.#runs.length >= RUNS ||
      (this.#runs.at(-1) ?? Number.POSITIVE_INFINITY) === Number.POSITIVE_INFINITY
    );
  }

  finish(): void {
    this.#finish(this.#schedule, this.#runs);
  }
}
