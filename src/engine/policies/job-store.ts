// Gives jobs their attributes, unique keys and groups, changes their tubes, and removes jobs with
// everything that belongs to them, including row, index entry and body.
//
// None of these jobs is in a queue: the caller puts it into one later, or has taken it out before.

import { assert, CHECKED } from "../../base/assert.ts";
import { DeathReason } from "../../protocol/job-attribute.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import { ExtraFlag } from "../jobs/job-extras.ts";
import { rowOf } from "../jobs/job-table.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { ShardState } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import type { DeadJobs } from "./dead-jobs.ts";
import type { Failures } from "./failures.ts";
import { type GroupMembership, hasGroup } from "./group-membership.ts";
import { NO_ROW } from "./key-table.ts";
import type { StoredAttributes } from "./stored-attributes.ts";
import type { UniqueKeys } from "./unique-keys.ts";

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
      this.#failures.restore(slot, attributes);
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
