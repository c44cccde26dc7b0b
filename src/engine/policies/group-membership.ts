// The groups of jobs: which group a job names, and how it joins and leaves that group.

import { assert } from "../../base/assert.ts";
import { Attribute, findAttribute } from "../../protocol/job-attribute.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import type { JobExtras } from "../jobs/job-extras.ts";
import { rowOf } from "../jobs/job-table.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { ShardState } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import { NOTHING_SET } from "../tubes/tube-settings.ts";
import { type StoredAttributes, textAttribute } from "./stored-attributes.ts";

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
    const inWorkMax = tube.policy?.groupMaxReserved ?? Number.POSITIVE_INFINITY;
    const groups = tube.makeGroups(inWorkMax, this.#onGroupChanged);
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
    const weightAt = findAttribute(bytes, 0, bytes.length, Attribute.Weight);
    const weight = weightAt < 0 ? 1 : bytes[weightAt]! | (bytes[weightAt + 1]! << 8);
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

/** Returns whether the attributes of a put name a group. */
export function hasGroup({ fixed }: JobAttributes): boolean {
  return findAttribute(fixed.bytes, 0, fixed.length, Attribute.Group) >= 0;
}

/** Returns whether a put sets the weight of its group: a group without a weight has weight 1. */
export function weighs(attributes: JobAttributes): boolean {
  const { fixed } = attributes;
  return hasGroup(attributes) || findAttribute(fixed.bytes, 0, fixed.length, Attribute.Weight) >= 0;
}
