// History of tubes over the last 50 minutes, in steps of 10 s. It covers as many tubes as have
// series in metrics: the busiest first, then the oldest. A busy tube replaces one that has been
// idle for its whole recording.

import { JOB_STATES, TUBE_HISTORY, TubeField } from "../../schema/tube.ts";
import type { TubeEntry } from "./tube-cache.ts";

/** Series of a tube, in storage order. Counters are sums since the tube was created. */
export const TUBE_SERIES = [...JOB_STATES, ...TUBE_HISTORY] as const;
export type TubeSeriesName = (typeof TUBE_SERIES)[number];

export const STEP_SECONDS = 10;
const POINTS = 300;

interface Kept {
  /** NaN for a tube of an earlier run until it exists again. */
  sequence: number;
  /** Ring of points, each with all series. */
  readonly values: Float32Array;
  /** Points for which it keeps its place without activity. */
  readonly quietMin: number;
  /** Numbers of the first point and of the one after the last. */
  from: number;
  to: number;
  /** Final counters of earlier runs; undefined for none. */
  base?: readonly number[];
}

/** Points for which a tube of an earlier run may be missing, until its clients reconnect. */
const RETURN_POINTS_MAX = 30;
/** Tubes whose history is saved. */
const SAVED_TUBES_MAX = 500;

/** The history of some tubes, oldest point first. */
export interface SavedTubes {
  /** Wall clock, ms. */
  readonly atMs: readonly number[];
  /** `from` is the index of the first point in `atMs`; each point has a value for each series. */
  readonly tubes: readonly { readonly name: string; readonly from: number; readonly values: Float32Array }[];
}

/** Activity of a tube: jobs per second that enter it, go to workers, and leave. */
const activity = (entry: TubeEntry): number =>
  entry.rate(TubeField.puts) + entry.rate(TubeField.reserves) + entry.rate(TubeField.deletes);

/** Order in which tubes get a place: the busiest first, then the oldest. */
const rank = (entry: TubeEntry): number => activity(entry) || -entry.get(TubeField.sequence);

/**
 * Points for which a tube keeps its place without activity. It may only have paused: if more tubes
 * than places were each used every few minutes, all would take places from each other, and none
 * would have a history.
 */
const QUIET_POINTS_MIN = 6;
const PAUSE_POINTS_MIN = 60;
const ACTIVE_SERIES = (["puts", "reserves", "deletes"] as const).map((name) => TUBE_SERIES.indexOf(name));

function isQuiet({ values, quietMin, from, to }: Kept): boolean {
  if (to - from < quietMin) return false;
  const value = (point: number, series: number): number =>
    values[(point % POINTS) * TUBE_SERIES.length + series]!;
  return ACTIVE_SERIES.every((series) => value(to - 1, series) === value(from, series));
}

const FIRST_COUNTER = JOB_STATES.length;

/** Index of a point's values. */
const at = (point: number): number => (point % POINTS) * TUBE_SERIES.length;

const pointOf = ({ values }: Kept, point: number): Float32Array =>
  values.subarray(at(point), at(point) + TUBE_SERIES.length);

const lastOf = (kept: Kept): Float32Array => pointOf(kept, kept.to - 1);

