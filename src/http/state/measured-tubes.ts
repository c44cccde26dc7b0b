// Tubes with their own series and times: the same for all listeners, for metrics, and for pages
// that show times.

import { AsyncQueue } from "../link/async-queue.ts";
import { type MetricsRules, SeriesSet } from "./series-set.ts";
import { type Recent, TimeSeries } from "./time-series.ts";

export class MeasuredTubes {
  readonly series: SeriesSet;
  readonly times: TimeSeries = new TimeSeries();
  /**
   * A scrape takes several MB of heap while it is built; a hundred at once would fill the heap.
   * Also, an older answer of the shards must not follow a newer one.
   */
  readonly turns: AsyncQueue = new AsyncQueue();
  /** Whether a page has asked. Until then, only scrapes measure. */
  isWanted = false;

  constructor(rules: MetricsRules) {
    this.series = new SeriesSet(rules);
  }

  /** Returns the quantiles of a tube's last minutes; null if it isn't measured (yet). */
  recent(name: string): Recent | null {
    this.isWanted = true;
    return this.times.recent(name) ?? null;
  }
}
