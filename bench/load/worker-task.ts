// Messages between the main thread and a generating worker.
import type { Address, MetricName } from "./load-source.ts";
import type { Workload } from "./workload.ts";

export interface WorkerTask {
  readonly address: Address;
  readonly workload: Workload;
  readonly worker: number;
  readonly workers: number;
  readonly control: SharedArrayBuffer;
}

export interface WorkerOutcome {
  readonly commands: number;
  /** On the monotonic clock; 0 if none came in the measured part. */
  readonly lastReplyMs: number;
  readonly cpuSeconds: number;
  /** Encoded HDR histograms. */
  readonly metrics: Partial<Record<MetricName, string>>;
}
