// Load from a pool of Node workers: splits the connections among them, starts them together, merges
// what they saw.
import { setTimeout as sleep } from "node:timers/promises";
import { Piscina } from "piscina";
import { monotonicMs } from "../../src/ring/monotonic-clock.ts";
import { Latency } from "./latency.ts";
import {
  type Address,
  type LoadResult,
  type LoadSource,
  type Marks,
  METRIC_NAMES,
  type MetricName,
  NO_MARKS,
} from "./load-source.ts";
import { SCENARIOS } from "./programs.ts";
import { WorkerControl } from "./worker-control.ts";
import type { WorkerOutcome, WorkerTask } from "./worker-task.ts";
import type { Workload } from "./workload.ts";

const START_AHEAD_MS = 5;
const WARM_SECONDS = 0.4;

export class WorkerLoad implements LoadSource {
  readonly name = "workers";
  readonly #workers: number;
  readonly #warm = new Set<string>();
  readonly #pool: Piscina<WorkerTask, WorkerOutcome>;

  constructor(workers: number) {
    this.#workers = workers;
    this.#pool = new Piscina<WorkerTask, WorkerOutcome>({
      filename: new URL("./worker.ts", import.meta.url).href,
      minThreads: workers,
      maxThreads: workers,
    });
  }

  /** A workload's first run follows an unmeasured one, in which V8 compiles the generator. */
  async run(address: Address, workload: Workload, marks: Marks): Promise<LoadResult> {
    const { scenario, jobs } = workload;
    if (!this.#warm.has(scenario) && jobs === 0 && scenario !== "drain") {
      this.#warm.add(scenario);
      await this.#runOnce(
        address,
        { ...workload, seconds: WARM_SECONDS, warmupSeconds: 0, rate: 0 },
        NO_MARKS,
      );
    }
    return this.#runOnce(address, workload, marks);
  }

  async #runOnce(address: Address, workload: Workload, marks: Marks): Promise<LoadResult> {
    const control = new WorkerControl();
    const workers = Math.min(this.#workers, Math.ceil(workload.connections / 2));
    const outcomes: Promise<WorkerOutcome>[] = [];
    for (let worker = 0; worker < workers; worker++) {
      outcomes.push(this.#pool.run({ address, workload, worker, workers, control: control.memory }));
    }
    const all = Promise.all(outcomes);
    all.catch(() => {}); // looked at below
    while (control.get("ready") < workers) {
      const failed = await Promise.race([all.then(() => true), sleep(1, false)]);
      if (failed) break;
    }
    const startMs = monotonicMs() + START_AHEAD_MS;
    control.start(startMs);
    await Promise.race([all, sleep(START_AHEAD_MS + workload.warmupSeconds * 1000)]);
    marks.begin();
    const results = await all;
    marks.end();
    return merge(results, workload, startMs + workload.warmupSeconds * 1000, control.get("inserted"));
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

function merge(
  outcomes: WorkerOutcome[],
  workload: Workload,
  measuredFromMs: number,
  inserted: number,
): LoadResult {
  const metrics = new Map<MetricName, Latency>();
  for (const outcome of outcomes) {
    for (const name of METRIC_NAMES) {
      const encoded = outcome.metrics[name];
      if (encoded === undefined) continue;
      const merged = metrics.get(name) ?? new Latency();
      merged.add(new Latency(encoded));
      metrics.set(name, merged);
    }
  }
  const endsItself = workload.jobs > 0 || SCENARIOS[workload.scenario].producer.loopFrom > 0;
  const lastReplyMs = Math.max(...outcomes.map((outcome) => outcome.lastReplyMs));
  const commands = sum(outcomes.map((outcome) => outcome.commands));
  return {
    commands,
    seconds: endsItself && commands > 0 ? (lastReplyMs - measuredFromMs) / 1000 : workload.seconds,
    inserted,
    generatorCpuSeconds: sum(outcomes.map((outcome) => outcome.cpuSeconds)),
    metrics,
  };
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
