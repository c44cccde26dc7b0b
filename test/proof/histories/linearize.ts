// Search for an order of operations that the model allows: Wing and Gong's, with Lowe's memory of
// what was tried, as Porcupine does it.

import type { Operation } from "./operation.ts";
import { step } from "./tube-model.ts";
import { TubeState } from "./tube-state.ts";

export type Verdict = "accepted" | "refused" | "undecided";

interface Answer {
  readonly verdict: Verdict;
  /** Numbers of operations in the longest order found. */
  readonly order: readonly number[];
}

/**
 * Calls and returns by time, linked so that an operation can be taken out and put back in. Entry 2n
 * is the call of operation n, 2n + 1 its return; `head` comes before all.
 */
class Entries {
  readonly head: number;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;

  constructor(operations: readonly Operation[]) {
    this.head = operations.length * 2;
    this.#next = new Int32Array(this.head + 1).fill(-1);
    this.#previous = new Int32Array(this.head + 1).fill(-1);
    const timeOf = (entry: number): number => {
      const { callUs, returnUs } = operations[entry >> 1]!;
      return (entry & 1) === 0 ? callUs : returnUs;
    };
    // At the same moment calls come first: then the two operations overlap.
    const sorted = Array.from({ length: this.head }, (_, entry) => entry).sort(
      (left, right) => timeOf(left) - timeOf(right) || (left & 1) - (right & 1),
    );
    let last = this.head;
    for (const entry of sorted) {
      this.#next[last] = entry;
      this.#previous[entry] = last;
      last = entry;
    }
  }

  /** -1 after the last. */
  after(entry: number): number {
    return this.#next[entry]!;
  }

  takeOut(operation: number): void {
    for (const entry of [2 * operation, 2 * operation + 1]) {
      const [before, after] = [this.#previous[entry]!, this.#next[entry]!];
      this.#next[before] = after;
      if (after >= 0) this.#previous[after] = before;
    }
  }

  putBack(operation: number): void {
    for (const entry of [2 * operation + 1, 2 * operation]) {
      const [before, after] = [this.#previous[entry]!, this.#next[entry]!];
      this.#next[before] = entry;
      if (after >= 0) this.#previous[after] = entry;
    }
  }
}

/** A set of operations as text. */
class Taken {
  readonly #words: Uint16Array;

  constructor(count: number) {
    this.#words = new Uint16Array((count >> 4) + 1);
  }

  flip(operation: number): void {
    this.#words[operation >> 4]! ^= 1 << (operation & 15);
  }

  get key(): string {
    return String.fromCharCode(...this.#words);
  }
}

/** Answers "undecided" after `stepsMax` steps of the model. */
export function linearize(operations: readonly Operation[], stepsMax: number): Answer {
  const entries = new Entries(operations);
  const taken = new Taken(operations.length);
  const tried = new Set<string>();
  const order: { readonly operation: number; readonly before: TubeState }[] = [];
  let longest: readonly number[] = [];
  let state = TubeState.EMPTY;
  let steps = 0;
  let entry = entries.after(entries.head);
  while (entries.after(entries.head) >= 0) {
    if (++steps > stepsMax) return { verdict: "undecided", order: longest };
    const operation = entry >> 1;
    if ((entry & 1) === 0) {
      const after = step(state, operations[operation]!);
      if (after !== undefined) {
        taken.flip(operation);
        const key = `${taken.key}${after.key}`;
        if (!tried.has(key)) {
          tried.add(key);
          order.push({ operation, before: state });
          state = after;
          entries.takeOut(operation);
          entry = entries.after(entries.head);
          continue;
        }
        taken.flip(operation);
      }
      entry = entries.after(entry);
      continue;
    }
    // This operation has returned, so one of those before it must go first, and none can.
    if (order.length > longest.length) longest = order.map((taking) => taking.operation);
    const last = order.pop();
    if (last === undefined) return { verdict: "refused", order: longest };
    state = last.before;
    taken.flip(last.operation);
    entries.putBack(last.operation);
    entry = entries.after(2 * last.operation);
  }
  return { verdict: "accepted", order: order.map(({ operation }) => operation) };
}
