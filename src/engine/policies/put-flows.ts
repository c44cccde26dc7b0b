// The batches that a put names: whether its job may join or wait for them.

import { assert } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { BatchOutcome, BatchState } from "../../protocol/batch-facts.ts";
import { Span } from "../../protocol/request.ts";
import type { BatchRow } from "../flows/batch-row.ts";
import type { BatchTable } from "../flows/batch-table.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import { FlowFlag } from "../jobs/job-flows.ts";
import { type JobTable, rowOf } from "../jobs/job-table.ts";
import { PutVerdict } from "./put-verdict.ts";

export class PutFlows {
  readonly #batches: BatchTable;
  readonly #jobs: JobTable;

  constructor({ batches, jobs }: { readonly batches: BatchTable; readonly jobs: JobTable }) {
    this.#batches = batches;
    this.#jobs = jobs;
  }

  /** Returns a batch that all shards know. */
  #named(name: string): BatchRow | undefined {
    const batch = this.#batches.named(name);
    assert(batch === undefined || batch.number > 0, "a batch that is named has a number");
    return batch?.state === BatchState.Opening ? undefined : batch;
  }

  /** Looks up the batches that a put names. A complete one has its effect at once. */
  judge(attributes: JobAttributes): PutVerdict {
    const { batchName, afterName } = attributes;
    if (afterName !== "") {
      const awaited = this.#named(afterName);
      if (awaited === undefined) return PutVerdict.NoBatch;
      if (awaited.state !== BatchState.Complete) attributes.after = awaited.number;
      else if (isLostAfter(awaited, attributes.afterAny)) attributes.lost = reasonOf(awaited);
    }
    if (batchName === "") return PutVerdict.Welcome;
    const batch = this.#named(batchName);
    if (batch === undefined) return PutVerdict.NoBatch;
    if (batch.state !== BatchState.Open) return PutVerdict.BatchCommitted;
    // The order of opening keeps batches from waiting for each other.
    if (attributes.after !== 0 && attributes.after >= batch.number) return PutVerdict.BatchOrder;
    attributes.batch = batch.number;
    return PutVerdict.Welcome;
  }

  /**
   * Judges a put whose key a job has, after `judge`, by the batches of that job. `mayJoin` says
   * whether the job may take those of the put. Otherwise, it must have them already: a put that
   * succeeds never drops a batch.
   */
  judgeAgain(slot: number, attributes: JobAttributes, mayJoin: boolean): PutVerdict {
    if (!attributes.namesBatch) return PutVerdict.Welcome;
    const batch = this.#batches.of(this.#jobs.pageOf(slot).extras?.flows?.batch[rowOf(slot)] ?? 0);
    const awaited = this.#batches.awaitedBy(slot);
    if (!this.#mayBeMember(slot, batch, attributes, mayJoin)) return PutVerdict.Duplicate;
    if (!this.#mayWait(slot, awaited, attributes, mayJoin)) return PutVerdict.Duplicate;
    const after = awaited?.number ?? attributes.after;
    const member = batch?.number ?? attributes.batch;
    return after !== 0 && member !== 0 && after >= member ? PutVerdict.BatchOrder : PutVerdict.Welcome;
  }

  #mayBeMember(
    slot: number,
    batch: BatchRow | undefined,
    attributes: JobAttributes,
    mayJoin: boolean,
  ): boolean {
    if (attributes.batch === 0) return true;
    if (batch === undefined) return mayJoin;
    return batch.number === attributes.batch && !this.#has(slot, FlowFlag.Ended);
  }

  #mayWait(
    slot: number,
    awaited: BatchRow | undefined,
    { after, afterName, afterAny, lost }: JobAttributes,
    mayJoin: boolean,
  ): boolean {
    if (awaited === undefined || afterName === "") return mayJoin || (after === 0 && lost === undefined);
    if (awaited.name !== afterName) return false;
    return mayJoin || afterAny === this.#has(slot, FlowFlag.Any);
  }

  #has(slot: number, flag: number): boolean {
    return ((this.#jobs.pageOf(slot).extras?.flows?.flags[rowOf(slot)] ?? 0) & flag) !== 0;
  }
}

/** Returns whether a job that waited for a complete batch must not run. */
export function isLostAfter({ outcome }: BatchRow, any: boolean): boolean {
  return !any && outcome !== BatchOutcome.Success;
}

/** Returns why a job that waited for success is buried. */
export function reasonOf({ name, outcome, allDone, allFailed }: BatchRow): Uint8Array {
  assert(outcome !== BatchOutcome.Success, "no job is buried for a batch that succeeded");
  if (outcome === BatchOutcome.Cancelled) return asciiBytes(`batch ${name}: cancelled`);
  const members = allDone + allFailed;
  return asciiBytes(`batch ${name}: ${allFailed} of ${members} members failed`);
}

/** Returns bytes as a span. */
export function spanOf(bytes: Uint8Array): Span {
  const span = new Span();
  span.set(bytes, 0, bytes.length);
  return span;
}
