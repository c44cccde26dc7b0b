// One worker's part of a run: its clock, the turns of its producers, its measurements and its end.
//
// Producers start an operation when the previous one ends (closed loop) or when the clock demands
// it (with a rate). With a rate, latency counts from the scheduled time, however late the command
// was sent.

import { monotonicMs } from "../../src/ring/monotonic-clock.ts";
import { Latency } from "./latency.ts";
import type { MetricName } from "./load-source.ts";
import type { Scenario } from "./programs.ts";
import type { WorkerControl } from "./worker-control.ts";
import type { WorkerOutcome } from "./worker-task.ts";
import type { Workload } from "./workload.ts";

const PATIENCE_MS = 10_000; // for the last replies
const QUIET_MS = 100; // consumers are left alone once nothing has come for this long
const TICK_MS = 5;

/** A connection, as the run drives it. */
export interface RunConnection {
  readonly isConsumer: boolean;
  /** Number among the producers. */
  readonly driver: number;
  startConsuming(nowMs: number): void;
  /** One more operation has fallen due. */
  operationDue(nowMs: number): void;
  startOperation(nowMs: number): void;
  finishIfIdle(): void;
}

export class GeneratorRun {
  readonly workload: Workload;
  readonly scenario: Scenario;
  readonly control: WorkerControl;
  /** Between two operations of all connections together; 0 in a closed loop. */
  readonly gapMs: number;
  readonly driverCount: number;
  lastActivityMs = 0;

  readonly #backlogLimit: number;
  readonly #metrics = new Map<MetricName, Latency>();
  #measureFromMs = 0;
  #deadlineMs = 0;
  #commands = 0;
  #lastReplyMs = 0;
  #drivers: RunConnection[] = [];
  #driversLeft = 0;
  #waiting: RunConnection[] = [];
  #nextRound = 0;
  #nextDriver = 0;
  #fail: (error: Error) => void = () => {};

  constructor(workload: Workload, scenario: Scenario, control: WorkerControl) {
    this.workload = workload;
    this.scenario = scenario;
    this.control = control;
    const isPaced = workload.rate > 0 && scenario.producer.loopFrom === 0;
    this.gapMs = isPaced ? (1000 * scenario.commandsPerOperation) / workload.rate : 0;
    const sharesConnections = scenario.consumer !== undefined && !scenario.separateWatchers;
    this.driverCount = sharesConnections ? Math.ceil(workload.connections / 2) : workload.connections;
    this.#backlogLimit = scenario.limitsBacklog
      ? Math.max(1000, 4 * workload.connections * workload.pipeline)
      : 0;
  }

  get startMs(): number {
    return this.control.startMs;
  }

  isOver(nowMs: number): boolean {
    return nowMs >= this.#deadlineMs;
  }

  isMeasured(nowMs: number): boolean {
    return nowMs >= this.#measureFromMs && nowMs < this.#deadlineMs;
  }

  /**
   * Whether a job with this stamp was put in the measured part (others are of the warm-up or an
   * earlier run).
   */
  isMeasuredStamp(stampMs: number): boolean {
    return stampMs >= this.#measureFromMs;
  }

  countReplies(count: number, nowMs: number): void {
    if (!this.isMeasured(nowMs)) return;
    this.#commands += count;
    this.#lastReplyMs = nowMs;
  }

  measure(metric: MetricName, latencyMs: number, count: number, nowMs: number): void {
    if (!this.isMeasured(nowMs)) return;
    let latency = this.#metrics.get(metric);
    if (!latency) this.#metrics.set(metric, (latency = new Latency()));
    latency.record(latencyMs > 0 ? latencyMs * 1000 : 0, count);
  }

  /** How many of the wanted operations may begin; 0 if the limit on jobs is used up. */
  claim(wanted: number): number {
    const limit = this.workload.jobs;
    if (limit === 0) return wanted;
    const before = this.control.add("operations", wanted);
    return Math.max(0, Math.min(wanted, limit - before));
  }

