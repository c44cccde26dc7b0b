// A schedule: what it puts, when, and what became of its ticks. Times are wall-clock ms.

import { assert, CHECKED } from "../base/assert.ts";
import { asciiBytes } from "../base/bytes.ts";
import { Attribute } from "../protocol/job-attribute.ts";
import { Missed, Overlap } from "../protocol/schedule-options.ts";
import { eachScheduleCounter, SCHEDULE_COUNTERS, type ScheduleCounts } from "../schema/schedule.ts";
import { type BodyArena, EMPTY_BODY } from "./jobs/body-arena.ts";
import { Outcome } from "./jobs/ends.ts";
import { JobAttributes, type NewJob } from "./jobs/new-job.ts";
import { Timer, TimerHeap } from "./queues/heaps.ts";
import { SCHEDULE_META, type ScheduledJobs } from "./state/scheduled-jobs.ts";

/** The times of a schedule's ticks. */
export interface Timing {
  /** A cron expression, or "" for ticks at regular intervals. */
  readonly cron: string;
  /** The time zone of the expression. */
  readonly zone: string;
  /** The interval, or 0 with a cron expression. */
  readonly everyMs: number;
}

/** The jobs that a schedule puts, and its rules. */
export interface ScheduleFacts {
  readonly name: string;
  readonly tube: string;
  readonly timing: Timing;
  /** A Missed. */
  readonly missed: number;
  /** An Overlap. */
  readonly overlap: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly delayMillis: number;
  readonly ttrSeconds: number;
  /** Time to live of the jobs, in ms; 0 for no limit. */
  readonly ttlMs: number;
  /** Attributes of the jobs, in the form of the log: group, weight, meta. */
  readonly attributes: Uint8Array;
}

/**
 * The progress of a schedule. It survives when the schedule is set again, even on another shard.
 */
export interface ScheduleProgress extends ScheduleCounts {
  /** A number taken when it was set; greater than those of all earlier sets. */
  version: number;
  /** With an interval, tick n is n intervals later. */
  anchorMs: number;
  /** The next tick; Infinity if there is none. */
  nextMs: number;
  /**
   * The next tick that the schedule had before the wall clock went back, and that it gets again if
   * the clock goes ahead again; 0 if the clock has not gone back.
   */
  heldMs: number;
  paused: boolean;
  /** The last tick that put a job, or 0. */
  lastMs: number;
  /** Ticks since the last one that was not late which put a job or were skipped. */
  lateJobs: number;
}

/** Why an attempt to put a job was refused. */
export const Refusal = { None: 0, TubeFull: 1, OutOfMemory: 2, LogFull: 3, Draining: 4 } as const;
export type Refusal = (typeof Refusal)[keyof typeof Refusal];

/** A class with the counters of a schedule as fields. */
class Counted {
  constructor() {
    Object.assign(this, NO_COUNTS);
  }
}
const NO_COUNTS: Readonly<ScheduleCounts> = eachScheduleCounter(() => 0);

export class Schedule extends (Counted as new () => ScheduleCounts) implements ScheduleProgress {
  readonly name: string;
  /** Its id in the log, which it keeps for life. */
  readonly id: number;
  facts: ScheduleFacts;
  body: number = EMPTY_BODY;
  bodyBytes = 0;
  version = 0;
  anchorMs = 0;
  nextMs: number = Number.POSITIVE_INFINITY;
  heldMs = 0;
  paused = false;
  lastMs = 0;
  lateJobs = 0;
  lastRefusal: Refusal = Refusal.None;
  /** Of `missedTicks`, those since the last job or pause, and since the start of the server. */
  missedInARow = 0;
  /** Ticks that were passed over since the last one that was not. */
  passedTicks = 0;
  /**
   * The shards that are about to set a schedule of this name, and the numbers of their claims.
   * Meanwhile, this one puts no job.
   */
  readonly freezers: Map<number, number> = new Map();
  /** Whether other shards are being asked for its jobs. Meanwhile, its tick waits. */
  isAsking = false;
  /** How often the wall clock had gone ahead when the schedule was frozen. */
  frozenAtJump = 0;
  /** When it next needs attention, on the wall clock. */
  readonly timer: Timer<Schedule> = new Timer<Schedule>(this);

