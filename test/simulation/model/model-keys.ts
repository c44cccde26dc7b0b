// Unique keys of the model.

import assert from "node:assert/strict";
import type { KeptKey } from "./kept-policy.ts";
import type { ModelKey } from "./model-policies.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob } from "./model-types.ts";

type Model = ModelState;

export class ModelKeys {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** Returns the entry of the key that a job was put with, while the job is in its tube. */
  keyOf({ id, tube }: ModelJob): ModelKey | undefined {
    return this.#model.keys.find((key) => key.id === id && key.tube === tube.name && !key.hasLeft);
  }

  keptKey({ id, record, tube, key, untilMs }: ModelKey): KeptKey {
    const names = record > 0 ? { id: record, job: id } : { id, job: 0 };
    return { ...names, tube, state: "remembered", key, untilMs: untilMs + this.#model.logOffsetMs };
  }

  /** Ends the hold on a key, which is remembered until its time is over. */
  endKey(job: ModelJob, nowMs: number): void {
    const key = this.keyOf(job);
    if (key === undefined) return;
    key.isHeld = false;
    if (key.untilMs <= nowMs) this.#forget(key);
  }

  #forget(key: ModelKey): void {
    if (key.record > 0) this.#model.changes.push({ id: key.record, job: undefined });
    this.#model.keys = this.#model.keys.filter((each) => each !== key);
  }

  /** A job leaves its tube within its shard: the key stays there until its time is over. */
  leaveKey(job: ModelJob, nowMs: number): void {
    this.departKey(job, nowMs);
    this.departedKey(job, nowMs);
  }

  /** A job is on its way to another shard: the key that it leaves behind is logged before. */
  departKey(job: ModelJob, nowMs: number): void {
    const key = this.keyOf(job);
    if (key === undefined || key.untilMs <= nowMs || key.record > 0 || !this.#model.hasLog) return;
    const at = this.#model.left.findIndex(({ id }) => id === job.id);
    assert.ok(at >= 0, `the key that job ${job.id} leaves behind is logged`);
    key.record = this.#model.left[at]!.record;
    this.#model.left = this.#model.left.toSpliced(at, 1);
    // It is not kept if the log is full.
    if (key.record > 0) this.#model.changes.push({ id: key.record, job: this.keptKey(key) });
  }

  departedKey(job: ModelJob, nowMs: number): void {
    const key = this.keyOf(job);
    if (key === undefined) return;
    key.isHeld = false;
    key.hasLeft = true;
    if (key.untilMs <= nowMs || (this.#model.hasLog && key.record === 0)) this.#forget(key);
  }

  /** Gives a job the key that it was put with, if no other job has it. */
  takeKey({ id, tube, policy, reserves }: ModelJob): void {
    const { key, untilReserve } = policy;
    if (key === "" || (untilReserve && reserves > 0)) return;
    const known = this.#model.keys.find((each) => each.tube === tube.name && each.key === key);
    if (known === undefined) {
      const fresh = { tube: tube.name, key, id, isHeld: true, untilMs: 0, hasLeft: false, record: 0 };
      this.#model.keys.push(fresh);
    } else if (known.id === id && !known.isHeld) Object.assign(known, { isHeld: true, hasLeft: false });
  }

  /** A job's record states another time of its key: the key's own goes once that is logged. */
  dropRecord(key: ModelKey): void {
    if (key.record > 0) this.#model.orphans.push({ ...key });
    key.record = 0;
  }
}
