// Gives jobs their attributes, unique keys and groups, changes their tubes, and removes jobs with
// everything that belongs to them, including row, index entry and body.
//
// None of these jobs is in a queue: the caller puts it into one later, or has taken it out before.

import { assert, CHECKED } from "../../base/assert.ts";
import { latin1, Memory } from "../../base/bytes.ts";
import * as attribute from "../../protocol/job-attribute.ts";
import {
  Attribute,
  type AttributeWriter,
  DeathReason,
  findAttribute,
  wholeAttribute,
} from "../../protocol/job-attribute.ts";
import { JobCounter } from "../../schema/job.ts";
import { NOTHING_SET } from "../../schema/setting.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { ENDS } from "../jobs/ends.ts";
import {
  ExtraFlag,
  FlowFlag,
  type JobExtras,
  type JobFlows,
  type JobPage,
  JobState,
  rowOf,
} from "../jobs/job-table.ts";
import type { JobAttributes } from "../jobs/new-job.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { ShardState } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import type { Failures } from "./failures.ts";
import type { JobNotes } from "./job-notes.ts";
import { NO_ROW } from "./key-table.ts";
import type { UniqueKeys } from "./unique-keys.ts";

// The arena's part of a job besides its body: the attributes that it was put with, and the tube in
// which a dead job died. Also writes both, and all other extras, for the log.

const NO_BYTES: Uint8Array = new Uint8Array(0);
const GROUP: number = attribute.Attribute.Group;
const WEIGHT: number = attribute.Attribute.Weight;
/** When a job expires that was cancelled while a session held it. */
export const LONG_AGO_MS: number = Number.MIN_VALUE;
/** Immutable attributes that a put gives to a job that it replaces. */
const CARRIED: ReadonlySet<number> = new Set([
  attribute.Attribute.UntilReserve,
  attribute.Attribute.Weight,
  attribute.Attribute.Cost,
  attribute.Attribute.Meta,
]);

export class StoredAttributes {
  readonly #shard: ShardState;
  readonly #keys: UniqueKeys;
  readonly #failures: Failures;
  readonly notes: JobNotes;
  readonly #scratch = new Uint8Array(attribute.ATTRIBUTE_BYTES_MAX);
  readonly #merged = new attribute.AttributeWriter(Memory.ofSize(2 * attribute.ATTRIBUTE_BYTES_MAX));

  constructor(shard: ShardState, keys: UniqueKeys, failures: Failures, notes: JobNotes) {
    this.#shard = shard;
    this.#keys = keys;
    this.#failures = failures;
    this.notes = notes;
  }

  /** Stores what a put, another shard or the log says about a job; its row has no extras yet. */
  keep(extras: JobExtras, row: number, attributes: JobAttributes): void {
    const { bodies } = this.#shard;
    const { fixed, origin } = attributes;
    assert(
      extras.attributes[row] === EMPTY_BODY && extras.flags[row] === 0,
      "a job gets its attributes once",
    );
    if (fixed.length > 0) {
      extras.attributes[row] = bodies.allocate(fixed.length);
      extras.attributeBytes[row] = fixed.length;
      extras.extraCost[row] = wholeAttribute(fixed.bytes, fixed.length, Attribute.Cost) - 1;
      bodies.write(extras.attributes[row]!, 0, fixed.bytes, 0, fixed.length);
      this.#shard.scheduled.add(fixed.bytes, fixed.length);
    }
    if (origin.length > 0) this.setOrigin(extras, row, origin);
    assert(origin.length <= 0xff, "the length of an origin fits into its column");
    const isCancelled = attributes.cancelled !== undefined;
    // Even if the wall clock has gone back since.
    extras.expiresAtMs[row] = isCancelled ? LONG_AGO_MS : attributes.expiresAtMs;
    extras.attemptsBase[row] = attributes.attemptsBase;
    extras.flags[row] =
      attributes.reason |
      (isCancelled ? ExtraFlag.Cancelled : 0) |
      (attributes.moved ? ExtraFlag.Moved : 0) |
      (attributes.untilReserve ? ExtraFlag.UntilReserve : 0) |
      (attributes.hasKey ? ExtraFlag.Keyed : 0);
  }

