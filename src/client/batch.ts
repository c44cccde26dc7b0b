// A batch of jobs, and jobs that wait for it.

import { duration, listOf, notSo, parseReport, tubeName, unquoted } from "./command-text.ts";
import type { Link } from "./link.ts";
import type { Put, PutOptions } from "./put.ts";
import type { Wire } from "./wire.ts";

export type BatchState = "open" | "committed" | "cancelled" | "complete";
/** `"none"` until the batch is complete. */
export type BatchOutcome = "none" | "success" | "failure" | "cancelled";

export interface ListedBatch {
  readonly name: string;
  /** Unique forever, unlike the name. */
  readonly number: number;
  readonly state: BatchState;
  readonly outcome: BatchOutcome;
}

/** Times in seconds. */
export interface BatchReport extends ListedBatch {
  /** `open`, `done` and `failed` together. */
  readonly members: number;
  /** Members that have not ended. */
  readonly open: number;
  /** Members that their workers have deleted. */
  readonly done: number;
  /** Members that ended in any other way. */
  readonly failed: number;
  /** Open members that are buried. */
  readonly buried: number;
  /** Jobs that wait for the batch. */
  readonly waiting: number;
  readonly keep: number;
  readonly age: number;
  /** Time until a complete batch is forgotten. */
  readonly forgetsIn: number;
}

const PAGE = 1000;

/** Returns the line of open-batch. Throws for a value that the server would misread. */
export const openBatchLine = (name: string, keep: number | undefined): string =>
  `open-batch ${tubeName(name)}${keep === undefined ? "" : ` keep=${duration(keep, "keep")}`}`;

/**
 * Returns the page of list-batches after a batch, and the number after which the next one begins; 0
 * at the end.
 */
export function batchList(
  body: Uint8Array | undefined,
  after: number,
): { next: number; items: ListedBatch[] } {
  const { next, items } = listOf(body, after);
  return { next, items: items.map(listedBatch) };
}

function listedBatch(line: string): ListedBatch {
  const [whole, name = "", number, state, outcome] =
    /^\{name: (.*), number: (\d+), state: (\w+), outcome: (\w+)\}$/.exec(line) ?? [];
  if (whole === undefined) throw notSo(line, "a batch as list-batches shows it");
  return {
    name: unquoted(name),
    number: Number(number),
    state: state as BatchState,
    outcome: outcome as BatchOutcome,
  };
}

/**
 * Extension `open-batch`. Methods other than `open` throw NotFound for a batch that doesn't exist.
 */
export class Batch<In> {
  readonly name: string;
  readonly #link: Link;
  readonly #put: (tube: string, body: In, options: PutOptions) => Promise<Put>;

  constructor(name: string, link: Link, put: (tube: string, body: In, options: PutOptions) => Promise<Put>) {
    this.name = tubeName(name);
    this.#link = link;
    this.#put = put;
  }

  /**
   * Opens the batch. The server forgets it `keep` seconds after it is complete, a day by default.
   * Throws BatchConflict if a batch of this name exists.
   */
  async open({ keep }: { readonly keep?: number } = {}): Promise<void> {
    await this.#link.askExtended(openBatchLine(this.name, keep), "OPENED");
  }

  /** Puts a job that belongs to the batch. */
  async put(tube: string, body: In, options: PutOptions = {}): Promise<Put> {
    return await this.#put(tube, body, { ...options, batch: this.name });
  }

  /** Closes the batch to new members. It is complete once all its members have ended. */
  async commit(): Promise<void> {
    await this.#link.askExtended(`commit-batch ${this.name}`, "COMMITTED");
  }

  /** Removes the members that no worker holds. Held members may finish. */
  async cancel(): Promise<void> {
    await this.#link.askExtended(`cancel-batch ${this.name}`, "CANCELLED");
  }

  async inspect(): Promise<BatchReport> {
    return parseReport((await this.#link.askExtended(`inspect-batch ${this.name}`, "OK", true)).body);
  }
}

/** Yields all batches in the order in which they were opened, page by page. */
export async function* listBatches(link: Link): AsyncGenerator<ListedBatch, void, undefined> {
  let after = 0;
  let giver: Wire | undefined;
  do {
    const { body, wire } = await link.page(`list-batches after=${after} limit=${PAGE}`, after, giver);
    const { next, items } = batchList(body, after);
    yield* items;
    giver = wire;
    after = next;
  } while (after > 0);
}
