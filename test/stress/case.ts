// A stress case: a few actors on shared memory, and a table of allowed results.

import type { SeededRandom } from "../support/seeded-random.ts";

export interface Outcome {
  readonly result: string;
  /** INTERESTING: allowed, and one would not think of it at once. */
  readonly verdict: "ACCEPTABLE" | "INTERESTING";
  /** Why it is allowed. */
  readonly why: string;
  /** A run in which it never happened has shown nothing, and fails. */
  readonly required?: true;
}

/** Shared memory by name, made once for a run and handed to every actor. */
export type Shared = Readonly<Record<string, SharedArrayBuffer>>;

/** View of a run that an actor gets. */
export interface ActorRun {
  /** The planted bug to play, or undefined for the real thing. */
  readonly planted: string | undefined;
  readonly random: SeededRandom;
  /** Number of actors. */
  readonly actors: number;
  /**
   * Counts a result. One that is not in the case's table ends the run, which has failed; `detail`
   * is printed then.
   */
  see(result: string, detail?: string): void;
  /** Counts an iteration; false once the time is over or the run has failed. */
  next(): boolean;
  /** Whether a forbidden result was seen. */
  readonly failed: boolean;
  /** Waits until all actors are here. Every actor must come, whatever it has seen. */
  barrier(): void;
  /**
   * Waits for a moment for the others to be at iteration `number` too, so that they meet more
   * often.
   */
  meet(number: number): void;
}

/** Case of the stress test, with its allowed results. */
export interface Experiment {
  readonly name: string;
  /** In a sentence. */
  readonly about: string;
  readonly outcomes: readonly Outcome[];
}

export interface StressCase extends Experiment {
  readonly actors: readonly string[];
  /** Bugs that this case must find: canaries, in words. */
  readonly planted: readonly string[];
  create(): Shared;
  play(actor: number, shared: Shared, run: ActorRun): void | Promise<void>;
}