  /** Stores a job's batches. Throws RangeError when memory is exhausted. */
  keepFlows(page: JobPage, row: number, attributes: JobAttributes): void {
    const flows = this.#shard.jobs.makeFlows(page);
    assert(flows.batch[row] === 0 && flows.after[row] === 0, "a job gets its batches once");
    flows.batch[row] = attributes.batch;
    flows.after[row] = attributes.after;
    flows.flags[row] =
      (attributes.batchHasEnded ? FlowFlag.Ended : 0) |
      (attributes.batchIsSpared ? FlowFlag.Spared : 0) |
      (attributes.afterAny ? FlowFlag.Any : 0);
  }

  /**
   * Returns the immutable attributes of a job after a put has replaced it: what the put names, and
   * the rest of the job's own. Valid until the next call.
   */
  mergedWith(slot: number, { fixed }: JobAttributes): Uint8Array {
    const writer = this.#merged;
    writer.clear();
    const own = this.fixedAttributes(slot);
    const names = (tag: number): boolean => attribute.findAttribute(fixed.bytes, 0, fixed.length, tag) >= 0;
    // A group without a weight has weight 1.
    const named = (tag: number): boolean => names(tag) || (tag === WEIGHT && names(GROUP));
    for (let at = 0; at + 2 <= own.length; at += 2 + own[at + 1]!)
      if (!CARRIED.has(own[at]!) || !named(own[at]!))
        writer.text(own[at] as Attribute, own, at + 2, at + 2 + own[at + 1]!);
    for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed.bytes[at + 1]!)
      if (CARRIED.has(fixed.bytes[at]!))
        writer.text(fixed.bytes[at] as Attribute, fixed.bytes, at + 2, at + 2 + fixed.bytes[at + 1]!);
    return writer.bytes.subarray(0, writer.length);
  }

  /** Stores immutable attributes for `exchange`. Throws RangeError when memory is exhausted. */
  store(bytes: Uint8Array): number {
    assert(bytes.length <= attribute.ATTRIBUTE_BYTES_MAX, "the attributes of a job are limited");
    if (bytes.length === 0) return EMPTY_BODY;
    const cell = this.#shard.bodies.allocate(bytes.length);
    this.#shard.bodies.write(cell, 0, bytes, 0, bytes.length);
    return cell;
  }

  /** Gives a job other immutable attributes, `fixed`, which are stored already. */
  exchange(extras: JobExtras, row: number, cell: number, fixed: Uint8Array, untilReserve: boolean): void {
    const { bodies, scheduled } = this.#shard;
    this.#uncount(extras, row);
    bodies.free(extras.attributes[row]!);
    extras.attributes[row] = cell;
    extras.attributeBytes[row] = fixed.length;
    extras.extraCost[row] = wholeAttribute(fixed, fixed.length, Attribute.Cost) - 1;
    scheduled.add(fixed, fixed.length);
    if (untilReserve) extras.flags[row]! |= ExtraFlag.UntilReserve;
  }

  /** Frees everything that a job has in the arena besides its body. */
  free(extras: JobExtras, row: number): void {
    this.#uncount(extras, row);
    this.#shard.bodies.free(extras.attributes[row]!);
    this.#shard.bodies.free(extras.origin[row]!);
    this.notes.forget(extras, row);
  }

  /** Counts the job no more as one of its schedule, if it has one. */
  #uncount(extras: JobExtras, row: number): void {
    const { scheduled } = this.#shard;
    if (scheduled.size === 0 || extras.attributes[row] === EMPTY_BODY) return;
    scheduled.remove(this.fixedOf(extras, row), extras.attributeBytes[row]!);
  }

  /** Remembers the name of the tube in which a job died. */
  setOrigin(extras: JobExtras, row: number, origin: Uint8Array): void {
    const { bodies } = this.#shard;
    assert(origin.length > 0 && origin.length <= 0xff, "a tube has a name");
    bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.origin[row] = bodies.allocate(origin.length);
    extras.originBytes[row] = origin.length;
    bodies.write(extras.origin[row]!, 0, origin, 0, origin.length);
  }

  forgetOrigin(extras: JobExtras, row: number): void {
    this.#shard.bodies.free(extras.origin[row]!);
    extras.origin[row] = EMPTY_BODY;
    extras.originBytes[row] = 0;
  }

  /** Returns the tube in which a job died, or "". */
  originOf(slot: number): string {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const bytes = extras?.originBytes[row] ?? 0;
    if (bytes === 0) return "";
    assert(extras!.origin[row] !== EMPTY_BODY, "the name of a tube is in the arena");
    const name = new Uint8Array(bytes);
    this.#shard.bodies.read(extras!.origin[row]!, 0, name, 0, bytes);
    return String.fromCharCode(...name);
  }

  /** Returns the immutable attributes of a job, without times. Valid until the next call. */
  fixedOf(extras: JobExtras, row: number): Uint8Array {
    const length = extras.attributeBytes[row]!;
    assert(length <= this.#scratch.length, "attributes fit into the scratch space");
    this.#shard.bodies.read(extras.attributes[row]!, 0, this.#scratch, 0, length);
    return this.#scratch.subarray(0, length);
  }

  /** Does the same for any job; empty for a job without attributes. */
  fixedAttributes(slot: number): Uint8Array {
    const { extras } = this.#shard.jobs.pageOf(slot);
    if (extras === undefined || extras.attributeBytes[rowOf(slot)] === 0) return NO_BYTES;
    return this.fixedOf(extras, rowOf(slot));
  }

  // --- for the log ----------------------------------------------------------------------------

  /** Writes what only a PUT contains; `wallOffsetMs` is wall clock minus monotonic clock. */
  writeFixed(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { extras } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (extras === undefined || extras.attributes[row] === EMPTY_BODY) return;
    const fixed = this.fixedOf(extras, row);
    for (let at = 0; at + 2 <= fixed.length; at += 2 + fixed[at + 1]!)
      writer.text(fixed[at] as Attribute, fixed, at + 2, at + 2 + fixed[at + 1]!);
    const untilMs = this.#keys.untilOf(extras, row);
    if (untilMs > 0) writer.float64(attribute.Attribute.UniqueUntil, untilMs + wallOffsetMs);
  }

  /** Writes the attributes that every UPDATE contains. */
  writeMutable(slot: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { extras, failures, state } = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (extras !== undefined) this.#writeExtras(extras, row, writer, wallOffsetMs);
    if (extras?.isCancelled(row) === true) this.notes.write(slot, writer);
    // After a restart, a reserved job is ready: its reservation ended with the server.
    const excused = state[row] === JobState.Reserved && !ENDS.Stopped.isAttempt ? 1 : 0;
    const attemptsBase = (extras?.attemptsBase[row] ?? 0) + excused;
    if (attemptsBase > 0) writer.uint32(attribute.Attribute.AttemptsBase, attemptsBase);
    if (failures !== undefined) this.#failures.write(slot, writer, wallOffsetMs);
  }

  #writeExtras(extras: JobExtras, row: number, writer: AttributeWriter, wallOffsetMs: number): void {
    const { Attribute } = attribute;
    const flags = extras.flags[row]!;
    if ((flags & ExtraFlag.Moved) !== 0) writer.flag(Attribute.Moved);
    if ((flags & ExtraFlag.Leaving) !== 0) writer.flag(Attribute.Leaving);
    this.#keys.write(extras, row, writer);
    if (extras.expiresAtMs[row]! > 0)
      writer.float64(Attribute.ExpiresAt, extras.expiresAtMs[row]! + wallOffsetMs);
    const originBytes = extras.originBytes[row]!;
    if (originBytes > 0) {
      this.#shard.bodies.read(extras.origin[row]!, 0, this.#scratch, 0, originBytes);
      writer.text(Attribute.Origin, this.#scratch, 0, originBytes);
    }
    if ((flags & ExtraFlag.Reason) !== DeathReason.None)
      writer.uint8(Attribute.Reason, flags & ExtraFlag.Reason);
    if (extras.flows !== undefined) writeFlows(extras.flows, row, writer);
  }

  /** Returns whether an UPDATE of the job has to name its tube. */
  isMoved(slot: number): boolean {
    const { extras } = this.#shard.jobs.pageOf(slot);
    return extras !== undefined && (extras.flags[rowOf(slot)]! & ExtraFlag.Moved) !== 0;
  }
}

