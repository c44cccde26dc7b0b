// Shrinks a failing run: first to its shortest failing prefix, then by removing steps from it.

import { shorten } from "../support/shorten.ts";
import { simulate } from "./simulation.ts";
import type { SimulationOptions } from "./simulation-state.ts";

interface Shrunk {
  readonly steps: number;
  readonly only: readonly number[];
  /** Error of the shortest run. */
  readonly error: unknown;
}

type Breaking = Pick<SimulationOptions, "createServer" | "plant" | "onStep">;

/**
 * Shrinks the run of `seed`, which fails within `steps`, for `msMax` at most. Any failure counts as
 * the same.
 */
export async function shrink(
  seed: number,
  steps: number,
  msMax: number,
  breaking: Breaking = {},
): Promise<Shrunk> {
  const untilMs = performance.now() + msMax;
  const failureOf = async (count: number, only?: readonly number[]): Promise<unknown> => {
    try {
      const chosen = only === undefined ? {} : { only: new Set(only) };
      await simulate({ seed, steps: count, ...chosen, ...breaking });
      return undefined;
    } catch (error) {
      return error;
    }
  };
  const prefix = await shortestPrefix(steps, async (count) => (await failureOf(count)) !== undefined);
  const only = await shorten(
    Array.from({ length: prefix }, (_, step) => step),
    async (rest) => performance.now() < untilMs && (await failureOf(prefix, rest)) !== undefined,
  );
  return { steps: prefix, only, error: await failureOf(prefix, only) };
}

/** By bisection: a run of fewer steps is a prefix of a longer one. */
async function shortestPrefix(steps: number, fails: (count: number) => Promise<boolean>): Promise<number> {
  let low = 0;
  let high = steps;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (await fails(middle)) high = middle;
    else low = middle + 1;
  }
  return high;
}

/** Steps as text: `0-3,17`. */
export function formatSteps(steps: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const step of steps) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === step - 1) last[1] = step;
    else ranges.push([step, step]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}

/** The opposite of `formatSteps`; undefined if the text is not one of its kind. */
export function parseSteps(text: string): Set<number> | undefined {
  const steps = new Set<number>();
  for (const range of text.split(",")) {
    const match = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(range);
    if (match === null) return undefined;
    for (let step = Number(match[1]); step <= Number(match[2] ?? match[1]); step++) steps.add(step);
  }
  return steps;
}
