// A schedule, which puts a job at each of its times.

import type { Codec } from "./codec.ts";
import type { Link } from "./link.ts";
import {
  type ListedSchedule,
  type ScheduleOptions,
  type ScheduleReport,
  scheduleList,
  scheduleName,
  scheduleReport,
  setScheduleLine,
} from "./schedule-text.ts";

const PAGE = 1000;

/**
 * Extension `set-schedule`. Methods other than `set` throw NotFound for a schedule that doesn't
 * exist.
 */
export class Schedule<In> {
  readonly name: string;
  readonly #written: string;
  readonly #link: Link;
  readonly #codec: Codec<unknown, In>;

  constructor(name: string, link: Link, codec: Codec<unknown, In>) {
    this.name = name;
    this.#written = scheduleName(name);
    this.#link = link;
    this.#codec = codec;
  }

  /**
   * Creates the schedule, or replaces it. With the same times, the next run stays. Counts and a
   * pause always stay.
   */
  async set(tube: string, body: In, options: ScheduleOptions): Promise<void> {
    const bytes = this.#codec.encode(body);
    const line = setScheduleLine(this.name, tube, bytes.length, options);
    await this.#link.run((wire) => wire.extended(line, "SET", bytes));
  }

  /** Deletes the schedule. Jobs that it has put stay. */
  async delete(): Promise<void> {
    await this.#ask("delete-schedule", "DELETED");
  }

  /** Skips all ticks until `resume`. */
  async pause(): Promise<void> {
    await this.#ask("pause-schedule", "PAUSED");
  }

  async resume(): Promise<void> {
    await this.#ask("resume-schedule", "RESUMED");
  }

  /** Puts one job now, even during a pause, and returns its id. The next tick stays. */
  async run(): Promise<number> {
    return Number((await this.#ask("run-schedule", "INSERTED")).words[1]);
  }

  async inspect(): Promise<ScheduleReport> {
    return scheduleReport((await this.#ask("inspect-schedule", "OK", true)).body);
  }

  #ask(verb: string, accept: string, again = false) {
    return this.#link.askExtended(`${verb} ${this.#written}`, accept, again);
  }
}

/** Yields all schedules by name, or those of a tube, page by page. */
export async function* listSchedules(
  link: Link,
  tube: string | undefined,
): AsyncGenerator<ListedSchedule, void, undefined> {
  const command = `list-schedules${tube === undefined ? "" : ` tube=${tube}`} limit=${PAGE}`;
  let after = "";
  do {
    const page = after === "" ? command : `${command} after=${after}`;
    const { next, items } = scheduleList((await link.askExtended(page, "OK", true)).body, after);
    yield* items;
    after = next;
  } while (after !== "");
}
