// The schedules of a shard: connects those of its engine to clocks, the log and other shards.

import { assert } from "../../base/assert.ts";
import { latin1, Memory } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import {
  BACK_MS_MAX,
  isSameTiming,
  type Schedule,
  type ScheduleBody,
  type ScheduleFacts,
  type ScheduleProgress,
  type Schedules,
  type Timing,
} from "../../engine/schedules.ts";
import type { ReplyPort } from "../../message/response.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../protocol/job-attribute.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { nextOption, numberAt, optionNumber, optionText } from "../../protocol/options.ts";
import { badScheduleReply, Reply } from "../../protocol/reply.ts";
import type { Span } from "../../protocol/request.ts";
import {
  CRON_BYTES_MAX,
  INTERVAL_MS_MAX,
  INTERVAL_MS_MIN,
  Missed,
  Overlap,
  SCHEDULE_BODY_BYTES_MAX,
  SCHEDULE_NAME_BYTES_MAX,
  ZONE_BYTES_MAX,
} from "../../protocol/schedule-options.ts";
import { eachScheduleCounter } from "../../schema/schedule.ts";
import type { RecordLog } from "../records/record-log.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import type { SlicedCommands } from "../sessions/sliced-commands.ts";
import { CronTimes, cronProblem, zoneProblem } from "./cron-times.ts";
import { OverlapQuestions } from "./overlap-questions.ts";
import { type Claim, type KnownSchedule, ScheduleClaims } from "./schedule-claims.ts";

// Decides when a shard checks for due ticks, and how many it handles in a turn.

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

  /**
   * Makes up for a step of the clock before a claim: the next look may be a second away. Ends the
   * hold of a schedule that is about to be frozen, if the time for it has come.
   */
  catchUp(nowMs: number, schedule?: Schedule): void {
    const wallMs = this.wallMs(nowMs);
    this.#lookForSteps(this.#wallOffsetMs());
    if (this.#held !== undefined && schedule !== undefined && schedule.heldMs > 0)
      this.#schedules.endHold(schedule, wallMs);
  }

  #lookForSteps(offsetMs: number): void {
    const { table } = this.#schedules;
    if (offsetMs > this.#offsetMs + BACK_MS_MAX) {
      table.jumps++;
      if (table.held.size > 0) this.#held = table.held.values();
    }
    this.#offsetMs = offsetMs;
    if (offsetMs < this.#highestOffsetMs - BACK_MS_MAX) {
      this.#suspects = table.values();
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

// Converts the line of a set-schedule into the facts of a schedule, or says what is wrong with it.

/**
 * Room for the attributes that clients choose. The rest of ATTRIBUTE_BYTES_MAX is for those that
 * describe the schedule, and for the key and the pair that each of its jobs also gets.
 */
const CHOSEN_BYTES_MAX = 580;

const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));

/** Returns the facts, or a string that tells the client what is wrong. */
function scheduleFacts(
  { pri, delaySeconds, delayMillis, ttrSeconds }: NewJob,
  tube: string,
  options: Span,
  wallMs: number,
): ScheduleFacts | string {
  const name = text(options, OptionTag.Schedule) ?? "";
  if (name.length > SCHEDULE_NAME_BYTES_MAX)
    return `name: "${printable(name.slice(0, 20))}..." has ${name.length} bytes, the limit is ${SCHEDULE_NAME_BYTES_MAX}`;
  const timing = timingOf(options, wallMs);
  if (typeof timing === "string") return timing;
  const attributes = attributesOf(options);
  if (attributes.length > CHOSEN_BYTES_MAX)
    return `options: group and meta take ${attributes.length} bytes, the limit is ${CHOSEN_BYTES_MAX}`;
  return {
    name,
    tube,
    timing,
    missed: optionNumber(options, OptionTag.Missed) ?? Missed.Once,
    overlap: optionNumber(options, OptionTag.Overlap) ?? Overlap.Allow,
    pri,
    delaySeconds,
    delayMillis,
    ttrSeconds,
    ttlMs: optionNumber(options, OptionTag.Ttl) ?? 0,
    attributes,
  };
}