/** Returns the activity of a tube while it was recorded. */
function doneIn(kept: Kept): number {
  if (kept.to === kept.from) return 0;
  const [first, last] = [pointOf(kept, kept.from), lastOf(kept)];
  return ACTIVE_SERIES.reduce((sum, series) => sum + last[series]! - first[series]!, 0);
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
    const point = this.#points++;
    this.#forgetGone(tubes, point);
    this.#atMs[point % POINTS] = wallMs;
    const others = [...tubes.values()].filter(({ name }) => !this.#kept.has(name));
    if (this.#room < others.length)
      this.#makeRoom(others.filter((entry) => activity(entry) > 0).length - this.#room);
    if (this.#room > 0) this.#begin(others, this.#room, point);
    for (const [name, kept] of this.#kept) {
      const entry = tubes.get(name);
      // The tube may come back after a restart.
      if (entry === undefined) continue;
      if (Number.isNaN(kept.sequence)) this.#goOn(kept, entry, point);
      const at = (point % POINTS) * TUBE_SERIES.length;
      for (const [index, series] of TUBE_SERIES.entries())
        kept.values[at + index] = entry.get(TubeField[series]) + (kept.base?.[index] ?? 0);
      kept.to = point + 1;
      kept.from = Math.max(kept.from, kept.to - POINTS);
    }
  }

  /** Forgets tubes that no longer exist, even if others have their names now. */
  #forgetGone(tubes: ReadonlyMap<string, TubeEntry>, point: number): void {
    for (const [name, { sequence, to }] of this.#kept) {
      const now = tubes.get(name)?.get(TubeField.sequence);
      const mayReturn = Number.isNaN(sequence) && (now !== undefined || point - to < RETURN_POINTS_MAX);
      if (now !== sequence && !mayReturn) this.#kept.delete(name);
    }
  }

  /**
   * Continues the history of a tube from before a restart. Its counters restarted at 0, even if
   * they have passed the earlier ones by now.
   */
  #goOn(kept: Kept, entry: TubeEntry, point: number): void {
    kept.sequence = entry.get(TubeField.sequence);
    const last = lastOf(kept);
    kept.base = TUBE_SERIES.map((_, series) => (series < FIRST_COUNTER ? 0 : last[series]!));
    // Without the tube, nothing was counted, and nothing waited.
    for (let missed = kept.to; missed < point; missed++)
      kept.values.set(kept.base, (missed % POINTS) * TUBE_SERIES.length);
  }

  get saved(): SavedTubes {
    const first = Math.max(0, this.#points - POINTS);
    const busiest = [...this.#kept]
      .map(([name, kept]) => ({ name, kept, done: doneIn(kept) }))
      .sort((a, b) => b.done - a.done)
      .slice(0, SAVED_TUBES_MAX);
    return {
      atMs: Array.from({ length: this.#points - first }, (_, index) => this.#atMs[(first + index) % POINTS]!),
      tubes: busiest.map(({ name, kept }) => {
        const from = Math.max(first, kept.from);
        const values = new Float32Array(Math.max(0, kept.to - from) * TUBE_SERIES.length);
        // At most two pieces of the ring.
        const turn = Math.min(kept.to, (Math.floor(from / POINTS) + 1) * POINTS);
        values.set(kept.values.subarray(at(from), at(from) + (turn - from) * TUBE_SERIES.length));
        values.set(kept.values.subarray(0, at(kept.to - turn)), at(turn - from));
        return { name, from: from - first, values };
      }),
    };
  }

  /** Takes the histories of an earlier run, before the first point of this one. */
  restore({ atMs, tubes }: SavedTubes, nowMs: number): void {
    // Leaves out points that are too old for a chart, or whose clock was wrong.
    const isKnown = (ms: number): boolean => ms <= nowMs && ms > nowMs - POINTS * STEP_SECONDS * 1000;
    const skipped = atMs.findIndex(isKnown);
    const times = skipped < 0 ? [] : atMs.slice(skipped);
    if (times.length === 0 || times.length > POINTS || !times.every(isKnown)) return;
    this.#atMs.set(times);
    this.#points = times.length;
    for (const { name, from, values } of tubes.slice(0, this.#tubesMax)) {
      const cut = Math.max(0, skipped - from);
      const count = values.length / TUBE_SERIES.length - cut;
      const begin = from + cut - skipped;
      if (!(count > 0 && begin >= 0 && begin + count <= times.length)) continue;
      const ring = new Float32Array(POINTS * TUBE_SERIES.length);
      ring.set(values.subarray(at(cut)), at(begin));
      const points = { from: begin, to: begin + count };
      this.#kept.set(name, { sequence: Number.NaN, values: ring, quietMin: PAUSE_POINTS_MIN, ...points });
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
      const values = new Float32Array(POINTS * TUBE_SERIES.length);
      const sequence = entry.get(TubeField.sequence);
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
    const index = TUBE_SERIES.indexOf(series);
    const value = (point: number): number => values[(point % POINTS) * TUBE_SERIES.length + index]!;
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
      const index = TUBE_SERIES.indexOf(name);
      const value = (point: number): number => kept.values[point * TUBE_SERIES.length + index]!;
      return [
        name,
        points.map((point): [number, number] => [Math.round(this.#atMs[point]!) / 1000, value(point)]),
      ];
    });
    return Object.fromEntries(listed);
  }
}