function writeFlows({ batch, after, flags }: JobFlows, row: number, writer: AttributeWriter): void {
  const { Attribute, BatchMark } = attribute;
  const flag = flags[row]!;
  const ended = (flag & FlowFlag.Ended) === 0 ? 0 : BatchMark.Ended;
  const spared = (flag & FlowFlag.Spared) === 0 ? 0 : BatchMark.Spared;
  if (batch[row] !== 0) writer.flagged(Attribute.Batch, batch[row]!, ended | spared);
  if (after[row] !== 0) writer.flagged(Attribute.After, after[row]!, Number((flag & FlowFlag.Any) !== 0));
}

/** Returns the value of a text attribute as Latin-1, or "". */
export function textAttribute(bytes: Uint8Array, end: number, tag: number): string {
  const at = attribute.findAttribute(bytes, 0, end, tag);
  return at < 0 ? "" : latin1(bytes, at, at + bytes[at - 1]!);
}

// The groups of jobs: which group a job names, and how it joins and leaves that group.

export class GroupMembership {
  readonly #shard: ShardState;
  readonly #attributes: StoredAttributes;
  readonly #onGroupChanged = (tube: Tube): void => this.#shard.queues.improved(tube);

  constructor(shard: ShardState, attributes: StoredAttributes) {
    this.#shard = shard;
    this.#attributes = attributes;
  }