const text = (options: Span, tag: OptionTag): string | undefined => {
  const bytes = optionText(options, tag);
  return bytes === undefined ? undefined : latin1(bytes, 0, bytes.length);
};

function timingOf(options: Span, wallMs: number): Timing | string {
  const cron = text(options, OptionTag.Cron);
  const everyMs = optionNumber(options, OptionTag.Every);
  const zone = text(options, OptionTag.Zone);
  if ((cron === undefined) === (everyMs === undefined))
    return "give either cron=<expression> or every=<duration>";
  if (cron !== undefined) return cronTiming(cron, zone ?? "UTC", wallMs);
  if (zone !== undefined) return `tz: "${printable(zone)}" has no meaning with every=`;
  assert(everyMs !== undefined, "a schedule has a cron expression or an interval");
  if (everyMs < INTERVAL_MS_MIN || everyMs > INTERVAL_MS_MAX)
    return `every: ${everyMs / 1000} is not ${INTERVAL_MS_MIN / 1000} to ${INTERVAL_MS_MAX / 1000} seconds`;
  return { cron: "", zone: "UTC", everyMs };
}

function cronTiming(written: string, zone: string, wallMs: number): Timing | string {
  const cron = written.replace(/[_ ]+/g, " ").trim();
  if (cron.length > CRON_BYTES_MAX)
    return `cron: the expression has ${cron.length} bytes, the limit is ${CRON_BYTES_MAX}`;
  if (zone.length > ZONE_BYTES_MAX)
    return `tz: the name has ${zone.length} bytes, the limit is ${ZONE_BYTES_MAX}`;
  if (printable(cron) !== cron) return `cron: "${printable(cron)}" has bytes that are not ASCII`;
  if (printable(zone) !== zone) return `tz: "${printable(zone)}" has bytes that are not ASCII`;
  const problem = zoneProblem(zone) ?? cronProblem(cron, zone, wallMs);
  return problem ?? { cron, zone, everyMs: 0 };
}

/**
 * Replaces bytes that a line for the client must not contain: line ends, and those that a terminal
 * interprets.
 */
const printable = (words: string): string => words.replace(/[^\x20-\x7e]/g, "?");

function attributesOf(options: Span): Uint8Array {
  const { bytes, start, end } = options;
  writer.clear();
  for (let at = nextOption(bytes, start, end); at > 0; at = nextOption(bytes, at + bytes[at - 1]!, end)) {
    const valueEnd = at + bytes[at - 1]!;
    assert(valueEnd <= end, "the value of an option ends inside the options");
    if (bytes[at - 2] === OptionTag.Group) writer.text(Attribute.Group, bytes, at, valueEnd);
    else if (bytes[at - 2] === OptionTag.Meta) writer.text(Attribute.Meta, bytes, at, valueEnd);
    else if (bytes[at - 2] === OptionTag.Weight) writer.uint16(Attribute.Weight, numberAt(bytes, at));
  }
  return writer.bytes.slice(0, writer.length);
}

// `set-schedule` on the shard of the tube.

/**
 * Minimum cost of parsing a cron expression and finding its first tick, in Engine.looks. The time
 * taken is charged, too: a search that finds nothing may take 8 ms.
 */
const READING_LOOKS = 10_000;

interface ScheduleSetterOptions {
  readonly engine: Engine;
  readonly replies: ReplyWriter;
  readonly slicedCommands: SlicedCommands;
  readonly claims: ScheduleClaims;
  readonly records: RecordLog | undefined;
  readonly nextNumber: () => number;
  readonly clock: () => number;
  readonly nowMs: () => number;
  readonly wallMs: () => number;
}

class ScheduleSetter {
  readonly #options: ScheduleSetterOptions;

  constructor(options: ScheduleSetterOptions) {
    this.#options = options;
  }

