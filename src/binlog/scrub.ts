// Scrubbing: a slow walk over the files of a log in use. It reads every sealed segment from the
// disk within a day, reports what is damaged, and asks the log to write it again. Damage anywhere
// starts a walk over everything, and the rewrite waits for its end: it removes older segments, too,
// and what is damaged there has to be reported first.
//
// It runs on the main thread, which serves no client, and each segment is read in a thread of its
// own. The segment that is being written, and the one created ahead, are never read.

import { assert } from "../base/assert.ts";
import { segmentName, segmentNumber } from "../base/text.ts";
import type { Damage, ScrubReport } from "../message/log-figures.ts";
import { binlogBell, binlogRole, Counter, countersOf, type Topology } from "../message/topology.ts";
import { Doorbell } from "../ring/doorbell.ts";
import { RestateWords } from "../ring/shared-words.ts";
import { RealDisk } from "./disk/real-disk.ts";
import { type CheckedFile, checkInThread } from "./recovery/check-file.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** Longest time between two segments: a server that restarts often must not leave any unread. */
const PAUSE_MS_MAX = 15 * 60 * 1000;
/** Shortest time: at most one segment a second, except in a walk that was asked for. */
const PAUSE_MS_MIN = 1000;
/** Interval of looks whether damaged segments are gone. */
const LOOK_MS = 1000;
/** Maximum number of places: in the report, and in the server's log for one segment. */
const SHOWN_MAX = 100;
const TOLD_MAX = 16;

interface ScrubOptions {
  /** The segments that exist and are no longer written. */
  readonly sealed: () => number[];
  /** Reads and checks a segment; returns undefined if it was removed meanwhile. */
  readonly check: (segment: number) => Promise<CheckedFile | undefined>;
  /** Asks the log to write the contents of a segment, and of those before it, again. */
  readonly rewrite: (segment: number) => void;
  readonly tell: (level: "info" | "warn" | "error", message: string) => void;
  readonly onReport: (report: ScrubReport) => void;
  readonly wallMs: () => number;
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
}

export class Scrub {
  readonly report: ScrubReport = {
    paused: false,
    left: 0,
    files: 0,
    bytes: 0,
    walks: 0,
    walkedAtMs: null,
    found: 0,
    damaged: 0,
    failure: "",
    places: [],
  };
  readonly #options: ScrubOptions;
  #timer: NodeJS.Timeout | undefined;
  #looks: NodeJS.Timeout | undefined;
  /** The last segment that was read, and those that the current walk still has to read. */
  #last = 0;
  #unread = new Set<number>();
  /** The newest segment to be written again once the walk is over; 0 for none. */
  #rewriteUpTo = 0;
  /** Damaged segments, and the number of their places. */
  readonly #damaged = new Map<number, number>();
  /** Number of segments at the last look. */
  #segments = 0;
  #isBusy = false;
  #hasEnded = false;

  constructor(options: ScrubOptions) {
    this.#options = options;
  }

  /** Begins at a random segment: a restart must not always leave the same ones for later. */
  start(): void {
    const { random } = this.#options;
    this.#unread = new Set(this.#sealed() ?? []);
    this.#last = [...this.#unread][Math.floor(random() * this.#unread.size)] ?? 0;
    this.#schedule(random());
  }