  /** Whether a producer has to wait because consumers fell behind; it is started again later. */
  mustWait(connection: RunConnection): boolean {
    if (this.#backlogLimit === 0 || this.control.get("backlog") <= this.#backlogLimit) return false;
    this.#waiting.push(connection);
    return true;
  }

  driverFinished(): void {
    this.#driversLeft--;
    this.control.add("driversLeft", -1);
  }

  fail(error: Error): void {
    this.control.add("failed", 1);
    this.#fail(error);
  }

  async play(connections: RunConnection[]): Promise<WorkerOutcome> {
    const { warmupSeconds, seconds } = this.workload;
    this.#measureFromMs = this.startMs + warmupSeconds * 1000;
    this.#deadlineMs = this.#measureFromMs + seconds * 1000;
    this.#drivers = connections.filter((connection) => !connection.isConsumer);
    this.#driversLeft = this.#drivers.length;
    const cpuBefore = process.threadCpuUsage();
    await this.#untilDone(connections);
    const cpu = process.threadCpuUsage(cpuBefore);
    const metrics: Partial<Record<MetricName, string>> = {};
    for (const [name, latency] of this.#metrics) metrics[name] = latency.encode();
    return {
      commands: this.#commands,
      lastReplyMs: this.#lastReplyMs,
      cpuSeconds: (cpu.user + cpu.system) / 1e6,
      metrics,
    };
  }

  #untilDone(connections: RunConnection[]): Promise<void> {
    return new Promise((resolve, reject) => {
      let isEnded = false;
      const end = (error?: Error) => {
        isEnded = true;
        clearInterval(ticker);
        if (error) reject(error);
        else resolve();
      };
      this.#fail = end;
      const ticker = setInterval(() => {
        const nowMs = monotonicMs();
        this.#tick(nowMs);
        if (this.#isDone(nowMs, end)) end();
      }, TICK_MS);
      const pace = () => {
        if (isEnded || this.isOver(monotonicMs())) return;
        const dueInMs = this.#handOut(monotonicMs());
        // A timer is a millisecond late; below that only turning helps. Use the generator in C to
        // leave the CPU alone.
        if (dueInMs > 1.5) setTimeout(pace, dueInMs - 1.5);
        else setImmediate(pace);
      };
      const begin = () => {
        const nowMs = monotonicMs();
        // Timers drop fractions of a millisecond, and replies from before the start would not be
        // counted.
        if (nowMs < this.startMs) {
          setImmediate(begin);
          return;
        }
        this.#startAll(connections, nowMs);
        if (this.gapMs > 0) pace();
      };
      setTimeout(begin, Math.max(0, this.startMs - monotonicMs()));
    });
  }

  #tick(nowMs: number): void {
    this.#wakeProducers(nowMs);
    if (this.isOver(nowMs)) for (const driver of this.#drivers) driver.finishIfIdle();
  }

  /** Consumers, and producers that wait for no clock. */
  #startAll(connections: readonly RunConnection[], nowMs: number): void {
    this.lastActivityMs = nowMs;
    for (const connection of connections) if (connection.isConsumer) connection.startConsuming(nowMs);
    if (this.gapMs === 0) for (const driver of this.#drivers) driver.startOperation(nowMs);
  }

  /** Hands out the operations that have fallen due; returns how long until the next. */
  #handOut(nowMs: number): number {
    while (this.#drivers.length > 0) {
      const driver = this.#drivers[this.#nextDriver]!;
      const dueMs = this.startMs + (this.#nextRound * this.driverCount + driver.driver) * this.gapMs;
      if (dueMs > nowMs || this.isOver(dueMs)) return dueMs - nowMs;
      driver.operationDue(nowMs);
      if (++this.#nextDriver < this.#drivers.length) continue;
      this.#nextDriver = 0;
      this.#nextRound++;
    }
    return TICK_MS;
  }

  /** Also called after replies, so that producers don't wait for the next tick. */
  wakeProducers(nowMs: number): void {
    if (this.#waiting.length > 0) this.#wakeProducers(nowMs);
  }

  #wakeProducers(nowMs: number): void {
    for (let n = this.#waiting.length; n > 0; n--) {
      if (this.control.get("backlog") > this.#backlogLimit && !this.isOver(nowMs)) return;
      this.#waiting.shift()!.startOperation(nowMs);
    }
  }

  #isDone(nowMs: number, end: (error: Error) => void): boolean {
    if (this.control.get("failed") > 0) return true;
    const isLate = nowMs > this.#deadlineMs + PATIENCE_MS;
    if (this.#driversLeft > 0) {
      if (isLate) end(new Error(`${this.#driversLeft} connections had no reply for ${PATIENCE_MS / 1000} s`));
      return false;
    }
    // Producers are done: consumers may take what is left, but needn't.
    if (this.control.get("driversLeft") > 0) return false;
    return !this.scenario.consumer || isLate || nowMs > this.lastActivityMs + QUIET_MS;
  }
}
