// Latency histograms: hdr-histogram-js in tenths of a microsecond, three significant digits.
import {
  build,
  decodeFromCompressedBase64,
  encodeIntoCompressedBase64,
  type Histogram,
} from "hdr-histogram-js";

const TICKS_PER_MICROSECOND = 10;
const HIGHEST_TICKS = 2 ** 31 - 1; // 214 s

export class Latency {
  readonly #histogram: Histogram;

  constructor(encoded?: string) {
    this.#histogram =
      encoded === undefined
        ? build({
            lowestDiscernibleValue: 1,
            highestTrackableValue: HIGHEST_TICKS,
            numberOfSignificantValueDigits: 3,
            bitBucketSize: 64,
          })
        : decodeFromCompressedBase64(encoded);
  }

  record(micros: number, count: number): void {
    const ticks = Math.min(Math.round(micros * TICKS_PER_MICROSECOND), HIGHEST_TICKS);
    this.#histogram.recordValueWithCount(ticks, count);
  }

  add(other: Latency): void {
    this.#histogram.add(other.#histogram);
  }

  reset(): void {
    this.#histogram.reset();
  }

  get count(): number {
    return this.#histogram.totalCount;
  }

  get maxMicros(): number {
    return this.#histogram.maxValue / TICKS_PER_MICROSECOND;
  }

  percentileMicros(percentile: number): number {
    // The library answers with the upper edge of a bucket, which may lie above everything recorded.
    return Math.min(this.#histogram.getValueAtPercentile(percentile) / TICKS_PER_MICROSECOND, this.maxMicros);
  }

  /**
   * The usual compressed HDR encoding, which other HDR tools read; values are tenths of a
   * microsecond.
   */
  encode(): string {
    return encodeIntoCompressedBase64(this.#histogram);
  }
}