  /** Returns whether a put names a group that the tube has no room for. */
  hasNoRoomFor(tube: Tube, attributes: JobAttributes | undefined): boolean {
    if (attributes === undefined || tube.groups === undefined) return false;
    const { bytes, length } = attributes.fixed;
    const key = textAttribute(bytes, length, Attribute.Group);
    return key !== "" && tube.groups.isFull(key, tube.policy?.maxGroups ?? NOTHING_SET.maxGroups);
  }

  /** Adds a job to its group, if it has one. */
  join(slot: number, tube: Tube): void {
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const extras = page.extras!;
    if (extras.attributes[row] === EMPTY_BODY) return;
    assert(extras.groupRow[row] === NO_GROUP, "a job joins one group");
    const bytes = this.#attributes.fixedOf(extras, row);
    const key = textAttribute(bytes, bytes.length, Attribute.Group);
    if (key === "") return;
    const groups = tube.makeGroups(this.#shard.tubes.retiredBuckets, this.#onGroupChanged);
    const number = groups.join(key);
    assert(number !== NO_GROUP, "a group with a key has a number of its own");
    extras.groupRow[row] = number;
    groups.makeRoom(number);
  }

  /** Sets the weight of the job's group, if it has one, to that of its put (see `JobGroups`). */
  weigh(slot: number, tube: Tube, by?: number): void {
    const extras = this.#shard.jobs.pageOf(slot).extras!;
    const row = rowOf(slot);
    const number = extras.groupRow[row]!;
    if (number === NO_GROUP) return;
    const bytes = this.#attributes.fixedOf(extras, row);
    const weight = wholeAttribute(bytes, bytes.length, Attribute.Weight);
    assert(tube.groups !== undefined, "the tube of a job with a group has groups");
    tube.groups.weigh(number, weight, by);
  }

  /** Removes a job that is in no queue from its group. */
  leave(extras: JobExtras, row: number, slot: number): void {
    const number = extras.groupRow[row]!;
    if (number === NO_GROUP) return;
    extras.groupRow[row] = NO_GROUP;
    const { groups } = this.#shard.tubeOf(slot);
    assert(groups !== undefined, "the tube of a job with a group has groups");
    groups.leave(number);
  }
}

function hasGroup({ fixed }: JobAttributes): boolean {
  return findAttribute(fixed.bytes, 0, fixed.length, Attribute.Group) >= 0;
}

/** Returns whether a put sets the weight of its group: a group without a weight has weight 1. */
export function weighs(attributes: JobAttributes): boolean {
  const { fixed } = attributes;
  return hasGroup(attributes) || findAttribute(fixed.bytes, 0, fixed.length, Attribute.Weight) >= 0;
}

// Dead jobs: their mark with reason and origin, their revival, and their departure to a dead-letter
// tube of another shard.
//
// A dead job whose dead-letter tube is on another shard stays buried, with a mark, until it is
// transferred. The log contains the mark: after a restart only marked jobs continue, and not jobs
// that were buried before a dead-letter tube was set.

export class DeadJobs {
  /** Whether jobs were marked to leave since the last `takeLeaving`. Read in each turn. */
  someLeave = false;
  readonly #shard: ShardState;
  readonly #keys: UniqueKeys;
  readonly #attributes: StoredAttributes;
  /** Ids of dead jobs that are marked to leave, in the order of their deaths. */
  #leaving: number[] = [];

