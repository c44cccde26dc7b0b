// The batches that a put names: whether its job may join or wait for them.

import { assert } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { BatchOutcome, BatchState } from "../../protocol/batch-facts.ts";
import { Span } from "../../protocol/request.ts";
import type { BatchRow } from "../flows/batch-row.ts";
import type { BatchTable } from "../flows/batch-table.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import { PutVerdict } from "./put-verdict.ts";

export class PutFlows {
  readonly #batches: BatchTable;

  constructor({ batches }: { readonly batches: BatchTable }) {
    this.#batches = batches;
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