  constructor(id: number, facts: ScheduleFacts) {
    super();
    this.id = id;
    this.name = facts.name;
    this.facts = facts;
  }

  /** Takes over the progress of another schedule of this name, perhaps on another shard. */
  takeOver(progress: Readonly<ScheduleProgress>): void {
    this.version = progress.version;
    this.anchorMs = progress.anchorMs;
    this.nextMs = progress.nextMs;
    this.heldMs = progress.heldMs;
    this.paused = progress.paused;
    this.lastMs = progress.lastMs;
    this.lateJobs = progress.lateJobs;
    for (const name of SCHEDULE_COUNTERS) this[name] = progress[name];
  }

  get isFrozen(): boolean {
    return this.freezers.size > 0;
  }

  /** Whether it has no timer, because other shards decide when it goes on. */
  get isHeldUp(): boolean {
    return this.isFrozen || this.isAsking;
  }
}

/** Returns whether two schedules have the same ticks. */
export function isSameTiming(a: Timing, b: Timing): boolean {
  return a.cron === b.cron && a.zone === b.zone && a.everyMs === b.everyMs;
}

/** Returns the tick's unique key, Latin-1. */
export function tickKey(name: string, tickMs: number): string {
  assert(tickMs < Number.POSITIVE_INFINITY, "a tick that puts a job has a time");
  return `${name}@${new Date(tickMs).toISOString()}`;
}

