// History of tubes over the last 50 minutes, in steps of 10 s. It covers as many tubes as have
// series in metrics: the busiest first, then the oldest. A busy tube takes the place of one at
// which nothing has happened for as long as it is recorded.

import { TubeField } from "../../message/control.ts";
import type { TubeEntry } from "./tube-cache.ts";

/** Series of a tube, in storage order. Counters are sums since the tube was created. */
export const TUBE_SERIES = {
  ready: TubeField.Ready,
  reserved: TubeField.Reserved,
  delayed: TubeField.Delayed,
  buried: TubeField.Buried,
  puts: TubeField.Puts,
  reserves: TubeField.Reserves,
  deletes: TubeField.Deletes,
  timeouts: TubeField.Timeouts,
} as const;
export type TubeSeriesName = keyof typeof TUBE_SERIES;
export const TUBE_SERIES_NAMES = Object.keys(TUBE_SERIES) as TubeSeriesName[];

export const STEP_SECONDS = 10;
const POINTS = 300;

interface Kept {
  readonly sequence: number;
  /** Ring of points, each with all series. */
  readonly values: Float32Array;
  /** Points for which it keeps its place without activity. */
  readonly quietMin: number;
  /** Numbers of the first point and of the one after the last. */
  from: number;
  to: number;
}

/** Jobs that pass through a tube in a second: in, to workers and out. */
const activity = (entry: TubeEntry): number =>
  entry.rate(TubeField.Puts) + entry.rate(TubeField.Reserves) + entry.rate(TubeField.Deletes);

/** Order in which tubes get a place: the busiest first, then the oldest. */
const rank = (entry: TubeEntry): number => activity(entry) || -entry.get(TubeField.Sequence);

/**
 * Points for which a tube keeps its place without activity. One that was busy at first may only
 * pause: with more tubes than places, of which each is used every few minutes, all would take
 * places from each other, and none would have a history.
 */
const QUIET_POINTS_MIN = 6;
const PAUSE_POINTS_MIN = 60;
const ACTIVE_SERIES = (["puts", "reserves", "deletes"] as const).map((name) =>
  TUBE_SERIES_NAMES.indexOf(name),
);

function isQuiet({ values, quietMin, from, to }: Kept): boolean {
  if (to - from < quietMin) return false;
  const value = (point: number, series: number): number =>
    values[(point % POINTS) * TUBE_SERIES_NAMES.length + series]!;
  return ACTIVE_SERIES.every((series) => value(to - 1, series) === value(from, series));
}

export class TubeHistory {
  readonly #tubesMax: number;
  readonly #kept = new Map<string, Kept>();
  /** Ring of the points' times, wall-clock ms. */
  readonly #atMs = new Float64Array(POINTS);
  #points = 0;

  constructor(tubesMax: number) {
    this.#tubesMax = tubesMax;
  }

  /** Records a point for each tube. */
  note(tubes: ReadonlyMap<string, TubeEntry>, wallMs: number): void {
    for (const [name, { sequence }] of this.#kept)
      if (tubes.get(name)?.get(TubeField.Sequence) !== sequence) this.#kept.delete(name);
    const point = this.#points++;
    this.#atMs[point % POINTS] = wallMs;
    const others = [...tubes.values()].filter(({ name }) => !this.#kept.has(name));
    if (this.#room < others.length)
      this.#makeRoom(others.filter((entry) => activity(entry) > 0).length - this.#room);
    if (this.#room > 0) this.#begin(others, this.#room, point);
    for (const [name, kept] of this.#kept) {
      const entry = tubes.get(name)!;
      const at = (point % POINTS) * TUBE_SERIES_NAMES.length;
      for (const [index, series] of TUBE_SERIES_NAMES.entries())
        kept.values[at + index] = entry.get(TUBE_SERIES[series]);
      kept.to = point + 1;
      kept.from = Math.max(kept.from, kept.to - POINTS);
    }
  }

  /** Forgets up to `count` quiet tubes. */
  #makeRoom(count: number): void {
    let left = count;
    for (const [name, kept] of this.#kept) {
      if (left <= 0) return;
      if (!isQuiet(kept)) continue;
      this.#kept.delete(name);
      left--;
    }
  }

  get #room(): number {
    return this.#tubesMax - this.#kept.size;
  }

  #begin(tubes: readonly TubeEntry[], room: number, point: number): void {
    // A sort of the entries themselves would take seconds with very many tubes.
    const least = Float64Array.from(tubes, rank).sort().at(-room) ?? Number.NEGATIVE_INFINITY;
    const above = tubes.filter((entry) => rank(entry) > least);
    const equal = tubes.filter((entry) => rank(entry) === least);
    for (const entry of [...above, ...equal].slice(0, room)) {
      const values = new Float32Array(POINTS * TUBE_SERIES_NAMES.length);
      const sequence = entry.get(TubeField.Sequence);
      const quietMin = activity(entry) > 0 ? PAUSE_POINTS_MIN : QUIET_POINTS_MIN;
      this.#kept.set(entry.name, { sequence, values, quietMin, from: point, to: point });
    }
  }

  /**
   * Returns the recorded tube whose counter has grown most since a moment; undefined if none has
   * grown.
   */
  mostGrown(series: TubeSeriesName, sinceMs: number): string | undefined {
    let most = 0;
    let name: string | undefined;
    for (const tube of this.#kept.keys()) {
      const grown = this.grown(tube, series, sinceMs);
      if (grown > most) [most, name] = [grown, tube];
    }
    return name;
  }

  /** Returns how much a tube's counter has grown since a moment; 0 if the tube is not recorded. */
  grown(tube: string, series: TubeSeriesName, sinceMs: number): number {
    const kept = this.#kept.get(tube);
    if (kept === undefined || kept.to === kept.from) return 0;
    const { values, from, to } = kept;
    let first = from;
    while (first < to - 1 && this.#atMs[first % POINTS]! < sinceMs) first++;
    const index = TUBE_SERIES_NAMES.indexOf(series);
    const value = (point: number): number => values[(point % POINTS) * TUBE_SERIES_NAMES.length + index]!;
    return value(to - 1) - value(first);
  }

  /**
   * Returns some series since a moment as `[wall-clock seconds, value]`, oldest first; undefined if
   * the tube is not recorded.
   */
  of(
    tube: string,
    series: readonly TubeSeriesName[],
    sinceMs: number,
  ): Record<string, [number, number][]> | undefined {
    const kept = this.#kept.get(tube);
    if (kept === undefined) return undefined;
    const points = Array.from(
      { length: kept.to - kept.from },
      (_, index) => (kept.from + index) % POINTS,
    ).filter((point) => this.#atMs[point]! >= sinceMs);
    const listed = series.map((name) => {
      const index = TUBE_SERIES_NAMES.indexOf(name);
      const value = (point: number): number => kept.values[point * TUBE_SERIES_NAMES.length + index]!;
      return [
        name,
        points.map((point): [number, number] => [Math.round(this.#atMs[point]!) / 1000, value(point)]),
      ];
    });
    return Object.fromEntries(listed);
  }
}
