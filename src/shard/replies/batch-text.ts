// Texts of inspect-batch and list-batches.

import { assert } from "../../base/assert.ts";
import type { BatchRow } from "../../engine/flows/batch-row.ts";
import type { BatchTable } from "../../engine/flows/batch-table.ts";
import { type BatchCounts, BatchState } from "../../protocol/batch-facts.ts";

const STATES = ["forgotten", "open", "committed", "cancelled", "complete", "open"] as const;
const OUTCOMES = ["none", "success", "failure", "cancelled"] as const;

/** Returns the YAML of inspect-batch. `counts` are the sums of a round. */
export function batchText(batch: BatchRow, counts: Readonly<BatchCounts>, nowMs: number): string {
  const { name, number, state, outcome, keepMs, openedAtMs, completeAtMs } = batch;
  const isComplete = state === BatchState.Complete;
  const open = isComplete ? 0 : counts.open;
  const done = isComplete ? batch.allDone : counts.done;
  const failed = isComplete ? batch.allFailed : counts.failed + counts.dead;
  const leftMs = isComplete ? Math.max(0, completeAtMs + keepMs - nowMs) : 0;
  assert(open >= 0 && done >= 0 && failed >= 0, "the members of a batch are counted");
  return `---
name: "${name}"
number: ${number}
state: ${STATES[state]}
outcome: ${OUTCOMES[outcome]}
members: ${open + done + failed}
open: ${open}
done: ${done}
failed: ${failed}
buried: ${isComplete ? 0 : counts.buried}
waiting: ${counts.waitingJobs}
keep: ${keepMs / 1000}
age: ${Math.max(0, Math.floor((nowMs - openedAtMs) / 1000))}
forgets-in: ${Math.ceil(leftMs / 1000)}
`;
}

/**
 * Returns the YAML of list-batches: batches with numbers above `after`, in the order of opening.
 * With `before`, only batches with numbers below it, in reverse order.
 */
export function batchesText(
  batches: BatchTable,
  { after, before, limit }: { after: number; before: number | undefined; limit: number },
): string {
  const lines: string[] = [];
  const following = (last: number): BatchRow | undefined =>
    before === undefined ? batches.from(last + 1) : batches.before(last);
  let last = before ?? after;
  let batch = following(last);
  for (; batch !== undefined && batch.number > after && lines.length < limit; batch = following(last)) {
    const { name, number, state, outcome } = batch;
    lines.push(
      `- {name: "${name}", number: ${number}, state: ${STATES[state]}, outcome: ${OUTCOMES[outcome]}}\n`,
    );
    last = number;
  }
  assert(lines.length <= limit, "a page has no more batches than were asked for");
  const next = batch === undefined || batch.number <= after ? 0 : last;
  return `---\nnext: ${next}\nbatches:${lines.length === 0 ? " []\n" : `\n${lines.join("")}`}`;
}
