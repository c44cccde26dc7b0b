// Result of one turn of one case on one server, and the summary of several turns.
import type { Latency } from "../load/latency.ts";
import { FIGURE_NAMES, type FigureName, type Figures } from "./figures.ts";

export interface Measurement {
  readonly figures: Figures;
  readonly latency?: Latency;
  /** Only in a rate sweep. */
  readonly sweep?: readonly SweepPoint[];
}

export interface SweepPoint {
  readonly rate: number;
  readonly commandsPerSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
}

export interface Spread {
  readonly median: number;
  readonly lowest: number;
  readonly highest: number;
  readonly turns: number;
}

export type Spreads = Partial<Record<FigureName, Spread>>;

export function spreadsOf(measurements: readonly Measurement[]): Spreads {
  const spreads: Spreads = {};
  for (const name of FIGURE_NAMES) {
    const values = measurements.map(({ figures }) => figures[name]).filter((value) => value !== undefined);
    if (values.length > 0) spreads[name] = spreadOf(values);
  }
  return spreads;
}

/** Needs at least one value. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, lowest: sorted[0]!, highest: sorted.at(-1)!, turns: sorted.length };
}
