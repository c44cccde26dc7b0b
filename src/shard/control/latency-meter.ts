// Measures how long jobs wait and are held on a shard, and the size of their bodies: as HDR
// histograms for quantiles, and in the fixed buckets of the metrics.

import { assert } from "../../base/assert.ts";
import type { Meter } from "../../engine/waiting/effects.ts";
import {
  BODY_BOUNDS_BYTES,
  type Distribution,
  type Quantiles,
  WAIT_BOUNDS_SECONDS,
} from "../../message/control.ts";
import { createHistogram } from "../../message/histogram.ts";

/** Longer times count as this value. */
const LONGEST_MS = 100 * 24 * 3600 * 1000;

class Counted implements Distribution {
  readonly counts: number[];
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(value: number): void {
    assert(value >= 0, "a time or a size is no less than 0");
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.counts[at]!++;
    this.sum += value;
  }
}

class Times {
  readonly counted = new Counted(WAIT_BOUNDS_SECONDS);
  /** In microseconds. */
  readonly #histogram = createHistogram(LONGEST_MS * 1000);

  add(ms: number): void {
    const bounded = Math.min(Math.max(ms, 0), LONGEST_MS);
    this.counted.add(bounded / 1000);
    this.#histogram.recordValue(Math.round(bounded * 1000));
  }

  get quantiles(): Quantiles {
    const histogram = this.#histogram;
    const ms = (percentile: number): number => histogram.getValueAtPercentile(percentile) / 1000;
    const count = histogram.totalCount;
    return { count, p50: ms(50), p90: ms(90), p99: ms(99), p999: ms(99.9), max: histogram.maxValue / 1000 };
  }
}

export class LatencyMeter implements Meter {
  readonly wait: Times = new Times();
  readonly hold: Times = new Times();
  readonly body: Counted = new Counted(BODY_BOUNDS_BYTES);

  waited(ms: number): void {
    this.wait.add(ms);
  }

  /** A touch restarts the time, because no column records when a job was reserved. */
  reservationEnded(deadlineAtMs: number, ttrSeconds: number, nowMs: number): void {
    this.hold.add(nowMs - (deadlineAtMs - ttrSeconds * 1000));
  }

  stored(bodyBytes: number): void {
    this.body.add(bodyBytes);
  }
}