  stop(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    clearInterval(this.#looks);
  }

  /** Pauses until the next `walk`. A segment that is being read is read to its end. */
  pause(): void {
    this.report.paused = true;
    this.report.left = 0;
    this.#rewrite();
    this.#tellReport();
    this.#schedule(1);
  }

  /** Reads all segments now, the oldest first, and rests after each as long as it took. */
  walk(): void {
    this.report.paused = false;
    this.report.failure = "";
    this.#unread = new Set(this.#sealed() ?? []);
    this.#last = 0;
    this.report.left = this.#unread.size;
    this.#tellReport();
    this.#schedule(0);
  }

  #rewrite(): void {
    if (this.#rewriteUpTo === 0) return;
    const { tell, rewrite } = this.#options;
    tell(
      "warn",
      "BINLOG_DAMAGED: all jobs of damaged files are written again: let the server run until then",
    );
    rewrite(this.#rewriteUpTo);
    this.#rewriteUpTo = 0;
  }

  #schedule(share: number, restMs = 0): void {
    clearTimeout(this.#timer);
    if (this.#hasEnded || this.#isBusy || this.report.paused) return;
    const pauseMs = Math.min(PAUSE_MS_MAX, DAY_MS / Math.max(1, this.#segments));
    // The time of the last read is part of the day.
    const delayMs = this.report.left > 0 ? restMs : Math.max(PAUSE_MS_MIN, pauseMs * share - restMs);
    this.#timer = setTimeout(() => void this.#step(), delayMs);
    this.#timer.unref();
  }

  async #step(): Promise<void> {
    assert(!this.#isBusy, "one segment is read at a time");
    const { report } = this;
    this.#isBusy = true;
    const beganMs = performance.now();
    try {
      await this.#readNext();
      report.failure = "";
    } catch (error) {
      this.#fail(error);
    }
    this.#isBusy = false;
    if (this.#hasEnded) return;
    this.#tellReport();
    this.#schedule(1, performance.now() - beganMs);
  }

  /** No descriptor or thread may be left, or the directory be gone. The walk continues later. */
  #fail(error: unknown): void {
    const { report } = this;
    const { message } = error as Error;
    if (message !== report.failure)
      this.#options.tell("warn", `BINLOG_SCRUB: cannot check the log: ${message}`);
    report.failure = message;
    report.left = 0;
    this.#rewrite();
  }

  /** Returns undefined if the directory can't be read. */
  #sealed(): number[] | undefined {
    try {
      const sealed = this.#options.sealed();
      this.#segments = sealed.length;
      return sealed;
    } catch (error) {
      this.#fail(error);
      return undefined;
    }
  }

  async #readNext(): Promise<void> {
    const { report } = this;
    const sealed = new Set(this.#options.sealed());
    const unread = this.#unread;
    for (const number of unread) if (!sealed.has(number)) unread.delete(number);
    const next = [...unread].find((number) => number > this.#last) ?? first(unread);
    if (next !== undefined) {
      this.#last = next;
      await this.#read(next);
      // A walk that began meanwhile has a list of its own, and reads this segment again.
      unread.delete(next);
    }
    if (report.left > 0) report.left = this.#unread.size;
    if (this.#unread.size > 0) return;
    this.#rewrite();
    report.walks++;
    report.walkedAtMs = this.#options.wallMs();
    this.#unread = new Set(this.#sealed() ?? []);
  }

  async #read(segment: number): Promise<void> {
    const { report } = this;
    const { check, sealed } = this.#options;
    let found = await check(segment);
    // Damage counts only if it is read twice, and if the segment is still one that isn't written.
    if (found !== undefined && found.damage.length > 0) found = await check(segment);
    if (found === undefined || !sealed().includes(segment)) return;
    report.files++;
    report.bytes += found.bytes;
    if (found.damage.length > (this.#damaged.get(segment) ?? 0)) this.#note(segment, found.damage);
  }

  #note(segment: number, found: readonly Damage[]): void {
    const { tell, wallMs } = this.#options;
    const { report } = this;
    const before = this.#damaged.get(segment) ?? 0;
    this.#damaged.set(segment, found.length);
    report.found += found.length - before;
    report.damaged += found.length - before;
    const file = segmentName(segment);
    const known = new Set(report.places.filter((place) => place.file === file).map(({ offset }) => offset));
    const unknown = found.filter(({ offset }) => !known.has(offset));
    for (const { offset, bytes, jobs, reason } of unknown.slice(0, TOLD_MAX)) {
      const whose = jobs.length === 0 ? "no job's id can be read there" : `of job ${jobs.join(", ")}`;
      tell("error", `BINLOG_DAMAGED: ${file} at offset ${offset}, ${bytes} bytes, ${whose}: ${reason}`);
    }
    if (unknown.length > TOLD_MAX)
      tell("error", `BINLOG_DAMAGED: ${file} at ${unknown.length - TOLD_MAX} more places`);
    for (const damage of unknown.slice(0, SHOWN_MAX))
      report.places.push({ ...damage, file, foundAtMs: wallMs(), repairedAtMs: null });
    report.places.splice(0, report.places.length - SHOWN_MAX);
    this.#rewriteUpTo = Math.max(this.#rewriteUpTo, segment);
    if (report.left === 0 && !report.paused) this.walk();
    else if (report.paused) this.#rewrite();
    this.#looks ??= setInterval(() => this.#lookForRepairs(), LOOK_MS).unref();
  }

  #lookForRepairs(): void {
    const { tell, wallMs } = this.#options;
    const there = new Set(this.#sealed() ?? this.#damaged.keys());
    const gone = [...this.#damaged.keys()].filter((segment) => !there.has(segment));
    for (const segment of gone) {
      this.report.damaged -= this.#damaged.get(segment)!;
      this.#damaged.delete(segment);
      const file = segmentName(segment);
      for (const place of this.report.places) if (place.file === file) place.repairedAtMs ??= wallMs();
      tell("info", `BINLOG_REPAIRED: all jobs of ${file} are in other files, and it is removed`);
    }
    assert(this.report.damaged >= 0, "only what was found is repaired");
    if (gone.length > 0) this.#tellReport();
    if (this.#damaged.size > 0) return;
    clearInterval(this.#looks);
    this.#looks = undefined;
  }

  #tellReport(): void {
    this.#options.onReport(structuredClone(this.report));
  }
}

const first = (numbers: ReadonlySet<number>): number | undefined => numbers.values().next().value;

/** Returns the scrub of a server's log. */
export function scrubOf(
  directory: string,
  topology: Topology,
  { tell, onReport }: Pick<ScrubOptions, "tell" | "onReport">,
): Scrub {
  const disk = new RealDisk(directory);
  const counters = countersOf(topology, binlogRole(topology));
  const words = new RestateWords(topology.binlog!.restate, topology.shards);
  const bell = new Doorbell(new Int32Array(topology.doorbells), binlogBell(topology));
  return new Scrub({
    sealed: () => {
      const numbers = disk.names().map(segmentNumber);
      const all = numbers.filter((number) => number > 0).sort((a, b) => a - b);
      const current = counters[Counter.BinlogCurrent]!;
      // A standby doesn't count its segments.
      if (current === 0) return all.slice(0, -2);
      return all.filter((number) => number >= counters[Counter.BinlogOldest]! && number < current);
    },
    check: (segment) => checkInThread(directory, segment),
    rewrite: (segment) => {
      words.rewrite(segment);
      bell.ring();
    },
    tell,
    onReport,
    wallMs: Date.now,
    random: Math.random,
  });
}
