// Case on a machine with other load.
import { availableParallelism } from "node:os";
import { withBusyLoops } from "../server/busy-loops.ts";
import type { BenchCase } from "./bench-case.ts";

/** The same case beside a number of busy loops: as many as cores unless told otherwise. */
export function busyCase(benchCase: BenchCase, busyLoops: number = availableParallelism()): BenchCase {
  const isFull = busyLoops === availableParallelism();
  return {
    ...benchCase,
    key: `${benchCase.key}-${isFull ? "busy" : `burn${busyLoops}`}`,
    title: `${benchCase.title}, ${isFull ? coresTitle(busyLoops) : loopsTitle(busyLoops)}`,
    busyLoops,
    measure: (context) => withBusyLoops(busyLoops, () => benchCase.measure(context)),
  };
}

function coresTitle(cores: number): string {
  if (cores === 1) return "the core busy";
  return cores === 2 ? "both cores busy" : `all ${cores} cores busy`;
}

function loopsTitle(count: number): string {
  return count === 1 ? "beside a busy loop" : `beside ${count} busy loops`;
}
