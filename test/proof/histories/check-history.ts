// Verdict on one history: with little slack for late machines first, then with more.

import { linearize, type Verdict } from "./linearize.ts";
import { describe, type History, type Operation } from "./operation.ts";
import { type Slack, withTimers } from "./timers.ts";

export interface Judgement {
  readonly name: string;
  readonly verdict: Verdict;
  /** Number of the slack in SLACKS that was needed, from 0. */
  readonly slack: number;
  /** What could not be put in order, for people. */
  readonly why: string;
}

/** For a machine on time; for one with ten busy threads a core; for one that stood still. */
export const SLACKS: readonly Slack[] = [
  { earlyUs: 5_000, lateUs: 30_000 },
  { earlyUs: 50_000, lateUs: 250_000 },
  { earlyUs: 250_000, lateUs: 1_000_000 },
];
/** Some seconds. */
const STEPS_MAX = 1_000_000;
/** Operations that are shown before and after the place where the order ends. */
const SHOWN = 12;

export function checkHistory(history: History): Judgement {
  const { name } = history;
  for (let slack = 0; ; slack++) {
    const operations = withTimers(history.operations, SLACKS[slack]!);
    const { verdict, order } = linearize(operations, STEPS_MAX);
    if (verdict === "accepted" || slack === SLACKS.length - 1)
      return { name, verdict, slack, why: verdict === "accepted" ? "" : explain(operations, order) };
  }
}

function explain(operations: readonly Operation[], order: readonly number[]): string {
  const done = new Set(order);
  const left = operations
    .filter((_, index) => !done.has(index))
    .sort((one, other) => one.returnUs - other.returnUs);
  const last = order.slice(-SHOWN).map((index) => operations[index]!);
  return [
    `${order.length} of ${operations.length} operations can be put in an order, the last of them:`,
    ...last.map(describe),
    "but none of those that come next:",
    ...left.slice(0, SHOWN).map(describe),
  ].join("\n");
}