  constructor(shard: ShardState, keys: UniqueKeys, attributes: StoredAttributes) {
    this.#shard = shard;
    this.#keys = keys;
    this.#attributes = attributes;
  }

  /** Returns whether a job has died and was not revived. */
  isDead(slot: number): boolean {
    const { extras } = this.#shard.jobs.pageOf(slot);
    return extras?.isDead(rowOf(slot)) === true;
  }

  /** Marks a job as dead: it loses its TTL and lets go of its key, and remembers where it died. */
  mark(slot: number, tube: Tube, reason: DeathReason, nowMs: number): void {
    assert(reason !== DeathReason.None, "a death has a reason");
    const extras = this.#shard.jobs.pageOf(slot).makeExtras();
    const row = rowOf(slot);
    this.#keys.letGo(slot, nowMs);
    assert(extras.expiryPosition[row] === -1, "a job that dies is in no queue");
    extras.expiresAtMs[row] = 0;
    extras.flags[row] = (extras.flags[row]! & ~ExtraFlag.Reason) | reason;
    if (extras.origin[row] === EMPTY_BODY) this.#attributes.setOrigin(extras, row, tube.nameBytes);
    this.#shard.batches.died(slot);
    tube.counts.dead++;
    this.#shard.jobDeaths++;
  }

  /** Revives a dead job, with all its attempts. */
  forgetDeath(slot: number): void {
    assert(this.isDead(slot), "only a dead job revives");
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#unmark(page, row);
    page.extras!.attemptsBase[row] = page.count(row, JobCounter.reserves);
  }

  /** Revives a dead job in this tube: it may die again, and regains its key if that is free. */
  revive(slot: number, tube: Tube): void {
    assert(this.isDead(slot), "only a dead job revives");
    this.#unmark(this.#shard.jobs.pageOf(slot), rowOf(slot));
    this.#keys.take(slot, tube);
  }

  #unmark(page: JobPage, row: number): void {
    const { extras } = page;
    assert(extras !== undefined, "a dead job has extras");
    this.stayHere(page, row);
    extras.flags[row]! &= ~ExtraFlag.Reason;
    this.#attributes.forgetOrigin(extras, row);
  }

  // --- departure ------------------------------------------------------------------------------

  /** Marks a dead job to leave for its dead-letter tube on another shard. */
  markLeaving(slot: number): void {
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (CHECKED) assert(this.isDead(slot), "only a dead job has to leave");
    page.extras!.flags[row]! |= ExtraFlag.Leaving;
    this.#leaving.push(page.id[row]!);
    this.someLeave = true;
  }

  /** Resumes the departure of a job that returned from another transfer and still has its mark. */
  leaveAfterAll(slot: number): void {
    if (this.isLeaving(slot)) this.markLeaving(slot);
  }

