// What a simulation of batches knows for certain: the batches, members and callbacks that it has
// put, and how each has to end. The bodies of jobs name them, so a job whose put was never answered
// is recognized when a worker gets it.

import assert from "node:assert/strict";

/**
 * How a member has to end: its work is done, or it dies, expires, is cleared, deleted or cancelled.
 */
export type Fate = "done" | "died" | "expired" | "cleared" | "deleted" | "cancelled";

export interface PlannedJob {
  readonly batch: PlannedBatch;
  readonly name: string;
  /** Undefined for a callback. */
  readonly fate: Fate | undefined;
  /** Of a callback: it runs whatever the outcome. */
  readonly any: boolean;
  /** Known from INSERTED or from a reservation. */
  id: number;
  /** Whether its put was answered. */
  isAnswered: boolean;
  /** Whether it is there: a worker may get a job whose put does not survive the process. */
  isCertain: boolean;
  /** Whether a client has asked for its end. */
  endAsked: boolean;
  /** Whether its death was confirmed. */
  hasDied: boolean;
  /** Whether it was cancelled for certain while a worker held it: it ends with the reservation. */
  isMarked: boolean;
  /** Whether the end was confirmed: it never comes back. */
  isGone: boolean;
  deliveries: number;
}

export interface PlannedBatch {
  readonly name: string;
  readonly jobs: PlannedJob[];
  isOpen: boolean;
  commitAsked: boolean;
  isCommitted: boolean;
  cancelAsked: boolean;
  /** The batch was cancelled for certain, as opposed to complete before. */
  isCancelled: boolean;
}

export class BatchPlan {
  readonly batches: PlannedBatch[] = [];
  readonly #jobs = new Map<string, PlannedJob>();

  open(name: string): PlannedBatch {
    const batch = {
      name,
      jobs: [],
      isOpen: false,
      commitAsked: false,
      isCommitted: false,
      cancelAsked: false,
      isCancelled: false,
    };
    this.batches.push(batch);
    return batch;
  }

  job(batch: PlannedBatch, fate: Fate | undefined, any = false): PlannedJob {
    const name = `${batch.name}.${batch.jobs.length}`;
    const job = {
      batch,
      name,
      fate,
      any,
      id: 0,
      isAnswered: false,
      isCertain: false,
      endAsked: false,
      hasDied: false,
      isMarked: false,
      isGone: false,
      deliveries: 0,
    };
    batch.jobs.push(job);
    this.#jobs.set(name, job);
    return job;
  }

  /** The process has ended. */
  restart(): void {
    for (const job of this.#jobs.values()) {
      job.isGone ||= job.isMarked;
      job.isCertain = job.isAnswered || job.isGone;
    }
  }

  /** Takes note of a job that a worker gets. */
  delivered(id: number, body: string): PlannedJob {
    const job = this.#jobs.get(body);
    assert.ok(job !== undefined, `job ${id} with body ${body} was put`);
    assert.ok(!job.isGone, `${body} does not come back after its end`);
    assert.ok(job.id === 0 || job.id === id, `${body} has one id`);
    job.id = id;
    job.isCertain = true;
    job.deliveries++;
    if (job.fate === undefined) this.#checkCallback(job);
    return job;
  }

  /** A callback comes when each member is over, as far as the clients know. */
  #checkCallback({ batch, name, any }: PlannedJob): void {
    assert.ok(
      batch.commitAsked || batch.cancelAsked,
      `${name} comes after the end of its batch is asked for`,
    );
    const members = batch.jobs.filter(({ fate, isCertain }) => fate !== undefined && isCertain);
    if (!batch.cancelAsked)
      for (const member of members)
        assert.ok(
          member.endAsked || member.fate === "expired",
          `${name} comes when ${member.name} has ended`,
        );
    if (any) return;
    for (const member of members)
      assert.equal(member.fate, "done", `${name} comes though ${member.name} has failed`);
    assert.ok(!batch.isCancelled, `${name} comes though its batch was cancelled`);
  }
}
