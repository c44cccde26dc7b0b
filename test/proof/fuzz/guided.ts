// Fuzzing guided by coverage: an input that executes what no other did is kept, and changed
// further.

import type { SeededRandom } from "../../support/seeded-random.ts";
import { CodeCoverage } from "./code-coverage.ts";
import { inputOf, type Target } from "./targets.ts";

/** Longer inputs execute nothing else, only more of it. */
const INPUT_BYTES_MAX = 2048;

interface Finding {
  readonly input: Uint8Array;
  readonly error: unknown;
}

export interface GuidedResult {
  readonly played: number;
  readonly features: number;
  /** Inputs that showed something new, in order; those that were given come first. */
  readonly corpus: readonly Uint8Array[];
  readonly finding: Finding | undefined;
}

interface GuidedOptions {
  readonly corpus: readonly Uint8Array[];
  readonly random: SeededRandom;
  readonly ms: number;
  readonly runs?: number;
  /** What an input has executed since the last call; V8's coverage of src by default. */
  readonly coverage?: { take(): readonly string[]; end(): void };
}

/** Plays inputs until time is over or one breaks the target's promise. */
export function fuzz(target: Target, options: GuidedOptions): GuidedResult {
  const { random, ms, runs = Number.POSITIVE_INFINITY, coverage = new CodeCoverage() } = options;
  const seen = new Set<string>();
  const corpus: Uint8Array[] = [];
  const waiting = [...target.seeds.map(inputOf), ...options.corpus];
  const endsAtMs = performance.now() + ms;
  let played = 0;
  try {
    while (waiting.length > 0 || (performance.now() < endsAtMs && played < runs)) {
      const input = waiting.shift() ?? changed(corpus, target, random);
      played++;
      const error = failureOf(target, input);
      if (error !== undefined) return { played, features: seen.size, corpus, finding: { input, error } };
      const before = seen.size;
      for (const feature of coverage.take()) seen.add(feature);
      if (seen.size > before) corpus.push(input);
    }
    return { played, features: seen.size, corpus, finding: undefined };
  } finally {
    coverage.end();
  }
}

export function failureOf({ play }: Target, input: Uint8Array): unknown {
  try {
    play(input);
    return undefined;
  } catch (error) {
    return error ?? new Error("thrown: undefined");
  }
}

/** One of the corpus, the late ones more often, with some changes. */
function changed(corpus: readonly Uint8Array[], target: Target, random: SeededRandom): Uint8Array {
  const late = Math.max(random.next(), random.next());
  let input = corpus[Math.floor(late * corpus.length)] ?? new Uint8Array();
  for (let left = random.pick([1, 1, 2, 4, 8]); left > 0; left--)
    input = changedOnce(input, corpus, target, random);
  return input.subarray(0, INPUT_BYTES_MAX);
}

function changedOnce(
  input: Uint8Array,
  corpus: readonly Uint8Array[],
  target: Target,
  random: SeededRandom,
): Uint8Array {
  const at = random.between(0, input.length);
  const to = Math.min(input.length, at + random.pick([1, 1, 2, 4, 8, 32]));
  const word = inputOf(random.pick(target.dictionary) ?? "");
  switch (random.below(8)) {
    case 0:
      return flipped(input, at, 1 << random.below(8));
    case 1:
      return joined(input.subarray(0, at), input.subarray(to));
    case 2:
      return joined(input.subarray(0, at), word, input.subarray(at));
    case 3:
      return joined(input.subarray(0, at), word, input.subarray(Math.min(input.length, at + word.length)));
    case 4:
      return joined(input.subarray(0, to), input.subarray(at));
    case 5:
      return joined(input.subarray(0, at), Uint8Array.of(random.below(256)), input.subarray(at));
    case 6: {
      const other = random.pick(corpus) ?? input;
      return joined(input.subarray(0, at), other.subarray(random.between(0, other.length)));
    }
    default:
      return input.subarray(0, at);
  }
}

function flipped(input: Uint8Array, at: number, bits: number): Uint8Array {
  const copy = input.slice();
  if (at < copy.length) copy[at] = copy[at]! ^ bits;
  return copy;
}

function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** The shortest input that still fails, by leaving parts out. */
export function shortened(target: Target, input: Uint8Array): Uint8Array {
  let shortest = input;
  for (let part = Math.max(1, input.length >> 1); part >= 1; part >>= 1)
    for (let at = 0; at + part <= shortest.length; ) {
      const without = joined(shortest.subarray(0, at), shortest.subarray(at + part));
      if (failureOf(target, without) === undefined) at += part;
      else shortest = without;
    }
  return shortest;
}
