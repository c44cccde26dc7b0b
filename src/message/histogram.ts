// HDR histograms of 32-bit counters, without the rest of their package: WebAssembly, compression and logs of histograms take six
// times as long to load, in every thread.

import type { Histogram } from "hdr-histogram-js";
import int32 from "hdr-histogram-js/dist/Int32Histogram.js";

export type { Histogram };

const { default: Int32Histogram } = int32;

/** Of whole numbers from 1 to `highest`, to two significant digits. */
export function createHistogram(highest: number): Histogram {
  return new Int32Histogram(1, highest, 2);
}
