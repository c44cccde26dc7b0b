// Verdict on one history: with little slack for late machines first, then with more.

import { linearize, type Verdict } from "./linearize.ts";
import { describe, type History, NEVER_US, type Operation } from "./operation.ts";
import { type Slack, withTimers } from "./timers.ts";
import { withOutcomes } from "./unknown-outcomes.ts";

export interface Judgement {
  readonly name: string;
  readonly verdict: Verdict;
  /** Number of the slack in SLACKS that was needed, from 0. */
  readonly slack: number;
  /** A client saw a change that was not acknowledged and that the next lead did not have. */
  readonly sawUndone: boolean;
  /** What could not be put in order, for people. */
  readonly why: string;
}

/** For a machine on time; for one with ten busy threads a core; for one that stood still. */
const SLACKS: readonly Slack[] = [
  { earlyUs: 5_000, lateUs: 30_000 },
  { earlyUs: 50_000, lateUs: 250_000 },
  { earlyUs: 250_000, lateUs: 1_000_000 },
];
/** Some seconds. */
const STEPS_MAX = 1_000_000;
/** Operations that are shown before and after the place where the order ends. */
const SHOWN = 12;

export function checkHistory(history: History): Judgement {
  const { name, operations: recorded } = history;
  const mayUndo = recorded.some(({ result, returnUs }) => result === "unknown" && returnUs < NEVER_US);
  const tries = SLACKS.flatMap((_, slack) =>
    (mayUndo ? [false, true] : [false]).map((sawUndone) => ({ slack, sawUndone })),
  );
  for (const { slack, sawUndone } of tries) {
    const operations = operationsOf(history, slack, sawUndone);
    const { verdict, order } = linearize(operations, STEPS_MAX);
    if (verdict === "accepted") return { name, verdict, slack, sawUndone, why: "" };
    if (slack === tries.at(-1)!.slack && sawUndone === mayUndo)
      return { name, verdict, slack, sawUndone, why: explain(operations, order) };
  }
  throw new Error("unreachable: the last try gives a verdict");
}

/** What the search puts in order, with the slack of this number. */
export function operationsOf(
  { operations }: History,
  slack: number,
  sawUndone: boolean,
): readonly Operation[] {
  return withTimers(withOutcomes(operations, sawUndone), SLACKS[slack]!);
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