  /** Sets a schedule, perhaps when other shards have answered. Takes the body. */
  set(session: ShardSession, job: NewJob, body: number, tube: string, options: Span): void {
    const { engine, replies, slicedCommands, claims, records, wallMs, nowMs, clock } = this.#options;
    engine.looks += READING_LOOKS;
    const beganMs = clock();
    const facts = scheduleFacts(job, tube, options, wallMs());
    slicedCommands.spentMs += clock() - beganMs;
    // The job is valid only during the call.
    const { id, bodyBytes } = job;
    const isTooBig =
      bodyBytes > SCHEDULE_BODY_BYTES_MAX ||
      (typeof facts !== "string" && records?.fits(facts, bodyBytes) === false);
    if (typeof facts === "string" || isTooBig) {
      engine.bodies.free(body);
      replies.fixed(session, typeof facts === "string" ? badScheduleReply(facts) : Reply.jobTooBig);
      return;
    }
    const finish = (claim: Claim | undefined): void => {
      const isSet = this.#commit(id, facts, { handle: body, bytes: bodyBytes }, claim);
      if (!isSet) engine.bodies.free(body);
      replies.fixed(session, isSet ? Reply.set : Reply.outOfMemory);
    };
    slicedCommands.start(session, new SetSchedule(claims, facts.name, id, finish), nowMs());
  }

  /** Returns whether the schedule is set. */
  #commit(id: number, facts: ScheduleFacts, body: ScheduleBody, claim: Claim | undefined): boolean {
    const { engine, claims, nextNumber } = this.#options;
    const { schedules } = engine;
    const known = this.#known(facts.name, claim);
    // Only now can no other shard change the schedule. A restored dump may have any version.
    const version = Math.max(nextNumber(), (known?.progress.version ?? 0) + 1);
    assert(claim === undefined || claim.left === 0, "a schedule is set when all have answered");
    const isHere = schedules.table.get(facts.name) !== undefined;
    const progress = this.#progress(facts, known, version);
    const isSet =
      (isHere || !schedules.table.isFull) &&
      schedules.set(known?.id ?? id, known === undefined, facts, progress, body);
    // An older schedule may continue where a clock that was ahead, or behind, has left it.
    if (isSet && known !== undefined) {
      const { table } = schedules;
      schedules.goOn(table.get(facts.name)!, claim?.jumps ?? table.jumps, this.#options.wallMs());
    }
    if (claim !== undefined) claims.end(claim, isSet ? version : 0);
    return isSet;
  }

  /** Returns the schedule that has this name, here or elsewhere. */
  #known(name: string, claim: Claim | undefined): KnownSchedule | undefined {
    const here = this.#options.engine.schedules.table.get(name);
    const there = claim?.found;
    if (here === undefined) return there;
    if (there !== undefined && there.progress.version > here.version) return there;
    return { id: here.id, timing: here.facts.timing, progress: here };
  }

  /**
   * Returns the progress of a schedule that is set. With the same ticks as before, the schedule
   * continues where it was. Counts and a pause stay.
   */
  #progress(facts: ScheduleFacts, known: KnownSchedule | undefined, version: number): ScheduleProgress {
    const wallMs = this.#options.wallMs();
    assert(version > 0, "a schedule has a version");
    const before = known?.progress;
    const goesOn = known !== undefined && isSameTiming(known.timing, facts.timing);
    const { schedules } = this.#options.engine;
    // Just after the clock went back, a tick from before could come again.
    const lastMs = before?.lastMs ?? 0;
    const isRecent = lastMs <= wallMs + BACK_MS_MAX;
    const afterMs = isRecent ? Math.max(wallMs, lastMs) : wallMs;
    return {
      version,
      anchorMs: goesOn ? known.progress.anchorMs : wallMs,
      nextMs: goesOn ? known.progress.nextMs : schedules.firstTick(facts.timing, wallMs, afterMs),
      heldMs: goesOn ? known.progress.heldMs : 0,
      paused: before?.paused ?? false,
      lastMs,
      lateJobs: goesOn ? known.progress.lateJobs : 0,
      ...eachScheduleCounter((name) => before?.[name] ?? 0),
    };
  }
}

