// Lines of a dump for batches, and their checks.

import type { LoggedBatch, Tally } from "../../message/flow-record.ts";
import { type BatchFacts, BatchState } from "../../protocol/batch-facts.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { isTubeName } from "../../protocol/tube-name.ts";
import { FOREIGN_ID_LIMIT } from "../format/segment-format.ts";

/** A batch as a line: with the tallies of shards, until it is complete. */
interface DumpedBatch {
  readonly batch: BatchFacts;
  readonly tallies: readonly Tally[];
}

export const batchLine = ({ facts, tallies }: LoggedBatch): DumpedBatch => ({ batch: facts, tallies });

/** The maximum of each number. */
const FACTS: Readonly<Record<Exclude<keyof BatchFacts, "name">, number>> = {
  number: FOREIGN_ID_LIMIT - 1,
  state: BatchState.Complete,
  outcome: 3,
  keepMs: Number.MAX_VALUE,
  openedAtMs: Number.MAX_VALUE,
  completeAtMs: Number.MAX_VALUE,
  allDone: U32_MAX,
  allFailed: U32_MAX,
};
const TALLY: Readonly<Record<keyof Tally, number>> = {
  number: FACTS.number,
  shard: 2 ** 16 - 1,
  done: U32_MAX,
  failed: U32_MAX,
};

/** Checks the batches of one dump, which must differ. */
export class BatchLines {
  readonly #numbers = new Set<number>();
  readonly #names = new Set<string>();

  /** Returns a batch, or a message about its fault. Its number is below the next id. */
  read({ batch, tallies }: Readonly<Record<string, unknown>>, nextId: number): LoggedBatch | string {
    const wrong = wrongIn(batch, FACTS);
    if (wrong !== undefined) return `the batch's ${wrong}`;
    const facts = batch as BatchFacts;
    const name = Buffer.from(`${facts.name}`);
    if (!isTubeName(name, 0, name.length)) return "the name of the batch is invalid";
    if (facts.number === 0 || facts.number >= nextId) return "the number of the batch was never assigned";
    if (facts.state === BatchState.Forgotten) return "the batch is already forgotten";
    if (this.#numbers.has(facts.number) || this.#names.has(facts.name))
      return `the batch ${facts.name} appears twice`;
    this.#numbers.add(facts.number);
    this.#names.add(facts.name);
    if (!Array.isArray(tallies)) return "the tallies of the batch are missing";
    for (const tally of tallies) {
      const fault = wrongIn(tally, TALLY);
      if (fault !== undefined) return `a tally's ${fault}`;
      if ((tally as Tally).number !== facts.number) return "a tally belongs to another batch";
    }
    return { facts, tallies };
  }
}

/** Returns a message about a wrong number in an object. Times may have fractions. */
export function wrongIn(value: unknown, most: Readonly<Record<string, number>>): string | undefined {
  const numbers = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const isGood = (key: string): boolean => {
    const number = numbers[key];
    if (typeof number !== "number" || !(number >= 0 && number <= most[key]!)) return false;
    return most[key] === Number.MAX_VALUE || Number.isInteger(number);
  };
  const bad = Object.keys(most).find((key) => !isGood(key));
  return bad === undefined ? undefined : `${bad} is not a valid number`;
}
