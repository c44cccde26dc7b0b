// A micro-benchmark and its measurement: rounds of equal work, whose median counts.
import { spreadOf } from "../result/measurement.ts";

/** Equal work, to be done again and again. A round leaves everything as it found it. */
interface Rounds {
  /**
   * Does the work once and returns its checksum: what came out of it, so that no work is skipped or
   * optimised away.
   */
  run(): number | Promise<number>;
  close?(): Promise<void>;
}

export interface MicroBenchmark {
  /** The part that is measured; `--only` selects by it. */
  readonly subject: string;
  readonly name: string;
  /** Operations of a round: some tens of milliseconds. */
  readonly operations: number;
  /** Operations of a round in the tests: enough to pass through all the code. */
  readonly smallOperations: number;
  /** The checksum of a round of so many operations, found in another way than by running it. */
  expected(operations: number): number;
  open(operations: number): Rounds | Promise<Rounds>;
}

/** Nanoseconds of one operation over the rounds. */
export interface MicroResult {
  readonly subject: string;
  readonly name: string;
  readonly operations: number;
  readonly rounds: number;
  readonly nsPerOperation: number;
  readonly lowestNs: number;
  readonly highestNs: number;
  readonly operationsPerSecond: number;
}

/** Rounds before the measured ones, for V8 to compile. */
const WARM_ROUNDS = 2;

/** Rejects if a round's checksum is wrong: its time would be that of other work. */
export async function measure(
  benchmark: MicroBenchmark,
  operations: number,
  rounds: number,
): Promise<MicroResult> {
  const { subject, name } = benchmark;
  const expected = benchmark.expected(operations);
  const opened = await benchmark.open(operations);
  const ns: number[] = [];
  try {
    for (let round = -WARM_ROUNDS; round < rounds; round++) {
      const { checksum, tookMs } = await timed(opened);
      if (checksum !== expected)
        throw new Error(`${subject}, ${name}: the checksum is ${checksum} instead of ${expected}`);
      if (round >= 0) ns.push((tookMs * 1e6) / operations);
    }
  } finally {
    await opened.close?.();
  }
  const { median, lowest, highest } = spreadOf(ns);
  return {
    subject,
    name,
    operations,
    rounds,
    nsPerOperation: median,
    lowestNs: lowest,
    highestNs: highest,
    operationsPerSecond: 1e9 / median,
  };
}

/**
 * One round. What one thread does by itself is told in the CPU time of the process, which others on
 * the machine disturb least; with two threads it is the time between.
 */
async function timed(rounds: Rounds): Promise<{ checksum: number; tookMs: number }> {
  const startedAtMs = performance.now();
  const before = process.cpuUsage();
  const result = rounds.run();
  if (typeof result === "number") {
    const { user, system } = process.cpuUsage(before);
    return { checksum: result, tookMs: (user + system) / 1000 };
  }
  return { checksum: await result, tookMs: performance.now() - startedAtMs };
}

/** The sum of 0 to `count - 1`. */
export const sumBelow = (count: number): number => (count * (count - 1)) / 2;