// The schedules of one shard, and their order in time.

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
  /** How often the wall clock has gone ahead. */
  jumps = 0;
  /** Schedules whose tick was last refused, until it gets its job or is passed over. */
  readonly refused = new Set<Schedule>();
  /** Schedules whose next tick was set back with the wall clock. */
  readonly held = new Set<Schedule>();
  /** Schedules that have missed ticks, until they put a job or are paused. */
  readonly missing = new Set<Schedule>();
  /** Schedules without a timer, because other shards decide when they go on. */
  readonly #heldUp = new Set<Schedule>();

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
    this.#heldUp.delete(schedule);
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
    for (const { nextMs, paused } of this.#heldUp) if (!paused) earliestMs = Math.min(earliestMs, nextMs);
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

  /** Sets the timer of a schedule to its next tick, or clears it if other shards hold it up. */
  setTimer(schedule: Schedule, retryAtMs = 0): void {
    if (CHECKED) assert(this.get(schedule.name) === schedule, "a schedule with a timer exists");
    this.behind.delete(schedule);
    const atMs = Math.max(schedule.nextMs, retryAtMs);
    assert(!Number.isNaN(atMs), "the next tick of a schedule is a time, or never");
    if (schedule.isHeldUp) this.#heldUp.add(schedule);
    else this.#heldUp.delete(schedule);
    this.timers.set(schedule.timer, schedule.isHeldUp ? Number.POSITIVE_INFINITY : atMs);
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

// Puts the jobs of schedules whose ticks are due: docs/architecture/flows.md.
//
// Ticks are times of the wall clock, which comes in as an argument, as all time does. The ticks of
// a cron expression come from a function. The log first gets the job of a tick, with a unique key
// made of name and tick, then the schedule with its next tick. If the server dies in between,
// `endRestore` finds the key and skips the tick.

/** Returns the first tick of a timing with a cron expression after this time; Infinity for none. */
type NextTick = (timing: Timing, afterMs: number) => number;

/** The parts of a shard that schedules need. */
interface ScheduleShard {
  readonly bodies: BodyArena;
  /** Puts a job into a tube, as QueueCore.put does. */
  putScheduled(
    tube: string,
    job: NewJob,
    body: number,
    nowMs: number,
    attributes: JobAttributes | undefined,
  ): Outcome;
  hasKey(tube: string, attributes: JobAttributes): boolean;
  readonly scheduled: ScheduledJobs;
}

/** Takes the records of schedules. */
export interface ScheduleSink {
  /** Logs a whole schedule. Returns false if the log has no room. `isNew` means a new id. */
  scheduled(schedule: Schedule, isNew: boolean): boolean;
  /** Logs the changes of a tick or a command. */
  ticked(schedule: Schedule): void;
  unscheduled(id: number): void;
}

/** A body in the arena. */
export interface ScheduleBody {
  readonly handle: number;
  readonly bytes: number;
}

/** The sink of a server without a log. */
export const NO_SINK: ScheduleSink = { scheduled: () => true, ticked() {}, unscheduled() {} };

/** With `missed=none`, a tick may be this late. */
export const LATE_MS_MAX = 60_000;
/** With `missed=all`, this many late ticks in a row put jobs; of the rest only the latest does. */
export const LATE_JOBS_MAX = 1000;
/** This many ticks in a row are passed over and counted; the rest is skipped uncounted. */
export const PASSED_TICKS_MAX = 10_000;
/** Time until a refused job is tried again. */
const RETRY_MS = 1000;
/** A clock may go back this far, or by an interval, without a repeated tick. */
export const BACK_MS_MAX = 60_000;

export class Schedules {
  readonly table: ScheduleTable;
  /** Set by the shard before the first schedule. */
  next: NextTick = () => Number.POSITIVE_INFINITY;
  takeJobId: () => number = () => 0;
  isDraining: () => boolean = () => false;
  sink: ScheduleSink = NO_SINK;
  /** Asks all other shards for jobs of a schedule: see `answered`. Undefined without others. */
  askOthers: ((schedule: Schedule) => void) | undefined;
  /** Totals over all schedules since the start: see ScheduleProgress. */
  readonly counts = { fired: 0, runs: 0, missed: 0, duplicates: 0, refusals: 0, skipped: 0 };
  readonly #shard: ScheduleShard;
  readonly #attributes = new JobAttributes();
  /** Schedules that `endRestore` has advanced. */
  readonly unlogged: Schedule[] = [];
  /** Whether the next turn is that of a schedule in `behind`. */
  #isTurnOfBehind = false;

  constructor(shard: ScheduleShard) {
    this.#shard = shard;
    this.table = new ScheduleTable(shard.bodies);
  }

  // --- ticks -------------------------------------------------------------------------------------

  /**
   * Handles one tick that is due at `wallMs`. Returns whether there was one. While schedules have
   * several due ticks, every other turn is theirs.
   */
  runOne(nowMs: number, wallMs: number): boolean {
    const { timers, behind } = this.table;
    const punctual = timers.nextAtMs <= wallMs ? timers.first : undefined;
    this.#isTurnOfBehind = behind.size > 0 && (punctual === undefined || !this.#isTurnOfBehind);
    const [late] = this.#isTurnOfBehind ? behind : [];
    const schedule = late ?? punctual;
    if (schedule === undefined) return false;
    if (schedule.nextMs > wallMs) {
      // The clock has gone back since then.
      this.table.setTimer(schedule);
      return true;
    }
    assert(!schedule.isHeldUp, "a schedule that other shards hold up has no timer");
    if (schedule.paused) this.#skip(schedule, wallMs);
    else this.#tick(schedule, nowMs, wallMs);
    return true;
  }

  /**
   * Advances a paused schedule, so that it shows a future tick. A restart finds the same one, if
   * the log has the end of a hold.
   */
  #skip(schedule: Schedule, wallMs: number): void {
    const { heldMs } = schedule;
    this.table.setNext(schedule, this.tickAfter(schedule, wallMs));
    if (schedule.heldMs !== heldMs) this.sink.ticked(schedule);
    this.table.setTimer(schedule);
  }

  #tick(schedule: Schedule, nowMs: number, wallMs: number): void {
    if (this.#isLeftOut(schedule, wallMs)) return;
    if (schedule.facts.overlap === Overlap.Skip) this.#fireAlone(schedule, nowMs, wallMs);
    else this.#fire(schedule, this.tickAfter(schedule, schedule.nextMs), nowMs, wallMs);
  }

  /** Returns whether a tick puts no job, because it is too late or another one is due, too. */
  #isLeftOut(schedule: Schedule, wallMs: number): boolean {
    const afterMs = this.tickAfter(schedule, schedule.nextMs);
    if (this.#passesOver(schedule, afterMs, wallMs)) this.#pass(schedule, afterMs, wallMs);
    else if (schedule.facts.missed === Missed.None && wallMs - schedule.nextMs > LATE_MS_MAX) {
      this.#miss(schedule, 1);
      this.#settle(schedule, afterMs, wallMs);
    } else return false;
    return true;
  }

  /** Puts the job of a tick unless a job of the schedule exists, here or on another shard. */
  #fireAlone(schedule: Schedule, nowMs: number, wallMs: number): void {
    if (this.askOthers === undefined || this.#shard.scheduled.has(schedule.name)) {
      this.#decide(schedule, false, nowMs, wallMs);
      return;
    }
    schedule.isAsking = true;
    this.table.setTimer(schedule);
    this.askOthers(schedule);
  }

  /**
   * Takes the answer of the other shards: whether one of them has a job of the schedule. The tick
   * is handled now, unless a command or a clock has changed the schedule since.
   */
  answered(schedule: Schedule, existsThere: boolean, nowMs: number, wallMs: number): void {
    assert(schedule.isAsking, "an answer has a question");
    schedule.isAsking = false;
    if (this.table.get(schedule.name) !== schedule) return;
    if (schedule.isFrozen || schedule.paused || schedule.nextMs > wallMs) this.table.setTimer(schedule);
    // The answer may have waited for a disk until the tick was too late.
    else if (!this.#isLeftOut(schedule, wallMs)) this.#decide(schedule, existsThere, nowMs, wallMs);
  }

  #decide(schedule: Schedule, existsThere: boolean, nowMs: number, wallMs: number): void {
    const afterMs = this.tickAfter(schedule, schedule.nextMs);
    if (!existsThere && !this.#shard.scheduled.has(schedule.name)) {
      this.#fire(schedule, afterMs, nowMs, wallMs);
      return;
    }
    schedule.skipped++;
    this.counts.skipped++;
    schedule.lateJobs = afterMs <= wallMs ? schedule.lateJobs + 1 : 0;
    this.#settle(schedule, afterMs, wallMs);
  }

  /** Returns whether the next tick puts no job, because a later one is due, too. */
  #passesOver({ facts, lateJobs }: Schedule, afterMs: number, wallMs: number): boolean {
    return afterMs <= wallMs && (facts.missed !== Missed.All || lateJobs >= LATE_JOBS_MAX - 1);
  }

  /**
   * Passes over a tick, and over all but the last with regular intervals or after too many. Logs
   * nothing yet.
   */
  #pass(schedule: Schedule, afterMs: number, wallMs: number): void {
    const { everyMs } = schedule.facts.timing;
    const ticks = everyMs === 0 ? 1 : Math.floor((wallMs - schedule.nextMs) / everyMs);
    assert(ticks >= 1, "a tick is passed over if another one is due after it");
    this.#miss(schedule, ticks);
    schedule.passedTicks++;
    let nextMs = afterMs;
    if (everyMs > 0) nextMs = schedule.nextMs + ticks * everyMs;
    else if (schedule.passedTicks >= PASSED_TICKS_MAX) nextMs = this.#latest(schedule, afterMs, wallMs);
    this.table.setNext(schedule, nextMs);
    this.table.setTimerAfterTick(schedule, wallMs);
  }

  /** Returns the latest tick that is due, given one that is. */
  #latest(schedule: Schedule, dueMs: number, wallMs: number): number {
    assert(dueMs <= wallMs, "the latest of the due ticks is at least the given one");
    // Every search from before `low` finds a due tick, and none from `high` on.
    let [low, high] = [dueMs - 1, wallMs];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.tickAfter(schedule, middle) <= wallMs) low = middle;
      else high = middle;
    }
    return this.tickAfter(schedule, low);
  }

  #miss(schedule: Schedule, ticks: number): void {
    assert(ticks > 0 && ticks < Number.POSITIVE_INFINITY, "the number of missed ticks is finite");
    schedule.missedTicks += ticks;
    this.counts.missed += ticks;
    this.table.noteMissed(schedule, schedule.missedInARow + ticks);
  }

  #fire(schedule: Schedule, afterMs: number, nowMs: number, wallMs: number): void {
    const outcome = this.#put(schedule, schedule.nextMs, nowMs);
    if (typeof outcome !== "number") {
      schedule.refusals++;
      this.counts.refusals++;
      this.table.refused.add(schedule);
      schedule.lastRefusal = outcome.refusal;
      // A count that clients have seen survives a restart, unless the log has no room for it.
      if (outcome.refusal !== Refusal.LogFull) this.sink.ticked(schedule);
      const retryAtMs = wallMs + RETRY_MS;
      this.table.setTimer(schedule, afterMs > wallMs ? Math.min(retryAtMs, afterMs) : retryAtMs);
      return;
    }
    if (outcome === 0) {
      schedule.duplicates++;
      this.counts.duplicates++;
    } else {
      schedule.fired++;
      this.counts.fired++;
      schedule.lastMs = schedule.nextMs;
    }
    this.table.noteMissed(schedule, 0);
    schedule.lateJobs = afterMs <= wallMs ? schedule.lateJobs + 1 : 0;
    this.#settle(schedule, afterMs, wallMs);
  }

  /** Ends a tick: logs its schedule with the next one. */
  #settle(schedule: Schedule, nextMs: number, wallMs: number): void {
    this.table.setNext(schedule, nextMs);
    schedule.passedTicks = 0;
    this.table.refused.delete(schedule);
    this.sink.ticked(schedule);
    this.table.setTimerAfterTick(schedule, wallMs);
  }

  /**
   * Recomputes the next tick if a clock that was ahead has set it, that is, if it is more than an
   * interval and more than BACK_MS_MAX in the future.
   */
  correct(schedule: Schedule, wallMs: number): void {
    const { facts, nextMs } = schedule;
    const { everyMs } = facts.timing;
    // The shard that froze it knows its next tick.
    if (schedule.isFrozen) return;
    if (nextMs <= wallMs + everyMs + BACK_MS_MAX) {
      // The retry of a refused job may still have a time of that clock.
      if (schedule.timer.atMs > wallMs + everyMs + BACK_MS_MAX) this.table.setTimer(schedule);
      return;
    }
    const isAhead = everyMs > 0 && schedule.anchorMs > wallMs + BACK_MS_MAX;
    const anchorMs = isAhead ? wallMs : schedule.anchorMs;
    const firstMs = this.firstTick(facts.timing, anchorMs, wallMs);
    if (nextMs === Number.POSITIVE_INFINITY) {
      // There was no tick after the last one, which is due again unless it has put its job.
      if (firstMs === Number.POSITIVE_INFINITY || schedule.lastMs === firstMs) return;
    } else if (nextMs - firstMs <= BACK_MS_MAX) return;
    else if (nextMs <= this.firstTick(facts.timing, anchorMs, firstMs)) return;
    this.table.setHeld(schedule, Math.max(schedule.heldMs, nextMs));
    this.#moveTick(schedule, firstMs, anchorMs);
  }

  /**
   * Called when the wall clock went ahead, and at the start. A schedule whose next tick had gone
   * back with the clock gets it again if the time for it has come: the clock was behind, and the
   * ticks before were dealt with.
   */
  endHold(schedule: Schedule, wallMs: number): void {
    const { heldMs, isFrozen, facts } = schedule;
    const { everyMs } = facts.timing;
    assert(heldMs > 0, "only a schedule whose tick went back is held");
    // It ends when the schedule goes on, here or on the shard that froze it.
    if (isFrozen || !this.#mayBeNext(schedule, heldMs, wallMs)) return;
    this.table.setHeld(schedule, 0);
    // Each tick of an interval may be its anchor.
    this.#moveTick(schedule, heldMs, everyMs > 0 ? heldMs - everyMs : schedule.anchorMs);
  }

  /**
   * Lets a schedule go on that was frozen, or comes from another shard, since the wall clock had
   * gone ahead `jumps` times: what it has missed of steps of the clock since is made up for.
   */
  goOn(schedule: Schedule, jumps: number, wallMs: number): void {
    if (schedule.heldMs > 0 && this.table.jumps > jumps) this.endHold(schedule, wallMs);
    this.correct(schedule, wallMs);
  }

  /** Returns whether a clock that was right may have set this tick: see `correct`. */
  #mayBeNext({ facts, lastMs }: Schedule, tickMs: number, wallMs: number): boolean {
    const { timing } = facts;
    if (tickMs <= wallMs + 2 * timing.everyMs + BACK_MS_MAX) return true;
    if (timing.everyMs > 0) return false;
    const firstMs = this.next(timing, wallMs);
    if (tickMs === Number.POSITIVE_INFINITY) return firstMs === tickMs || firstMs === lastMs;
    return tickMs - firstMs <= BACK_MS_MAX || tickMs <= this.next(timing, firstMs);
  }

  #moveTick(schedule: Schedule, nextMs: number, anchorMs: number): void {
    schedule.anchorMs = anchorMs;
    schedule.nextMs = nextMs;
    schedule.passedTicks = 0;
    this.sink.ticked(schedule);
    this.table.setTimer(schedule);
  }

  /** Returns the first tick after this time. */
  tickAfter({ anchorMs, facts }: Schedule, afterMs: number): number {
    return this.firstTick(facts.timing, anchorMs, afterMs);
  }

  /** Does the same for a timing whose intervals begin at `anchorMs`. */
  firstTick(timing: Timing, anchorMs: number, afterMs: number): number {
    if (timing.everyMs === 0) return this.next(timing, afterMs);
    return anchorMs + Math.max(1, Math.floor((afterMs - anchorMs) / timing.everyMs) + 1) * timing.everyMs;
  }

  /**
   * Puts a job for a tick, or for none. Returns its id, 0 if the tick has a job, or the refusal.
   */
  #put(
    { name, facts, body, bodyBytes }: Schedule,
    tickMs: number | undefined,
    nowMs: number,
  ): number | { refusal: Refusal } {
    if (this.isDraining()) return { refusal: Refusal.Draining };
    const { pri, delaySeconds, delayMillis, ttrSeconds } = facts;
    const attributes = this.#attributesOf(name, facts, tickMs, nowMs);
    const { bodies } = this.#shard;
    let copy: number = EMPTY_BODY;
    let outcome: Outcome;
    try {
      copy = bodies.allocate(bodyBytes);
      const bytes = new Uint8Array(bodyBytes);
      bodies.read(body, 0, bytes, 0, bodyBytes);
      bodies.write(copy, 0, bytes, 0, bodyBytes);
      if (!bodies.limit.allows) throw new RangeError("the memory limit is reached");
      const id = this.takeJobId();
      const job = { id, pri, delaySeconds, delayMillis, ttrSeconds, bodyBytes, atMs: nowMs };
      outcome = this.#shard.putScheduled(facts.tube, job, copy, nowMs, attributes);
      if (outcome === Outcome.Done) return id;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      bodies.free(copy);
      return { refusal: Refusal.OutOfMemory };
    }
    bodies.free(copy);
    if (outcome === Outcome.Duplicate) return 0;
    return { refusal: outcome === Outcome.TubeFull ? Refusal.TubeFull : Refusal.LogFull };
  }

  /** Returns the attributes of a job. They are valid until the next call. */
  #attributesOf(
    name: string,
    { attributes: fixed, ttlMs }: ScheduleFacts,
    tickMs: number | undefined,
    nowMs: number,
  ): JobAttributes {
    const attributes = this.#attributes.clear();
    const key = tickMs === undefined ? `${name}@now` : tickKey(name, tickMs);
    const keyBytes = asciiBytes(key);
    if (tickMs !== undefined) attributes.setKey(keyBytes, 0, keyBytes.length, false);
    const pair = asciiBytes(`${SCHEDULE_META}${key}`);
    attributes.fixed.text(Attribute.Meta, pair, 0, pair.length);
    for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed[at + 1]!)
      attributes.fixed.text(fixed[at] as Attribute, fixed, at + 2, at + 2 + fixed[at + 1]!);
    if (ttlMs > 0) attributes.expiresAtMs = nowMs + ttlMs;
    return attributes;
  }

  // --- commands ----------------------------------------------------------------------------------

  /**
   * Sets a schedule with this id, body and progress, and replaces an older one of its name. Takes
   * the body. Returns false if the log has no room; then nothing has changed.
   */
  set(
    id: number,
    isNew: boolean,
    facts: ScheduleFacts,
    progress: Readonly<ScheduleProgress>,
    body: Readonly<ScheduleBody>,
  ): boolean {
    const before = this.table.get(facts.name);
    const schedule = new Schedule(id, facts);
    schedule.takeOver(progress);
    schedule.body = body.handle;
    schedule.bodyBytes = body.bytes;
    if (!this.sink.scheduled(schedule, isNew)) return false;
    if (before !== undefined) {
      schedule.lastRefusal = before.lastRefusal;
      schedule.missedInARow = before.missedInARow;
      assert(!before.isFrozen, "a schedule is not replaced while another shard sets it");
      this.table.remove(before);
    }
    this.table.add(schedule);
    this.table.setTimer(schedule);
    return true;
  }

  delete(schedule: Schedule): void {
    this.table.remove(schedule);
    this.sink.unscheduled(schedule.id);
  }

  pause(schedule: Schedule): void {
    if (schedule.paused) return;
    this.table.setPaused(schedule, true);
    this.table.setTimer(schedule);
    this.sink.ticked(schedule);
  }

  /**
   * Ends a pause. The next tick is the first after `wallMs`, or a later one that is already set.
   */
  resume(schedule: Schedule, wallMs: number): void {
    if (!schedule.paused) return;
    this.table.setPaused(schedule, false);
    schedule.lateJobs = 0;
    if (schedule.nextMs <= wallMs) this.table.setNext(schedule, this.tickAfter(schedule, wallMs));
    this.table.setTimer(schedule);
    this.sink.ticked(schedule);
  }

  /** Puts a job now. Returns its id, or the refusal. */
  run(schedule: Schedule, nowMs: number): number | { refusal: Refusal } {
    const outcome = this.#put(schedule, undefined, nowMs);
    if (typeof outcome !== "number") return outcome;
    assert(outcome > 0, "a job without a key is not a duplicate");
    schedule.runs++;
    this.counts.runs++;
    this.table.noteMissed(schedule, 0);
    this.sink.ticked(schedule);
    return outcome;
  }

  // --- restore -----------------------------------------------------------------------------------

  /** Adds a schedule from the log. */
  restore(schedule: Schedule): void {
    this.table.add(schedule);
    this.table.setTimer(schedule);
  }

  /**
   * Called when all jobs are restored. If the next tick of a schedule has already put its job,
   * because the server died between the two records, advances to the tick after it.
   */
  endRestore(): void {
    for (const schedule of this.table.values()) {
      const { name, facts, nextMs } = schedule;
      if (nextMs === Number.POSITIVE_INFINITY) continue;
      if (!this.#shard.hasKey(facts.tube, this.#attributesOf(name, facts, nextMs, 0))) continue;
      schedule.fired++;
      schedule.lastMs = nextMs;
      schedule.lateJobs = Math.min(schedule.lateJobs + 1, LATE_JOBS_MAX);
      this.table.setNext(schedule, this.tickAfter(schedule, nextMs));
      this.table.setTimer(schedule);
      this.unlogged.push(schedule);
    }
  }

  /**
   * Logs the schedules that `endRestore` has advanced, before a command may take the key from a
   * job. A shard has at most one, unless clients put jobs with such keys.
   */
  logRestored(): void {
    for (const schedule of this.unlogged) this.sink.ticked(schedule);
    this.unlogged.length = 0;
  }
}