  /** Removes the mark of a job that has to leave, if it has one. */
  stayHere({ id, extras }: JobPage, row: number): void {
    assert(extras !== undefined, "a job that may have to leave has extras");
    if ((extras.flags[row]! & ExtraFlag.Leaving) === 0) return;
    extras.flags[row]! &= ~ExtraFlag.Leaving;
    this.#shard.queues.onSettled(id[row]!);
  }

  isLeaving(slot: number): boolean {
    const { extras } = this.#shard.jobs.pageOf(slot);
    return extras !== undefined && (extras.flags[rowOf(slot)]! & ExtraFlag.Leaving) !== 0;
  }

  /** Returns the jobs marked to leave since the last call; some may have changed since. */
  takeLeaving(): readonly number[] {
    const leaving = this.#leaving;
    assert(this.someLeave === leaving.length > 0, "jobs that have to leave are announced");
    this.#leaving = [];
    this.someLeave = false;
    return leaving;
  }
}

export class JobStore {
  readonly #shard: ShardState;
  readonly #keys: UniqueKeys;
  readonly #attributes: StoredAttributes;
  readonly #groups: GroupMembership;
  readonly #deaths: DeadJobs;
  readonly #failures: Failures;

  constructor(
    shard: ShardState,
    keys: UniqueKeys,
    attributes: StoredAttributes,
    groups: GroupMembership,
    deaths: DeadJobs,
    failures: Failures,
  ) {
    this.#shard = shard;
    this.#keys = keys;
    this.#attributes = attributes;
    this.#groups = groups;
    this.#deaths = deaths;
    this.#failures = failures;
  }

  /**
   * Gives a new job its attributes, or the TTL of its tube. Throws RangeError when memory is
   * exhausted; `remove` then undoes what was done.
   */
  begin(slot: number, tube: Tube, attributes: JobAttributes | undefined, atMs: number): void {
    const ttlMs = tube.policy?.ttlMs ?? 0;
    if (attributes === undefined && ttlMs === 0) return;
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    const extras = page.makeExtras();
    if (CHECKED)
      assert(extras.flags[row] === 0 && extras.keyRow[row] === NO_ROW, "a new job has no extras yet");
    if (attributes !== undefined) {
      this.#attributes.keep(extras, row, attributes);
      this.#enter(slot, attributes, false);
    }
    if (extras.expiresAtMs[row] === 0 && ttlMs > 0) extras.expiresAtMs[row] = atMs + ttlMs;
    if (extras.expiresAtMs[row]! > 0) tube.expiry.makeRoom();
    if (attributes === undefined) return;
    if (hasGroup(attributes)) this.#groups.join(slot, tube);
    // `Policies.judge` has searched for the key and not found it.
    if (attributes.hasKey) this.#keys.begin(slot, attributes);
  }

  /** Sets the weight of the job's group, which must not happen before the put is recorded. */
  weighGroup(slot: number, tube: Tube): void {
    this.#groups.weigh(slot, tube);
  }

  /** Restores the failures and the extras of a job from the log. */
  restore(slot: number, tube: Tube, attributes: JobAttributes): void {
    this.#failures.restore(slot, attributes);
    if (attributes.hasOnlyFailures) return;
    const page = this.#shard.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#attributes.keep(page.makeExtras(), row, attributes);
    this.#enter(slot, attributes, false);
    if (attributes.leaving) this.#deaths.markLeaving(slot);
    this.#groups.join(slot, tube);
    if (!attributes.moved) this.#groups.weigh(slot, tube, page.id[row]!);
    this.#keys.restore(slot, tube, attributes);
  }

