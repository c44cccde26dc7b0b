// Figures of the log's disk, in fixed buckets: the binlog thread writes these counters, the HTTP
// thread reads them.

// Counts of values by bucket, as in a Prometheus histogram, but not cumulative.

export class BucketCounts {
  /** One for each bound, and one for values above the last. */
  readonly counts: number[];
  sum = 0;
  readonly #bounds: readonly number[];

  /** `bounds` are the upper ends of the buckets, which include them. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.counts[at]!++;
    this.sum += value;
  }

  copy(): { counts: number[]; sum: number } {
    return { counts: [...this.counts], sum: this.sum };
  }
}

/** Seconds that a sync takes, and that a record waits for one. */
export const SYNC_BOUNDS_SECONDS = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
] as const;
/** Records of one write. */
export const BATCH_BOUNDS_RECORDS = [1, 4, 16, 64, 256, 1024, 4096] as const;

/** Start of each figure: counts, then the sum. The bytes of all writes come last. */
export const LogFigures = { Sync: 0, Wait: 14, Batch: 28, WrittenBytes: 37 } as const;
export const LOG_FIGURES = 38;

// What the scrub has found: the main thread counts, the HTTP thread shows it.

/** A damaged place of a segment that is no longer written. */
export interface Damage {
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
  /** The jobs whose ids can still be read there; a damaged record may name a wrong one. */
  readonly jobs: readonly number[];
  readonly reason: string;
}

interface DamagedPlace extends Damage {
  /** Name of the file, in the log's directory. */
  readonly file: string;
  readonly foundAtMs: number;
  /** When the file was gone, because all that it held was written again; null before that. */
  repairedAtMs: number | null;
}

export interface ScrubReport {
  paused: boolean;
  /** In a walk that was asked for: the segments that are left. */
  left: number;
  /** Segments and bytes that were read since the start. */
  files: number;
  bytes: number;
  /** Complete walks over all segments, and when the last of them ended. */
  walks: number;
  walkedAtMs: number | null;
  /** Damaged places: found since the start, and those that are still there. */
  found: number;
  damaged: number;
  /** Why the last read failed; "" if it didn't. */
  failure: string;
  /** The latest damaged places, oldest first. */
  places: DamagedPlace[];
}
