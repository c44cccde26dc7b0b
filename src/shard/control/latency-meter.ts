// Measures how long jobs wait and are held on a shard, and the sizes of their bodies. Keeps HDR
// histograms for quantiles, and the fixed buckets of the metrics.

import { assert } from "../../base/assert.ts";
import { BucketCounts } from "../../base/bucket-counts.ts";
import type { TubeMeter } from "../../engine/tubes/tube.ts";
import type { Meter } from "../../engine/waiting/effects.ts";
import {
  BODY_BOUNDS_BYTES,
  MEASURED_TUBES_MAX,
  type Quantiles,
  type TubeTimes,
  WAIT_BOUNDS_SECONDS,
} from "../../message/control.ts";
import { createHistogram } from "../../message/histogram.ts";

/** Longer times count as this value. */
const LONGEST_MS = 100 * 24 * 3600 * 1000;

const boundedMs = (ms: number): number => Math.min(Math.max(ms, 0), LONGEST_MS);

class Times {
  readonly counted = new BucketCounts(WAIT_BOUNDS_SECONDS);
  /** In microseconds. */
  readonly #histogram = createHistogram(LONGEST_MS * 1000);

  add(ms: number): void {
    const bounded = boundedMs(ms);
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

/** Wait and hold of one tube. */
class MeasuredTube implements TubeMeter, TubeTimes {
  readonly wait = new BucketCounts(WAIT_BOUNDS_SECONDS);
  readonly hold = new BucketCounts(WAIT_BOUNDS_SECONDS);

  waited(ms: number): void {
    this.wait.add(boundedMs(ms) / 1000);
  }

  held(ms: number): void {
    this.hold.add(boundedMs(ms) / 1000);
  }
}

export class LatencyMeter implements Meter {
  readonly wait: Times = new Times();
  readonly hold: Times = new Times();
  readonly body: BucketCounts = new BucketCounts(BODY_BOUNDS_BYTES);
  /** By name, so that the counts of a recreated tube continue. */
  readonly #tubes = new Map<string, MeasuredTube>();

  waited(ms: number): void {
    this.wait.add(ms);
  }

  held(ms: number): void {
    this.hold.add(ms);
  }

  stored(bodyBytes: number): void {
    this.body.add(bodyBytes);
  }

  of(name: string): TubeMeter | undefined {
    return this.#tubes.size === 0 ? undefined : this.#tubes.get(name);
  }

  /** Measures these tubes, whether they exist or not, and no others. Returns their times. */
  measure(
    names: readonly string[],
    findTube: (name: string) => { meter: TubeMeter | undefined } | undefined,
  ): readonly (readonly [name: string, times: TubeTimes])[] {
    assert(names.length <= MEASURED_TUBES_MAX, "few tubes are measured");
    const wanted = new Set(names);
    for (const name of this.#tubes.keys()) {
      if (wanted.has(name)) continue;
      this.#tubes.delete(name);
      const tube = findTube(name);
      if (tube !== undefined) tube.meter = undefined;
    }
    assert(this.#tubes.size <= wanted.size, "only tubes that are asked for are measured");
    return Array.from(wanted, (name) => {
      const times = this.#tubes.getOrInsertComputed(name, () => new MeasuredTube());
      const tube = findTube(name);
      if (tube !== undefined) tube.meter = times;
      return [name, { wait: times.wait.copy(), hold: times.hold.copy() }];
    });
  }
}
