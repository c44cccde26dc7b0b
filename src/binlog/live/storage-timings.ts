// HDR histograms of the disk: sync times, batch sizes, and how long batches wait to become durable.

import { assert } from "../../base/assert.ts";
import { createHistogram, type Histogram } from "../../message/histogram.ts";
import {
  BATCH_BOUNDS_RECORDS,
  countFigure,
  LOG_FIGURES,
  LogFigures,
  SYNC_BOUNDS_SECONDS,
} from "../../message/log-figures.ts";

const MINUTE_US = 60_000_000;
const BATCH_BYTES_MAX = 2 ** 31;

export class StorageTimings {
  /** Duration of a sync, in microseconds. */
  readonly syncUs = createHistogram(MINUTE_US);
  /** Time from the first record of a batch to its sync, in microseconds. */
  readonly waitUs = createHistogram(MINUTE_US);
  /** Bytes of a write. */
  readonly batchBytes = createHistogram(BATCH_BYTES_MAX);
  /** Records of a write. */
  readonly batchRecords = createHistogram(BATCH_BYTES_MAX);
  /** The same with fixed bounds, for metrics: see message/log-figures.ts. */
  readonly figures: Float64Array = new Float64Array(LOG_FIGURES);

  recordSync(tookMs: number, waitedMs: number | undefined): void {
    assert(tookMs >= 0 && (waitedMs ?? 0) >= 0, "a sync takes time");
    countFigure(this.figures, LogFigures.Sync, SYNC_BOUNDS_SECONDS, tookMs / 1000);
    this.syncUs.recordValue(Math.min(MINUTE_US, Math.round(tookMs * 1000)));
    if (waitedMs === undefined) return;
    countFigure(this.figures, LogFigures.Wait, SYNC_BOUNDS_SECONDS, waitedMs / 1000);
    this.waitUs.recordValue(Math.min(MINUTE_US, Math.round(waitedMs * 1000)));
  }

  recordWrite(bytes: number, records: number): void {
    assert(records > 0 && bytes > 0, "a write has records");
    countFigure(this.figures, LogFigures.Batch, BATCH_BOUNDS_RECORDS, records);
    this.figures[LogFigures.WrittenBytes]! += bytes;
    this.batchBytes.recordValue(bytes);
    this.batchRecords.recordValue(records);
  }

  /** Returns a one-line summary for the operator. */
  summary(): string {
    const quantiles = (each: Histogram): string =>
      `p50 ${each.getValueAtPercentile(50)}, p99 ${each.getValueAtPercentile(99)}, max ${each.maxValue}`;
    return [
      `${this.syncUs.totalCount} syncs of ${quantiles(this.syncUs)} us`,
      `waits for the disk of ${quantiles(this.waitUs)} us`,
      `batches of ${quantiles(this.batchRecords)} records and ${quantiles(this.batchBytes)} bytes`,
    ].join("; ");
  }
}
