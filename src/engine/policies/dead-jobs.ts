// Dead jobs: their mark with reason and origin, their revival, and their departure to a dead-letter
// tube of another shard.
//
// A dead job whose dead-letter tube is on another shard stays buried, with a mark, until it is
// transferred. The log contains the mark: after a restart only marked jobs continue, and not jobs
// that were buried before a dead-letter tube was set.

import { assert, CHECKED } from "../../base/assert.ts";
import { DeathReason } from "../../protocol/job-attribute.ts";
import { JobCounter } from "../../schema/job.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { ExtraFlag } from "../jobs/job-extras.ts";
import { type JobPage, rowOf } from "../jobs/job-table.ts";
import type { ShardState } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import type { StoredAttributes } from "./stored-attributes.ts";
import type { UniqueKeys } from "./unique-keys.ts";

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
