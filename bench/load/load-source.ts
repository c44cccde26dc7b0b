// Interface of both load generators to the rest of the bench.
import type { Latency } from "./latency.ts";
import type { Workload } from "./workload.ts";

export const METRIC_NAMES = [
  /** Every command but reserves that wait for work, and `use`. */
  "command",
  "list",
  "put",
  "reserve",
  "delete",
  "bury",
  "kick",
  /** From the put (or the time its delay ends) to RESERVED at a consumer. */
  "delivery",
  /** An operation of several commands, from the time it should have begun. */
  "cycle",
] as const;
export type MetricName = (typeof METRIC_NAMES)[number];

export interface LoadResult {
  /** Replies inside the measured part. */
  readonly commands: number;
  readonly seconds: number;
  readonly inserted: number;
  readonly generatorCpuSeconds: number;
  readonly metrics: ReadonlyMap<MetricName, Latency>;
}

/** Called where the measured part begins and ends, to read the server's counters. */
export interface Marks {
  begin(): void;
  end(): void;
}

export const NO_MARKS: Marks = { begin() {}, end() {} };

export interface Address {
  readonly host: string;
  readonly port: number;
  /** PEM of the authority that signed the server's certificate; TLS only in the Node generator. */
  readonly ca?: string;
}

export interface BatchWorkers {
  readonly connections: number;
  /** Jobs at a time. */
  readonly batch: number;
  readonly tubes: number;
  /** By as many single commands in a pipeline, not by reserve-batch and delete-batch. */
  readonly isSingle: boolean;
}

export interface TakenBatches {
  readonly jobs: number;
  readonly seconds: number;
  readonly generatorCpuSeconds: number;
}

export interface LoadSource {
  readonly name: "native" | "workers";
  /** Rejects if a reply was wrong or the server didn't answer. */
  run(address: Address, workload: Workload, marks: Marks): Promise<LoadResult>;
  /**
   * Has workers take and delete all jobs of some tubes; only the generator in C has workers of its
   * own for that.
   */
  takeBatches?(address: Address, workers: BatchWorkers): Promise<TakenBatches>;
  close(): Promise<void>;
}
