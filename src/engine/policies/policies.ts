// The server's own decisions on jobs: unique keys, limits of a tube, attempts, death, backoff,
// expiry.
//
// The engine calls this when a job begins, ends, is reserved, returns or is kicked. It does so only
// for jobs with extras and for tubes with a policy. This class changes extras, keys and queues, and
// has the changes logged; the engine then serves waiting clients.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import * as attribute from "../../protocol/job-attribute.ts";
import { type Attribute, type AttributeWriter, DeathReason } from "../../protocol/job-attribute.ts";
import { type BodyArena, EMPTY_BODY } from "../jobs/body-arena.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import { ExtraFlag, type JobExtras } from "../jobs/job-extras.ts";
import { type JobPage, JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { EarliestTime } from "../queues/earliest-time.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { Tube } from "../tubes/tube.ts";
import { NOTHING_SET, type TubePolicy } from "../tubes/tube-settings.ts";
import type { TubeTable } from "../tubes/tube-table.ts";
import type { RecordSink } from "../waiting/effects.ts";
import type { JobQueues } from "./job-queues.ts";
import { NO_ROW } from "./key-table.ts";
import { UniqueKeys } from "./unique-keys.ts";

const NO_BYTES: Uint8Array = new Uint8Array(0);

/** The verdict on a put. */
export const PutVerdict = { Welcome: 0, Duplicate: 1, TubeFull: 2, NoRoom: 3 } as const;
export type PutVerdict = (typeof PutVerdict)[keyof typeof PutVerdict];

export interface PolicyHost {
  readonly jobs: JobTable;
  readonly bodies: BodyArena;
  readonly queues: JobQueues;
  readonly tubes: TubeTable;
  readonly records: RecordSink;
  /** Returns the slot of a job, or NO_SLOT. */
  readonly find: (id: number) => number;
  /** Removes a job that is in no queue, with its body. */
  readonly end: (slot: number, tube: Tube) => void;
  /** Returns whether this shard owns a tube. */
  readonly ownsTube: (name: string) => boolean;
  /** Seed of the hash of keys. */
  readonly keySeed: readonly [number, number];
  /** Updated with the time when the next key is forgotten. */
  readonly seldom: EarliestTime;
  /** Called for a job that is no longer marked to leave. */
  readonly onSettled: (id: number) => void;
}

export class Policies {
  readonly keys: UniqueKeys;
  /** The job of which the last put was a duplicate. */
  duplicateOf = 0;
  readonly #host: PolicyHost;
  /** Ids of dead jobs that are marked to leave, in the order of their deaths. */
  #leaving: number[] = [];

  constructor(host: PolicyHost) {
    this.#host = host;
    this.keys = new UniqueKeys(host);
  }

  /** When the next job expires or the next key is forgotten; Infinity for never. */
  get nextAtMs(): number {
    return Math.min(this.#host.queues.nextExpiryAtMs, this.keys.table.nextAtMs);
  }

  // --- a job begins ---------------------------------------------------------------------------

  /** Returns whether a put is accepted, before anything is done for it. */
  judge(tube: Tube, bodyBytes: number, attributes: JobAttributes | undefined): PutVerdict {
    if (attributes !== undefined && attributes.keyEnd > attributes.keyStart) {
      const row = this.keys.rowFor(tube, attributes);
      if (row !== NO_ROW) {
        this.duplicateOf = this.keys.table.idOf(row);
        tube.counts.duplicates++;
        return PutVerdict.Duplicate;
      }
      if (this.keys.table.isFull) return PutVerdict.NoRoom;
    }
    const { policy } = tube;
    if (this.#hasNoGroupFor(tube, attributes)) {
      tube.counts.rejected++;
      return PutVerdict.TubeFull;
    }
    if (policy === undefined || !this.isFull(tube, bodyBytes)) return PutVerdict.Welcome;
    tube.counts.rejected++;
    return PutVerdict.TubeFull;
  }

  /** Returns whether a tube has no room for another body of this size. */
  isFull({ policy, jobs, bytes }: Tube, bodyBytes: number): boolean {
    return policy !== undefined && (jobs >= policy.maxJobs || bytes + bodyBytes > policy.maxBytes);
  }

  /** Returns whether a job has died and was not revived. */
  isDead(slot: number): boolean {
    const { extras } = this.#host.jobs.pageOf(slot);
    return extras !== undefined && (extras.flags[rowOf(slot)]! & ExtraFlag.Reason) !== DeathReason.None;
  }

  /**
   * Moves a ready, delayed or buried job, which has left its queue, to another tube, in its state
   * or as ready. A dead job revives there with all its attempts. Returns the tube.
   */
  moveTo(slot: number, tube: Tube, target: string, asReady: boolean, nowMs: number): Tube {
    const { jobs, queues, records } = this.#host;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const state = page.state[row];
    const deadlineAtMs = page.deadlineAtMs[row]!;
    const wasDead = this.isDead(slot);
    if (wasDead) this.forgetDeath(slot);
    const there = this.changeTube(slot, tube, target);
    if (wasDead || asReady || state === JobState.Ready) queues.becomeReady(slot, there, nowMs);
    else if (state === JobState.Delayed) queues.becomeDelayed(slot, there, deadlineAtMs);
    else queues.becomeBuried(slot, there, nowMs);
    records.updated(slot);
    return there;
  }

  /** Revives a dead job, with all its attempts. */
  forgetDeath(slot: number): void {
    const { bodies, jobs } = this.#host;
    const page = jobs.pageOf(slot);
    const extras = page.extras!;
    const row = rowOf(slot);
    this.#unmark(page, row);
    extras.flags[row]! &= ~ExtraFlag.Reason;
    bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.originBytes[row] = 0;
    extras.attemptsBase[row] = page.reserves[row]!;
  }

  #hasNoGroupFor(tube: Tube, attributes: JobAttributes | undefined): boolean {
    if (attributes === undefined || tube.groups === undefined) return false;
    const { bytes, length } = attributes.fixed;
    const key = textAttribute(bytes, length, attribute.Attribute.Group);
    return key !== "" && tube.groups.isFull(key, tube.policy?.maxGroups ?? NOTHING_SET.maxGroups);
  }

  /**
   * Gives a job that is in no queue yet its attributes, or the TTL of its tube. Throws RangeError
   * when memory is exhausted; `forget` then undoes what was done.
   */
  begin(slot: number, tube: Tube, attributes: JobAttributes | undefined, atMs: number): void {
    const ttlMs = tube.policy?.ttlMs ?? 0;
    if (attributes === undefined && ttlMs === 0) return;
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const extras = page.makeExtras();
    if (attributes !== undefined) this.#keep(extras, row, attributes);
    if (extras.expiresAtMs[row] === 0 && ttlMs > 0) extras.expiresAtMs[row] = atMs + ttlMs;
    if (extras.expiresAtMs[row]! > 0) tube.expiry.makeRoom();
    if (attributes !== undefined && hasGroup(attributes)) this.#joinGroup(slot, tube, true);
    // `judge` has searched for the key and not found it.
    if (attributes !== undefined && attributes.keyEnd > attributes.keyStart)
      this.keys.begin(slot, attributes);
  }

  #keep(extras: JobExtras, row: number, attributes: JobAttributes): void {
    const { bodies } = this.#host;
    const { fixed, origin } = attributes;
    if (fixed.length > 0) {
      extras.attributes[row] = bodies.allocate(fixed.length);
      extras.attributeBytes[row] = fixed.length;
      bodies.write(extras.attributes[row]!, 0, fixed.bytes, 0, fixed.length);
    }
    if (origin.length > 0) this.#setOrigin(extras, row, origin);
    extras.expiresAtMs[row] = attributes.expiresAtMs;
    extras.attemptsBase[row] = attributes.attemptsBase;
    extras.flags[row] =
      attributes.reason |
      (attributes.moved ? ExtraFlag.Moved : 0) |
      (attributes.untilReserve ? ExtraFlag.UntilReserve : 0) |
      (attributes.keyEnd > attributes.keyStart ? ExtraFlag.Keyed : 0);
  }

  #setOrigin(extras: JobExtras, row: number, origin: Uint8Array): void {
    const { bodies } = this.#host;
    bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.origin[row] = bodies.allocate(origin.length);
    extras.originBytes[row] = origin.length;
    bodies.write(extras.origin[row]!, 0, origin, 0, origin.length);
  }

  /** Restores the extras of a job from the log, before it enters its queue. */
  restore(slot: number, tube: Tube, attributes: JobAttributes): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#keep(page.makeExtras(), row, attributes);
    if (attributes.leaving) this.#markLeaving(slot);
    this.#joinGroup(slot, tube, !attributes.moved, page.id[row]!);
    this.keys.restore(slot, tube, attributes);
  }

  // --- a job ends -----------------------------------------------------------------------------

  /** Releases everything that a job in no queue has besides its row. */
  forget(slot: number): void {
    const { extras } = this.#host.jobs.pageOf(slot);
    if (extras === undefined) return;
    const row = rowOf(slot);
    const { bodies, jobs } = this.#host;
    this.keys.drop(slot);
    this.#unmark(jobs.pageOf(slot), row);
    this.#leaveGroup(extras, row, slot);
    bodies.free(extras.attributes[row]!);
    bodies.free(extras.origin[row]!);
    extras.clear(row);
  }

  // --- groups ---------------------------------------------------------------------------------

  readonly #onGroupChanged = (tube: Tube): void => this.#host.queues.improved(tube);

  /** Adds a job to its group, if it has one; only puts set the weight (see `JobGroups.join`). */
  #joinGroup(slot: number, tube: Tube, isPut: boolean, by = Number.POSITIVE_INFINITY): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const extras = page.extras!;
    if (extras.attributes[row] === EMPTY_BODY) return;
    const bytes = this.#fixedOf(extras, row);
    const key = textAttribute(bytes, bytes.length, attribute.Attribute.Group);
    if (key === "") return;
    const weightAt = attribute.findAttribute(bytes, 0, bytes.length, attribute.Attribute.Weight);
    const weight = weightAt < 0 ? 1 : bytes[weightAt]! | (bytes[weightAt + 1]! << 8);
    const inWorkMax = tube.policy?.groupMaxReserved ?? Number.POSITIVE_INFINITY;
    const groups = tube.groupsMade(inWorkMax, this.#onGroupChanged);
    const number = groups.join(key, isPut ? weight : 0, by);
    extras.groupRow[row] = number;
    groups.makeRoom(number);
  }

  /** Removes a job that is in no queue from its group. */
  #leaveGroup(extras: JobExtras, row: number, slot: number): void {
    const number = extras.groupRow[row]!;
    if (number === NO_GROUP) return;
    extras.groupRow[row] = NO_GROUP;
    this.#host.queues.tubeOf(slot).groups!.leave(number);
  }

  // --- the end of a reservation ---------------------------------------------------------------

  /** Ends a reservation as the policies say; returns the tube if the job is ready there. */
  reservationEnded(slot: number, tube: Tube, delayMs: number, nowMs: number): Tube | undefined {
    const { jobs, queues, records } = this.#host;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const expiresAtMs = page.extras?.expiresAtMs[row] ?? 0;
    if (expiresAtMs > 0 && expiresAtMs <= nowMs) {
      this.#expire(slot, tube, nowMs);
      return undefined;
    }
    const { policy } = tube;
    const attempts = page.reserves[row]! - (page.extras?.attemptsBase[row] ?? 0);
    if (policy !== undefined && policy.maxAttempts > 0 && attempts >= policy.maxAttempts)
      return this.#die(slot, tube, policy, nowMs);
    let waitMs = delayMs;
    if (waitMs === 0 && policy !== undefined && policy.backoffMs > 0) {
      waitMs = backoffMs(policy, page.id[row]!, attempts);
      page.delaySeconds[row] = Math.floor(waitMs / 1000);
    }
    if (waitMs > 0) queues.becomeDelayed(slot, tube, nowMs + waitMs);
    else queues.becomeReady(slot, tube, nowMs);
    records.updated(slot);
    return waitMs > 0 ? undefined : tube;
  }

  /** Handles a job without attempts left; one that died before stays, or it would go in circles. */
  #die(slot: number, tube: Tube, policy: TubePolicy, nowMs: number): Tube | undefined {
    const { jobs, queues, records, ownsTube } = this.#host;
    const extras = jobs.pageOf(slot).makeExtras();
    const row = rowOf(slot);
    const hadOrigin = extras.origin[row] !== EMPTY_BODY;
    this.#markDead(slot, tube, DeathReason.Attempts);
    if (policy.deadLetter !== "" && !hadOrigin) {
      if (ownsTube(policy.deadLetter)) return this.#enterDeadLetter(slot, tube, policy.deadLetter, nowMs);
      this.#markLeaving(slot);
    }
    queues.becomeBuried(slot, tube, nowMs);
    records.updated(slot);
    return undefined;
  }

  #enterDeadLetter(slot: number, tube: Tube, target: string, nowMs: number): Tube {
    const there = this.changeTube(slot, tube, target);
    this.#host.queues.becomeReady(slot, there, nowMs);
    this.#host.records.updated(slot);
    return there;
  }

  // Marks a dead job whose dead-letter tube is on another shard; it stays buried until it is
  // transferred. The log contains the mark: after a restart only marked jobs continue, and not jobs
  // that were buried before a dead-letter tube was set.

  #markLeaving(slot: number): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.extras!.flags[row]! |= ExtraFlag.Leaving;
    this.#leaving.push(page.id[row]!);
  }

  /** Resumes the departure of a job that returned from another transfer and still has its mark. */
  leaveAfterAll(slot: number): void {
    if (this.isLeaving(slot)) this.#markLeaving(slot);
  }

  get someLeave(): boolean {
    return this.#leaving.length > 0;
  }

  /** Returns the jobs marked to leave since the last call; some may have changed since. */
  takeLeaving(): readonly number[] {
    const leaving = this.#leaving;
    this.#leaving = [];
    return leaving;
  }

  isLeaving(slot: number): boolean {
    const { extras } = this.#host.jobs.pageOf(slot);
    return extras !== undefined && (extras.flags[rowOf(slot)]! & ExtraFlag.Leaving) !== 0;
  }

  /**
   * Removes a job's mark unless it is in transit; returns the tube to which it has to go, or "". A
   * job that stays is buried anew, behind the others, with a record: otherwise it would still be
   * marked in the log, and leave after a restart.
   */
  endLeaving(slot: number, tube: Tube, nowMs: number): string {
    if (!this.isLeaving(slot)) return "";
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Moving && page.previous[row] === JobState.Buried) return "";
    this.#unmark(page, row);
    if (page.state[row] !== JobState.Buried) return "";
    const target = tube.policy?.deadLetter ?? "";
    if (target !== "" && target !== tube.name) return target;
    this.#host.queues.leave(slot);
    this.#host.queues.becomeBuried(slot, tube, nowMs);
    this.#host.records.updated(slot);
    return "";
  }

  #unmark({ id, extras }: JobPage, row: number): void {
    if ((extras!.flags[row]! & ExtraFlag.Leaving) === 0) return;
    extras!.flags[row]! &= ~ExtraFlag.Leaving;
    this.#host.onSettled(id[row]!);
  }

  /** Moves a buried dead job to its dead-letter tube, which this shard owns. */
  bringToDeadLetter(slot: number, tube: Tube, target: string, nowMs: number): Tube {
    this.#host.queues.leave(slot);
    return this.#enterDeadLetter(slot, tube, target, nowMs);
  }

  /** Marks a job as dead: it loses its TTL and its key, and remembers where it died. */
  #markDead(slot: number, tube: Tube, reason: DeathReason): void {
    const extras = this.#host.jobs.pageOf(slot).makeExtras();
    const row = rowOf(slot);
    this.keys.drop(slot);
    extras.expiresAtMs[row] = 0;
    extras.flags[row] = (extras.flags[row]! & ~ExtraFlag.Reason) | reason;
    if (extras.origin[row] === EMPTY_BODY) this.#setOrigin(extras, row, tube.nameBytes);
    tube.counts.dead++;
  }

  // --- other moves ----------------------------------------------------------------------------

  /** Prepares a job for a kick: it regains its attempts, and revives if it died in this tube. */
  kicked(slot: number, tube: Tube): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { policy } = tube;
    if (policy !== undefined && (policy.maxAttempts > 0 || policy.backoffMs > 0) && page.reserves[row]! > 0)
      page.makeExtras().attemptsBase[row] = page.reserves[row]!;
    const { extras } = page;
    if (extras === undefined || (extras.flags[row]! & ExtraFlag.Reason) === DeathReason.None) return;
    if (this.originOf(slot) === tube.name) this.revive(slot, tube);
  }

  /** Excuses a job that its holder returned through no fault of the job: not an attempt. */
  excused(slot: number, tube: Tube): void {
    const page = this.#host.jobs.pageOf(slot);
    if (!this.excuses(tube)) return;
    const { attemptsBase } = page.makeExtras();
    attemptsBase[rowOf(slot)] = attemptsBase[rowOf(slot)]! + 1;
  }

  /** Returns whether the tube counts attempts, so that there is one to excuse. */
  excuses({ policy }: Tube): boolean {
    return policy !== undefined && policy.maxAttempts > 0;
  }

  /** Revives a dead job in this tube: it may die again, and regains its key if that is free. */
  revive(slot: number, tube: Tube): void {
    const { bodies, jobs } = this.#host;
    const page = jobs.pageOf(slot);
    const extras = page.extras!;
    const row = rowOf(slot);
    this.#unmark(page, row);
    extras.flags[row]! &= ~ExtraFlag.Reason;
    bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.originBytes[row] = 0;
    this.keys.take(slot, tube);
  }

  /** Moves a job that is in no queue to another tube. Its key moves along if it is free there. */
  changeTube(slot: number, tube: Tube, name: string): Tube {
    const { jobs, queues, tubes } = this.#host;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const target = tubes.open(name);
    queues.becomeFree(slot, tube);
    const extras = page.makeExtras();
    const groupBefore = extras.groupRow[row]!;
    extras.groupRow[row] = NO_GROUP;
    page.tube[row] = target.index;
    tube.bytes -= page.bodyBytes[row]!;
    target.bytes += page.bodyBytes[row]!;
    extras.flags[row]! |= ExtraFlag.Moved;
    this.keys.drop(slot);
    if ((extras.flags[row]! & ExtraFlag.Reason) === DeathReason.None) this.keys.take(slot, target);
    this.#joinGroup(slot, target, false);
    // A tube may be its own dead-letter tube; its group must not lose its weight in between.
    if (groupBefore !== NO_GROUP) tube.groups!.leave(groupBefore);
    tube.counts.movedOut++;
    target.counts.movedIn++;
    return target;
  }

  /**
   * Gives a job from another shard, which is in no queue yet, its extras; a dead job remains dead
   * if `staysDead`. Throws RangeError when memory is exhausted; `forget` then undoes what was done.
   */
  arrive(slot: number, tube: Tube, attributes: JobAttributes | undefined, staysDead: boolean): void {
    const page = this.#host.jobs.pageOf(slot);
    const extras = page.makeExtras();
    const row = rowOf(slot);
    if (attributes !== undefined) this.#keep(extras, row, attributes);
    extras.flags[row] = extras.flags[row]! | ExtraFlag.Moved;
    if (extras.expiresAtMs[row]! > 0) tube.expiry.makeRoom();
    this.#joinGroup(slot, tube, false);
    if (!staysDead && this.isDead(slot)) this.forgetDeath(slot);
    if (!this.isDead(slot)) this.keys.take(slot, tube);
  }

  // --- time -----------------------------------------------------------------------------------

  /** Forgets a due key or expires a job; returns that job's tube, whose best job may differ now. */
  runOne(nowMs: number): Tube | undefined {
    const { queues } = this.#host;
    if (this.keys.runOne(nowMs)) return undefined;
    const slot = queues.nextExpiring;
    assert(slot !== NO_SLOT, "a timer that is due has a job");
    const tube = queues.tubeOf(slot);
    queues.leave(slot);
    this.#expire(slot, tube, nowMs);
    return tube;
  }

  /** Handles the expiry of a job that is in no queue. */
  #expire(slot: number, tube: Tube, nowMs: number): void {
    const { queues, records, jobs, end } = this.#host;
    tube.counts.expired++;
    if (tube.policy?.expireBuries === true) {
      this.#markDead(slot, tube, DeathReason.Expired);
      queues.becomeBuried(slot, tube, nowMs);
      records.updated(slot);
      return;
    }
    const id = jobs.pageOf(slot).id[rowOf(slot)]!;
    if (!this.keys.end(slot, nowMs)) records.deleted(id);
    end(slot, tube);
  }

  // --- for the log and for queries ------------------------------------------------------------

  /** Returns the tube in which a job died, or "". */
  originOf(slot: number): string {
    const { extras } = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const bytes = extras?.originBytes[row] ?? 0;
    if (bytes === 0) return "";
    const name = new Uint8Array(bytes);
    this.#host.bodies.read(extras!.origin[row]!, 0, name, 0, bytes);
    return String.fromCharCode(...name);
  }

  /** Returns the immutable attributes of a job, without times. Valid until the next call. */
  #fixedOf(extras: JobExtras, row: number): Uint8Array {
    const length = extras.attributeBytes[row]!;
    this.#host.bodies.read(extras.attributes[row]!, 0, this.#scratch, 0, length);
    return this.#scratch.subarray(0, length);
  }
  readonly #scratch = new Uint8Array(attribute.ATTRIBUTE_BYTES_MAX);

  /** Does the same for any job; empty for a job without attributes. */
  fixedAttributes(slot: number): Uint8Array {
    const { extras } = this.#host.jobs.pageOf(slot);
    if (extras === undefined || extras.attributeBytes[rowOf(slot)] === 0) return NO_BYTES;
    return this.#fixedOf(extras, rowOf(slot));
  }

  /** Writes what only a PUT contains; `wallOffsetMs` is wall clock minus monotonic clock. */
  writeFixed(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { extras } = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (extras === undefined || extras.attributes[row] === EMPTY_BODY) return;
    const fixed = this.#fixedOf(extras, row);
    for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed[at + 1]!)
      writer.text(fixed[at] as Attribute, fixed, at + 2, at + 2 + fixed[at + 1]!);
    const untilMs = this.keys.untilOf(extras, row);
    if (untilMs > 0) writer.float64(attribute.Attribute.UniqueUntil, untilMs + wallOffsetMs);
  }

  /** Writes the attributes that every UPDATE contains. */
  writeMutable(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { extras } = this.#host.jobs.pageOf(slot);
    if (extras === undefined) return;
    const row = rowOf(slot);
    const { Attribute } = attribute;
    const flags = extras.flags[row]!;
    if ((flags & ExtraFlag.Moved) !== 0) writer.flag(Attribute.Moved);
    if ((flags & ExtraFlag.Leaving) !== 0) writer.flag(Attribute.Leaving);
    this.keys.write(extras, row, writer);
    if (extras.expiresAtMs[row]! > 0)
      writer.float64(Attribute.ExpiresAt, extras.expiresAtMs[row]! + wallOffsetMs);
    if (extras.attemptsBase[row]! > 0) writer.uint32(Attribute.AttemptsBase, extras.attemptsBase[row]!);
    const originBytes = extras.originBytes[row]!;
    if (originBytes > 0) {
      this.#host.bodies.read(extras.origin[row]!, 0, this.#scratch, 0, originBytes);
      writer.text(Attribute.Origin, this.#scratch, 0, originBytes);
    }
    if ((flags & ExtraFlag.Reason) !== DeathReason.None)
      writer.uint8(Attribute.Reason, flags & ExtraFlag.Reason);
  }

  /** Returns whether an UPDATE of the job has to name its tube. */
  isMoved(slot: number): boolean {
    const { extras } = this.#host.jobs.pageOf(slot);
    return extras !== undefined && (extras.flags[rowOf(slot)]! & ExtraFlag.Moved) !== 0;
  }
}

