// HDR histograms with 32-bit counters, without the rest of their package. Its WebAssembly,
// compression and histogram logs take six times as long to load, in every thread.

import type { Histogram } from "hdr-histogram-js";
import int32 from "hdr-histogram-js/dist/Int32Histogram.js";

export type { Histogram };

const { default: Int32Histogram } = int32;

/** Returns a histogram of integers from 1 to `highest`, to two significant digits. */
export function createHistogram(highest: number): Histogram {
  return new Int32Histogram(1, highest, 2);
}
