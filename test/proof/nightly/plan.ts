// The campaigns of a night: what each plays, from which seeds, and what its output counts.

import { AT_NIGHT } from "../../support/run/files.ts";

export interface Campaign {
  readonly name: string;
  /** What an operation is. */
  readonly unit: string;
  /** Of package.json. A campaign whose script does not exist is left out, and said to be. */
  readonly script: string;
  /** Share of the time. */
  readonly weight: number;
  /** Seeds of one call, which takes up to half a minute on a free machine. */
  readonly seeds: number;
  readonly arguments: (seed: number, seeds: number) => readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** What one match counts in the output; all matches are added. */
  readonly counts: RegExp;
}

const seeded = (seed: number, seeds: number): string[] => ["--seed", `${seed}`, "--seeds", `${seeds}`];
const one = (seed: number, ...others: string[]): string[] => ["--seed", `${seed}`, ...others];

export const PLAN: readonly Campaign[] = [
  {
    ...{ name: "server", unit: "commands", script: "simulate", weight: 4, seeds: 20 },
    arguments: seeded,
    counts: /(\d+) commands/g,
  },
  {
    ...{ name: "http", unit: "puts", script: "simulate", weight: 1, seeds: 20 },
    arguments: (seed, seeds) => ["--http", ...seeded(seed, seeds)],
    counts: /(\d+) puts/g,
  },
  {
    ...{ name: "log", unit: "operations", script: "simulate:binlog", weight: 2, seeds: 100 },
    arguments: seeded,
    counts: /(\d+) operations/g,
  },
  {
    ...{ name: "group", unit: "acknowledged puts", script: "simulate:replica", weight: 2, seeds: 20 },
    arguments: seeded,
    counts: /"acknowledged":(\d+)/g,
  },
  {
    // A night that has no time for so many seeds misses some.
    ...{ name: "marks", unit: "marks missed", script: "proof:marks", weight: 3, seeds: 400 },
    arguments: seeded,
    counts: /(\d+) marks missed/g,
  },
  {
    ...{ name: "readers", unit: "inputs", script: "fuzz:coverage", weight: 1, seeds: 1 },
    arguments: (seed) => one(seed, "--seconds", "5"),
    counts: /(\d+) inputs in/g,
  },
  {
    ...{ name: "histories", unit: "histories", script: "proof:histories", weight: 2, seeds: 1 },
    arguments: (seed) => one(seed, "--histories", "40"),
    counts: /(\d+) of \d+ histories accepted/g,
  },
  {
    ...{ name: "power", unit: "losses of power", script: "proof:power", weight: 2, seeds: 1 },
    arguments: (seed) => one(seed, "--rounds", "5"),
    counts: /(\d+) losses of power/g,
  },
  {
    ...{ name: "faults of a group", unit: "rounds", script: "proof:group", weight: 2, seeds: 1 },
    arguments: (seed) => one(seed, "--rounds", "5"),
    counts: /^(\d+) rounds/gm,
  },
  {
    ...{ name: "kills", unit: "acknowledged puts", script: "kill", weight: 2, seeds: 1 },
    arguments: (seed) => one(seed),
    environment: { ROUNDS: "3", PARTITIONS: "1" },
    counts: /(\d+) acknowledged puts/g,
  },
  {
    ...{ name: "soak", unit: "seconds", script: "soak", weight: 2, seeds: 1 },
    arguments: (seed) => one(seed, "--seconds", "30", "--no-disk"),
    counts: /^soak: (\d+) s/gm,
  },
  {
    // They take no seed.
    ...{ name: "what whole runs leave out", unit: "tests", script: "test", weight: 2, seeds: 1 },
    arguments: () => AT_NIGHT.map((name) => `test/${name}.test.ts`),
    environment: { TESTS: "night" },
    counts: / s: (\d+) passed/g,
  },
];