function hasGroup({ fixed }: JobAttributes): boolean {
  return attribute.findAttribute(fixed.bytes, 0, fixed.length, attribute.Attribute.Group) >= 0;
}

/**
 * Returns how long a job waits after its `attempts`-th lost attempt: twice as long as after the
 * previous one, minus up to a quarter, so that jobs that failed together do not return together.
 * Deterministic, so a replay computes the same.
 */
export function backoffMs(policy: TubePolicy, id: number, attempts: number): number {
  const exponent = Math.min(60, Math.max(0, attempts - 1));
  const wholeMs = Math.min(policy.backoffMaxMs, policy.backoffMs * 2 ** exponent, MAX_DELAY_MS);
  return Math.max(1, Math.round(wholeMs * (1 - spread(id, attempts) / 4)));
}

/** The longest delay that a command can set. */
const MAX_DELAY_MS = 0xffff_ffff * 1000;

/** Returns a pseudo-random number from 0 to below 1, from a hash. */
function spread(id: number, attempts: number): number {
  let hash = Math.imul((id % 0x1_0000_0000) ^ Math.imul(attempts, 0x9e3779b1), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000;
}

/** Returns the value of a text attribute as Latin-1, or "". */
function textAttribute(bytes: Uint8Array, end: number, tag: number): string {
  const at = attribute.findAttribute(bytes, 0, end, tag);
  return at < 0 ? "" : latin1(bytes, at, at + bytes[at - 1]!);
}