  /**
   * Gives a job from another shard its extras; a dead job remains dead if `staysDead`. Throws
   * RangeError when memory is exhausted; `remove` then undoes what was done.
   */
  arrive(slot: number, tube: Tube, attributes: JobAttributes | undefined, staysDead: boolean): void {
    const page = this.#shard.jobs.pageOf(slot);
    const extras = page.makeExtras();
    const row = rowOf(slot);
    if (attributes !== undefined) {
      this.#attributes.keep(extras, row, attributes);
      this.#enter(slot, attributes, true);
      this.#shard.scheduled.noteArrival(attributes.fixed.bytes, attributes.fixed.length);
      this.#failures.restore(slot, attributes);
      this.#attributes.notes.restore(slot, attributes);
    }
    extras.flags[row] = extras.flags[row]! | ExtraFlag.Moved;
    if (extras.expiresAtMs[row]! > 0) tube.expiry.makeRoom();
    this.#groups.join(slot, tube);
    if (!staysDead && this.#deaths.isDead(slot)) this.#deaths.forgetDeath(slot);
    if (!this.#deaths.isDead(slot)) this.#keys.take(slot, tube);
  }

  /** Makes a job a member of its batch, and notes the one that it waits for. */
  #enter(slot: number, attributes: JobAttributes, arrived: boolean): void {
    if (!attributes.hasFlows) return;
    this.#attributes.keepFlows(this.#shard.jobs.pageOf(slot), rowOf(slot), attributes);
    this.#shard.batches.enter(slot, arrived);
  }

  /**
   * Moves a job to another tube. Its key stays behind until its time is over; the job also gets it
   * in the other tube, if it is free there.
   */
  changeTube(slot: number, tube: Tube, name: string, nowMs: number): Tube {
    const { jobs, queues, tubes } = this.#shard;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const target = tubes.open(name);
    assert(page.tube[row] === tube.index, "a job leaves the tube that it is in");
    // A tube may be its own dead-letter tube.
    if (target !== tube) this.#keys.leave(slot, nowMs);
    queues.becomeFree(slot, tube);
    const extras = page.makeExtras();
    const groupBefore = extras.groupRow[row]!;
    assert(extras.expiryPosition[row] === -1, "a job that changes its tube is in no queue");
    extras.groupRow[row] = NO_GROUP;
    page.tube[row] = target.index;
    tube.bytes -= page.bodyBytes[row]!;
    assert(tube.bytes >= 0, "the bytes of a tube's bodies are counted");
    target.bytes += page.bodyBytes[row]!;
    extras.flags[row]! |= ExtraFlag.Moved;
    if ((extras.flags[row]! & ExtraFlag.Reason) === DeathReason.None) this.#keys.take(slot, target);
    this.#groups.join(slot, target);
    // If the tubes are the same, its group must not lose its weight in between.
    if (groupBefore !== NO_GROUP) tube.groups!.leave(groupBefore);
    tube.counts.movedOut++;
    target.counts.movedIn++;
    return target;
  }

  /** Removes a job with its body. */
  end(slot: number, tube: Tube): void {
    this.#shard.bodies.free(this.#shard.jobs.pageOf(slot).body[rowOf(slot)]!);
    this.remove(slot, tube);
  }

  /** Removes a job; the caller owns its body. */
  remove(slot: number, tube: Tube): void {
    const { index, jobs, queues } = this.#shard;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const id = page.id[row]!;
    if (CHECKED)
      assert(index.get(id) === slot && page.tube[row] === tube.index, "a job is found by its id in its tube");
    tube.bytes -= page.bodyBytes[row]!;
    assert(tube.bytes >= 0, "the bytes of a removed body were counted");
    queues.becomeFree(slot, tube);
    if (page.extras !== undefined) this.#forget(slot);
    if (page.failures !== undefined) this.#failures.forget(slot);
    if (page.startedAtMs !== undefined) page.startedAtMs[row] = -1;
    index.delete(id);
    jobs.free(slot);
  }

  /** Releases everything that a job has besides its row and its body. */
  #forget(slot: number): void {
    const page = this.#shard.jobs.pageOf(slot);
    const extras = page.extras!;
    const row = rowOf(slot);
    this.#keys.drop(slot);
    this.#deaths.stayHere(page, row);
    this.#groups.leave(extras, row, slot);
    this.#shard.batches.exit(page, row);
    this.#attributes.free(extras, row);
    extras.clear(row);
  }
}
