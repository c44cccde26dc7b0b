// All micro-benchmarks, and those that a name selects.
import { ARENA } from "./arena.ts";
import { COMMAND } from "./command.ts";
import { DOORBELL } from "./doorbell.ts";
import { ENGINE } from "./engine.ts";
import { HEAP } from "./heap.ts";
import type { MicroBenchmark } from "./micro-benchmark.ts";
import { PARSER } from "./parser.ts";
import { RECORD } from "./record.ts";
import { RING } from "./ring.ts";
import { TABLE } from "./table.ts";

export const MICRO_BENCHMARKS: readonly MicroBenchmark[] = [
  ...PARSER,
  ...RING,
  ...DOORBELL,
  ...HEAP,
  ...TABLE,
  ...ARENA,
  ...RECORD,
  ...ENGINE,
  ...COMMAND,
];

/** Returns the benchmarks of the subjects `names`, or all. Throws on an unknown name. */
export function microBenchmarksNamed(names: readonly string[] | undefined): MicroBenchmark[] {
  if (names === undefined) return [...MICRO_BENCHMARKS];
  const subjects = [...new Set(MICRO_BENCHMARKS.map(({ subject }) => subject))];
  const unknown = names.find((name) => !subjects.includes(name));
  if (unknown !== undefined)
    throw new Error(`Unknown micro-benchmark ${unknown}. There are: ${subjects.join(", ")}`);
  return MICRO_BENCHMARKS.filter(({ subject }) => names.includes(subject));
}
