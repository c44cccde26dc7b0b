// A page of list-schedules: finds the first schedules by name after a given one, without sorting
// all of them, over as many turns as it takes.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { Refusal, type Schedule, type Schedules } from "../../engine/schedules.ts";
import { Attribute, findAttribute, metaOf, wholeAttribute } from "../../protocol/job-attribute.ts";
import { type ScheduleLine, type SchedulePage, schedulePage } from "../../protocol/schedule-list.ts";
import { MISSED_WORDS, OVERLAP_WORDS, SCHEDULE_SHOWN_BYTES_MAX } from "../../protocol/schedule-options.ts";
import { eachOf } from "../../schema/names.ts";
import { LISTED_COUNTERS, SCHEDULE_COUNTERS, scheduleCounterWord } from "../../schema/schedule.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";

// The texts of inspect-schedule and list-schedules about a schedule.

export const REFUSAL_WORDS: Readonly<Record<Refusal, string>> = {
  [Refusal.None]: "none",
  [Refusal.TubeFull]: "TUBE_FULL",
  [Refusal.OutOfMemory]: "OUT_OF_MEMORY",
  [Refusal.LogFull]: "LOG_FULL",
  [Refusal.Draining]: "DRAINING",
};

/** Returns a time such as `2026-11-24T01:30:00.000Z`, or undefined for none. */
const timeOf = (ms: number): string | undefined =>
  ms > 0 && ms < Number.POSITIVE_INFINITY ? new Date(ms).toISOString() : undefined;

/** Returns a text for YAML, in which characters beyond ASCII are escaped. */
const quoted = (value: unknown): string =>
  JSON.stringify(value).replace(/[\x7f-\xff]/g, (byte) => `\\u00${byte.charCodeAt(0).toString(16)}`);

/** Returns the YAML of inspect-schedule. `runs` are the next ticks; Infinity is none. */
export function inspectScheduleText(engine: Engine, schedule: Schedule, runs: readonly number[]): string {
  const { facts, bodyBytes } = schedule;
  const { timing, attributes } = facts;
  const groupAt = findAttribute(attributes, 0, attributes.length, Attribute.Group);
  const group =
    groupAt < 0 ? "none" : quoted(latin1(attributes, groupAt, groupAt + attributes[groupAt - 1]!));
  const weight = wholeAttribute(attributes, attributes.length, Attribute.Weight);
  const shown = new Uint8Array(Math.min(bodyBytes, SCHEDULE_SHOWN_BYTES_MAX));
  engine.bodies.read(schedule.body, 0, shown, 0, shown.length);
  return `---
name: ${quoted(schedule.name)}
tube: ${quoted(facts.tube)}
cron: ${timing.everyMs === 0 ? quoted(timing.cron) : "none"}
every: ${timing.everyMs / 1000}
tz: ${quoted(timing.zone)}
missed: ${MISSED_WORDS[facts.missed]}
overlap: ${OVERLAP_WORDS[facts.overlap]}
paused: ${schedule.paused}
next: ${timeOf(schedule.nextMs) ?? "never"}
next-runs: ${quoted(runs.map(timeOf).filter((time) => time !== undefined))}
last: ${timeOf(schedule.lastMs) ?? "never"}
${SCHEDULE_COUNTERS.map((name) => `${scheduleCounterWord(name)}: ${schedule[name]}`).join("\n")}
last-refusal: ${REFUSAL_WORDS[schedule.lastRefusal]}
pri: ${facts.pri}
delay: ${facts.delaySeconds + facts.delayMillis / 1000}
ttr: ${facts.ttrSeconds}
ttl: ${facts.ttlMs / 1000}
group: ${group}
weight: ${weight}
meta: ${quoted(metaOf(attributes))}
bytes: ${bodyBytes}
body: ${quoted(latin1(shown, 0, shown.length))}
`;
}

function scheduleLine(schedule: Schedule): string {
  const { name, facts, paused, bodyBytes } = schedule;
  const { timing, missed, overlap, tube } = facts;
  const isCron = timing.everyMs === 0;
  const row = {
    name,
    tube,
    cron: isCron ? timing.cron : null,
    every: timing.everyMs / 1000,
    tz: timing.zone,
    missed: MISSED_WORDS[missed],
    overlap: OVERLAP_WORDS[overlap],
    paused,
    next: timeOf(schedule.nextMs) ?? null,
    last: timeOf(schedule.lastMs) ?? null,
    ...eachOf(LISTED_COUNTERS, (counter) => schedule[counter]),
    bytes: bodyBytes,
  };
  return `- ${quoted(row)}\n`;
}

// The next ticks of a schedule for inspect-schedule, one after another: the search for one may take
// some milliseconds.

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