/** Waits until this shard alone may have a schedule of the name. */
class SetSchedule implements SlicedCommand {
  readonly jobs = 1;
  readonly #claims: ScheduleClaims;
  readonly #name: string;
  readonly #id: number;
  readonly #finish: (claim: Claim | undefined) => void;
  #claim: Claim | undefined;

  /** `id` is that of the put. */
  constructor(claims: ScheduleClaims, name: string, id: number, finish: (claim: Claim | undefined) => void) {
    this.#claims = claims;
    this.#name = name;
    this.#id = id;
    this.#finish = finish;
  }

  get awaitedJob(): number | undefined {
    // Another client's command may be claiming the name for this shard.
    const claim = this.#claim ?? this.#claims.claimOf(this.#name);
    if (claim === undefined || (claim === this.#claim && claim.left === 0)) return undefined;
    return claim.id;
  }

  step(): boolean {
    if (this.#claim !== undefined) return this.#claim.left === 0;
    if (this.awaitedJob !== undefined) return false;
    if (this.#claims.isOwn(this.#name)) return true;
    this.#claim = this.#claims.begin(this.#name, this.#id);
    return false;
  }

  finish(): void {
    assert(this.#claim === undefined || this.#claim.left === 0, "a name is claimed when all have answered");
    this.#finish(this.#claim);
  }
}

interface ShardSchedulesOptions {
  readonly engine: Engine;
  readonly replies: ReplyWriter;
  readonly slicedCommands: SlicedCommands;
  readonly records: RecordLog | undefined;
  readonly shard: number;
  readonly shards: number;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly clock: () => number;
  readonly nowMs: () => number;
  /** Returns wall clock minus monotonic clock now, in ms. */
  readonly wallOffsetMs: () => number;
  readonly isDraining: () => boolean;
  /** Takes the id of a job on this shard. */
  readonly takeJobId: () => number;
  /** Returns a number greater than all before it on any shard, even before the last restart. */
  readonly nextNumber: () => number;
  /** Called before other shards forget a schedule that has moved here. */
  readonly onMove: () => void;
}

export class ShardSchedules {
  readonly turns: ScheduleTurns;
  readonly claims: ScheduleClaims;
  readonly overlaps: OverlapQuestions;
  readonly #setter: ScheduleSetter;
  readonly #nowMs: () => number;

  constructor(options: ShardSchedulesOptions) {
    const { engine, records, clock, nowMs, wallOffsetMs, isDraining, takeJobId, slicedCommands } = options;
    const { schedules } = engine;
    schedules.next = new CronTimes().next;
    schedules.isDraining = isDraining;
    schedules.takeJobId = takeJobId;
    if (records !== undefined) schedules.sink = records;
    this.#nowMs = nowMs;
    const lastRecord = (): number => records?.lastNumber ?? 0;
    const mayLog = (): boolean => records?.hasRoom !== false;
    this.turns = new ScheduleTurns({ schedules, wallOffsetMs, clock, mayLog });
    this.claims = new ScheduleClaims({
      ...options,
      schedules,
      lastRecord,
      wallMs: () => this.wallMs(),
      catchUp: (schedule) => this.turns.catchUp(nowMs(), schedule),
      onSettled: (id) => slicedCommands.settled(id),
    });
    this.overlaps = new OverlapQuestions({
      ...options,
      scheduled: engine.scheduled,
      lastRecord,
      // Without room for the records of a tick, the tick waits, and asks again.
      onAnswer: (schedule, exists) =>
        schedules.answered(schedule, exists, nowMs(), mayLog() ? this.wallMs() : 0),
    });
    if (options.shards > 1) schedules.askOthers = (schedule) => this.overlaps.ask(schedule);
    this.#setter = new ScheduleSetter({ ...options, claims: this.claims, wallMs: () => this.wallMs() });
  }

  /** Returns the time of the wall clock, in ms. */
  wallMs(): number {
    return this.turns.wallMs(this.#nowMs());
  }

  /** Sets a schedule: see ScheduleSetter. */
  set(session: ShardSession, job: NewJob, body: number, tube: string, options: Span): void {
    this.#setter.set(session, job, body, tube, options);
  }
}
