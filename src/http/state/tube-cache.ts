// Cache of all tubes: a table built from the shards' rows, refreshed on demand when it is too old.
//
// Each refresh transfers all rows: 10,000 take 5 ms of the shards' time in slices of 0.1 ms, less
// than what change tracking would cost commands. With very many tubes, refreshes become rarer,
// which limits their cost to 5 % of the shards' time.

import { latin1 } from "../../base/bytes.ts";
import { TUBE_ROWS_AT } from "../../message/control.ts";
import { TUBE_FIELDS, TubeField } from "../../schema/tube.ts";
import type { ControlClient } from "../link/control-client.ts";

/** Maximum age of the table when it is requested, ms. */
const AGE_MS_MAX = 1000;
/**
 * Minimum refresh interval per tube, ms: 20 times what a row costs its shard, about half a
 * microsecond.
 */
const REST_MS_PER_TUBE = 0.01;
/** Rates cover a period between this and twice this, ms. */
const RATE_MS = 5000;

interface Mark {
  readonly atMs: number;
  readonly row: Float64Array;
}

/** A tube as it was when the table was built. */
export class TubeEntry {
  readonly name: string;
  readonly shard: number;
  row: Float64Array;
  atMs: number;
  /** Reference rows for rates: the older one is in use, the newer one replaces it later. */
  #older: Mark;
  #newer: Mark;

  constructor(name: string, shard: number, row: Float64Array, atMs: number) {
    this.name = name;
    this.shard = shard;
    this.row = row;
    this.atMs = atMs;
    this.#older = { atMs, row };
    this.#newer = this.#older;
  }

  get(field: number): number {
    return this.row[field]!;
  }

  /** Takes a newer row of the same tube. */
  renew(row: Float64Array, atMs: number): void {
    if (atMs - this.#newer.atMs >= RATE_MS) {
      this.#older = this.#newer;
      this.#newer = { atMs, row };
    }
    this.row = row;
    this.atMs = atMs;
  }

  /** Returns the recent rate per second. */
  rate(field: number): number {
    const seconds = (this.atMs - this.#older.atMs) / 1000;
    return seconds <= 0 ? 0 : (this.row[field]! - this.#older.row[field]!) / seconds;
  }
}

export class TubeCache {
  /** Entries by name. */
  #tubes = new Map<string, TubeEntry>();
  /** Time when the table was built, and the duration of that, monotonic ms. */
  atMs: number = Number.NEGATIVE_INFINITY;
  tookMs = 0;
  readonly #control: ControlClient;
  readonly #nowMs: () => number;
  #making: Promise<void> | undefined;

  constructor(control: ControlClient, nowMs: () => number) {
    this.#control = control;
    this.#nowMs = nowMs;
  }

  /** Returns the table without a refresh. */
  get tubes(): ReadonlyMap<string, TubeEntry> {
    return this.#tubes;
  }

  /** Returns the table, at most `ageMsMax` old (1 s by default), or older with very many tubes. */
  async fresh(ageMsMax: number = AGE_MS_MAX): Promise<ReadonlyMap<string, TubeEntry>> {
    const oldest = Math.max(ageMsMax, this.#tubes.size * REST_MS_PER_TUBE);
    if (this.#making !== undefined || this.#nowMs() - this.atMs > oldest) {
      this.#making ??= this.#make().finally(() => {
        this.#making = undefined;
      });
      await this.#making;
    }
    return this.#tubes;
  }

  /** Returns the current state of one tube; undefined if it doesn't exist. */
  async tube(name: string, shard: number): Promise<TubeEntry | undefined> {
    let found: TubeEntry | undefined;
    const atMs = this.#nowMs();
    await this.#control.askParts(shard, "tubes", { name }, (part) => {
      for (const [each, row] of rowsOf(part)) found = this.#entry(each, shard, row, atMs);
    });
    return found;
  }

  async #make(): Promise<void> {
    const beganMs = this.#nowMs();
    const tubes = new Map<string, TubeEntry>();
    const shards = Array.from({ length: this.#control.shards }, (_, shard) => shard);
    await Promise.all(
      shards.map((shard) =>
        this.#control.askParts(shard, "tubes", {}, (part) => {
          for (const [name, row] of rowsOf(part)) tubes.set(name, this.#entry(name, shard, row, beganMs));
        }),
      ),
    );
    this.#tubes = tubes;
    this.atMs = this.#nowMs();
    this.tookMs = this.atMs - beganMs;
  }

  /**
   * Returns the tube's entry with a newer row: the existing entry, unless the row is of a later
   * tube with the same name.
   */
  #entry(name: string, shard: number, row: Float64Array, atMs: number): TubeEntry {
    const known = this.#tubes.get(name);
    if (known === undefined || known.get(TubeField.sequence) !== row[TubeField.sequence])
      return new TubeEntry(name, shard, row, atMs);
    known.renew(row, atMs);
    return known;
  }
}

/** Yields the rows of a part of a tube list with their names. The rows are views of a copy. */
function* rowsOf(part: Uint8Array): Iterable<[name: string, row: Float64Array]> {
  const { buffer } = new Uint8Array(part);
  const count = new Uint32Array(buffer, 0, 1)[0]!;
  const bytes = new Uint8Array(buffer);
  let nameAt = TUBE_ROWS_AT + count * TUBE_FIELDS * 8;
  for (let index = 0; index < count; index++) {
    const length = bytes[nameAt]!;
    const name = latin1(bytes, nameAt + 1, nameAt + 1 + length);
    nameAt += 1 + length;
    yield [name, new Float64Array(buffer, TUBE_ROWS_AT + index * TUBE_FIELDS * 8, TUBE_FIELDS)];
  }
}
