// A schedule, which puts a job at each of its times.

import type { ListedCounter, ScheduleCounts } from "../schema/schedule.ts";
import {
  duration,
  fieldsOf,
  fromLatin1,
  itemOf,
  listOf,
  notSo,
  optionsText,
  tubeName,
  whole,
} from "./command-text.ts";
import type { Link } from "./link.ts";
import { type Codec, checkOptionsBytes, type Meta, metaOf, metaText } from "./meta.ts";

// Schedules on the wire: the options of set-schedule, and reports. The operator's command line uses
// them, too.

/** Handling of ticks while the server is down or the put is refused. */
export type Missed = "once" | "all" | "none";

/** What a tick does while a job of the schedule exists: puts another one, or none. */
export type Overlap = "allow" | "skip";

/** Either `cron` or `every`. The others apply to the jobs, as in a put. Durations in seconds. */
export interface ScheduleOptions {
  /** 5 fields; 6 with seconds first, 7 with a year last; or `@daily` and the like. */
  readonly cron?: string;
  /** At least 1. The first job comes after one interval. */
  readonly every?: number;
  /** IANA time zone of `cron`; UTC by default. */
  readonly tz?: string;
  /** `"once"` by default. */
  readonly missed?: Missed;
  /** `"allow"` by default. */
  readonly overlap?: Overlap;
  readonly pri?: number;
  readonly delay?: number;
  readonly ttr?: number;
  readonly ttl?: number;
  readonly group?: string;
  readonly weight?: number;
  readonly meta?: Meta;
}

/** A schedule in a list. */
export interface ListedSchedule extends Readonly<Record<ListedCounter, number>> {
  readonly name: string;
  readonly tube: string;
  readonly cron: string | undefined;
  readonly every: number | undefined;
  readonly tz: string;
  readonly missed: Missed;
  readonly overlap: Overlap;
  readonly paused: boolean;
  /** Undefined for never. */
  readonly next: Date | undefined;
  /** The last tick that put a job. */
  readonly last: Date | undefined;
  readonly bytes: number;
}

/** Everything that the server knows about a schedule. */
export interface ScheduleReport extends ListedSchedule, Readonly<ScheduleCounts> {
  readonly nextRuns: readonly Date[];
  /** The reply of the last refused attempt. */
  readonly lastRefusal: string | undefined;
  readonly pri: number;
  readonly delay: number;
  readonly ttr: number;
  /** 0 for none. */
  readonly ttl: number;
  readonly group: string | undefined;
  readonly weight: number;
  readonly meta: Meta;
  /** The first 4,096 bytes of the body. */
  readonly shown: Uint8Array;
}

const NAME_BYTES_MAX = 128;
const NAME = /^[!-~\x80-\xff]+$/;

/** Returns the name in the line's form. Throws TypeError for one that the server would refuse. */
export function scheduleName(name: string): string {
  const bytes = Buffer.from(name);
  const written = bytes.toString("latin1");
  if (bytes.length <= NAME_BYTES_MAX && NAME.test(written)) return written;
  throw new TypeError(
    `${JSON.stringify(name)} is not a valid schedule name: 1 to ${NAME_BYTES_MAX} bytes without blanks`,
  );
}

/** Returns the line of set-schedule. Throws for options that the server would misread. */
export function setScheduleLine(name: string, tube: string, bytes: number, options: ScheduleOptions): string {
  const { cron, every, pri = 1024, delay = 0, ttr = 60, meta = {}, ...more } = options;
  if ((cron === undefined) === (every === undefined))
    throw new TypeError(`schedule ${JSON.stringify(name)} needs either cron or every`);
  const written = cron?.trim().replace(/\s+/g, "_");
  const extras = optionsText({ cron: written, every, ...more }) + metaText(meta);
  checkOptionsBytes(extras);
  const numbers = `${whole(pri, "pri")} ${duration(delay, "delay")} ${whole(ttr, "ttr")} ${bytes}`;
  return `set-schedule ${scheduleName(name)} ${tubeName(tube)} ${numbers}${extras}`;
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns the text of a field; undefined for none. */
const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? fromLatin1(value) : undefined;

const dateOf = (value: unknown): Date | undefined => (typeof value === "string" ? timeOf(value) : undefined);

function timeOf(text: string): Date {
  const time = new Date(text);
  if (Number.isNaN(time.valueOf())) throw notSo(text, "a time of a schedule");
  return time;
}

function textsOf(fields: Fields, key: string): string[] {
  const value = fields[key];
  if (Array.isArray(value)) return value.map(String);
  throw notSo(String(value), `what inspect-schedule shows as ${key}`);
}

const numberOf = (value: unknown): number => Number(value ?? 0);

/** Returns these fields as numbers. */
const numbersOf = <Key extends string>(fields: Fields, keys: readonly Key[]): Record<Key, number> =>
  Object.fromEntries(keys.map((key) => [key, numberOf(fields[key])])) as Record<Key, number>;

// The types of the reports demand all counters.
const LISTED_NUMBERS = ["fired", "missedTicks", "refusals", "skipped", "bytes"] as const;
const REPORTED_NUMBERS = ["runs", "duplicates", "pri", "delay", "ttr", "ttl", "weight"] as const;

function listedOf(fields: Fields): ListedSchedule {
  return {
    name: fromLatin1(String(fields["name"])),
    tube: String(fields["tube"]),
    cron: textOf(fields["cron"]),
    every: numberOf(fields["every"]) || undefined,
    tz: String(fields["tz"]),
    missed: fields["missed"] as Missed,
    overlap: fields["overlap"] as Overlap,
    paused: String(fields["paused"]) === "true",
    next: dateOf(fields["next"]),
    last: dateOf(fields["last"]),
    ...numbersOf(fields, LISTED_NUMBERS),
  };
}

/** Reads the reply to inspect-schedule. */
export function scheduleReport(body: Uint8Array | undefined): ScheduleReport {
  const fields = fieldsOf(body);
  return {
    ...listedOf(fields),
    nextRuns: textsOf(fields, "nextRuns").map(timeOf),
    ...numbersOf(fields, REPORTED_NUMBERS),
    lastRefusal: textOf(fields["lastRefusal"]),
    group: textOf(fields["group"]),
    meta: metaOf(textsOf(fields, "meta")),
    shown: new Uint8Array(Buffer.from(String(fields["body"]), "latin1")),
  };
}

/**
 * Returns the page of list-schedules after a name, and the name after which the next one begins; ""
 * at the end.
 */
export function scheduleList(
  body: Uint8Array | undefined,
  after: string,
): { next: string; items: ListedSchedule[] } {
  const { next, items } = listOf(body, after);
  return {
    next,
    items: items.map((item) => listedOf(itemOf(item, "a schedule as list-schedules shows it"))),
  };
}

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
