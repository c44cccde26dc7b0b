// `set-schedule` on the shard of the tube.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import { isSameTiming, type ScheduleFacts, type ScheduleProgress } from "../../engine/schedules/schedule.ts";
import { BACK_MS_MAX, type ScheduleBody } from "../../engine/schedules/schedules.ts";
import { badScheduleReply, Reply } from "../../protocol/reply.ts";
import type { Span } from "../../protocol/request.ts";
import { SCHEDULE_BODY_BYTES_MAX } from "../../protocol/schedule-options.ts";
import type { RecordLog } from "../records/record-log.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";
import type { SlicedCommands } from "../slices/sliced-commands.ts";
import type { Claim, KnownSchedule, ScheduleClaims } from "./schedule-claims.ts";
import { scheduleFacts } from "./schedule-facts.ts";

/**
 * Minimum cost of parsing a cron expression and finding its first tick, in Engine.looks. The time
 * taken is charged, too: a search that finds nothing may take 8 ms.
 */
const READING_LOOKS = 10_000;

interface ScheduleSetterOptions {
  readonly engine: Engine;
  readonly replies: Replies;
  readonly slicedCommands: SlicedCommands;
  readonly claims: ScheduleClaims;
  readonly records: RecordLog | undefined;
  readonly nextNumber: () => number;
  readonly clock: () => number;
  readonly nowMs: () => number;
  readonly wallMs: () => number;
}

export class ScheduleSetter {
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
      (typeof facts !== "string" && records?.schedules.fits(facts, bodyBytes) === false);
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
    // An older schedule may continue where a clock that was ahead has left it.
    if (isSet && known !== undefined)
      schedules.correct(schedules.table.get(facts.name)!, this.#options.wallMs());
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
      fired: before?.fired ?? 0,
      runs: before?.runs ?? 0,
      missedTicks: before?.missedTicks ?? 0,
      duplicates: before?.duplicates ?? 0,
      refusals: before?.refusals ?? 0,
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
