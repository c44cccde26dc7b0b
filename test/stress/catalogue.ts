// Catalogue of `npm run stress`: cases of threads on the classes of src/ring, and cases of the
// whole server.

import type { Experiment } from "./case.ts";
import { CASES } from "./cases.ts";
import { type CaseOptions, type CaseReport, runCase } from "./run-case.ts";
import { runServerCase, SERVER_CASES } from "./server-case.ts";

export interface Entry extends Experiment {
  /** Bugs that this must find. */
  readonly planted: readonly string[];
  readonly isServer: boolean;
  run(options: CaseOptions): Promise<CaseReport>;
}

/** A server does less in a second than a race of two threads, and has to warm up. */
const SERVER_SECONDS = 3;

const longer = (options: CaseOptions): CaseOptions => ({
  ...options,
  seconds: options.seconds * SERVER_SECONDS,
});

export const CATALOGUE: readonly Entry[] = [
  ...CASES.map((each): Entry => ({ ...each, isServer: false, run: (options) => runCase(each, options) })),
  ...SERVER_CASES.map(
    (each): Entry => ({ ...each, isServer: true, run: (options) => runServerCase(each, longer(options)) }),
  ),
];

/**
 * A busy machine may not get around to everything in the time that a case is given: then it gets so
 * many times as much.
 */
const LONGER = [6, 60] as const;

/** Plays a case until everything required has happened, or something that must not. */
export async function play(entry: Entry, options: CaseOptions): Promise<CaseReport> {
  let report = await entry.run(options);
  for (const times of LONGER) {
    if (report.forbidden.length + report.broken.length > 0 || report.missing.length === 0) break;
    report = await entry.run({ ...options, seconds: options.seconds * times });
  }
  return report;
}

/**
 * Limits for finding a planted bug, in iterations of an actor and in seconds. An actor that finds
 * nothing to do makes millions while the others are held up.
 */
const CANARY_ITERATIONS = 100_000_000;
const CANARY_SECONDS = 30;

/**
 * Plays a planted bug; resolves with the result that gave it away, or undefined. A thread that dies
 * of it is not enough.
 */
export async function findPlanted(entry: Entry, planted: string, seed: number): Promise<string | undefined> {
  const options = { seed, planted, seconds: CANARY_SECONDS, iterationsMax: CANARY_ITERATIONS };
  return (await entry.run(options)).forbidden[0];
}
