// Specification of a load, the same for both generators.
import type { ScenarioName } from "./programs.ts";

export interface Workload {
  readonly scenario: ScenarioName;
  readonly connections: number;
  /**
   * Client processes that share the connections; 0: threads, as many as the generator has. Only the
   * generator in C has them.
   */
  readonly processes: number;
  /** For `tubes`: consumers besides the connections. */
  readonly watchers: number;
  /** Commands that a connection sends before it waits for the replies. */
  readonly pipeline: number;
  readonly bodyBytes: number;
  readonly tubes: number;
  readonly seconds: number;
  readonly warmupSeconds: number;
  /** Commands/s of all connections together; 0: as fast as replies come. */
  readonly rate: number;
  /** Operations after which the run ends; 0: only the clock ends it. */
  readonly jobs: number;
  /** For `delayed`: the longest delay. */
  readonly delaySeconds: number;
}

export const WORKLOAD_DEFAULTS: Workload = {
  scenario: "put-reserve-delete",
  connections: 50,
  processes: 0,
  watchers: 300,
  pipeline: 1,
  bodyBytes: 64,
  tubes: 1,
  seconds: 1.2,
  warmupSeconds: 0.3,
  rate: 0,
  jobs: 0,
  delaySeconds: 1,
};
