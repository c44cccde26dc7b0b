// Saves the histories of the totals and of the busiest tubes, and restores them after a restart.

import { deserialize, serialize } from "node:v8";
import { HistoryFile } from "./history-file.ts";
import type { SavedTotals, StatsHistory } from "./stats-history.ts";
import type { SavedTubes, TubeHistory } from "./tube-history.ts";

/** Interval of saves, ms: a crash loses at most this much. */
export const SAVE_EACH_MS = 60_000;
/** Version of the saved data; others are ignored. */
const VERSION = 2;

interface Saved {
  readonly version: number;
  readonly totals: SavedTotals;
  readonly tubes: SavedTubes;
}

export class SavedHistories {
  readonly #file: HistoryFile;
  readonly #totals: StatsHistory;
  readonly #tubes: TubeHistory;
  readonly #wallMs: () => number;
  /**
   * A server that never served has nothing to save, and would overwrite data that it never read.
   */
  #isRestored = false;

  constructor(folder: string, totals: StatsHistory, tubes: TubeHistory, wallMs: () => number) {
    this.#file = new HistoryFile(folder);
    this.#totals = totals;
    this.#tubes = tubes;
    this.#wallMs = wallMs;
  }

  /** Reads the last saved data, before anything is recorded. */
  restore(): void {
    this.#isRestored = true;
    const bytes = this.#file.read();
    if (bytes === undefined) return;
    const saved: unknown = deserialize(bytes);
    if (!isSaved(saved)) return;
    this.#totals.restore(saved.totals);
    this.#tubes.restore(saved.tubes, this.#wallMs());
  }

  async save(): Promise<void> {
    if (!this.#isRestored) return;
    const pack = (): Uint8Array =>
      serialize({
        version: VERSION,
        totals: this.#totals.saved,
        tubes: this.#tubes.saved,
      } satisfies Saved);
    await this.#file.save(pack, this.#wallMs());
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

const areNumbers = (value: unknown): boolean =>
  Array.isArray(value) && value.every((each) => typeof each === "number");

const areRows = (value: unknown): boolean => value instanceof Float64Array;

const isTube = (value: unknown): boolean =>
  isObject(value) &&
  typeof value["name"] === "string" &&
  Number.isInteger(value["from"]) &&
  value["values"] instanceof Float32Array;

function isSaved(value: unknown): value is Saved {
  if (!isObject(value) || value["version"] !== VERSION) return false;
  const { totals, tubes } = value;
  if (!isObject(totals) || !areRows(totals["bySecond"]) || !areRows(totals["byMinute"])) return false;
  if (!isObject(tubes) || !areNumbers(tubes["atMs"])) return false;
  return Array.isArray(tubes["tubes"]) && tubes["tubes"].every(isTube);
}
