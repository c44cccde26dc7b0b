// What the page and its worker tell each other.

import type { Fault } from "../../simulation/faults.ts";
import type { Snapshot } from "./snapshot.ts";

/**
 * Words that both share. The worker blocks in the middle of a run to keep the pace, so it can't
 * take messages: the page writes here instead.
 */
export const ControlWord = {
  /** Changes with every other word; the worker waits for that. */
  Changes: 0,
  /** 1 while the run goes on. */
  Runs: 1,
  /** Steps of threads a second, 0 for as many as possible. */
  Speed: 2,
  /** Steps of threads to take while the run does not go on. */
  Single: 3,
  /** Index of the fault to inject at the next step, plus 1; 0 for none. */
  Fault: 4,
} as const;

export const CONTROL_WORDS = 5;

export type FaultAt = readonly [step: number, fault: Fault];

/** What the page sends once, before the worker blocks. */
export interface Order {
  readonly control: SharedArrayBuffer;
  readonly seed: number;
  readonly steps: number;
  /** Name of the planted bug, or "". */
  readonly bug: string;
  /** Look for the first seed from `seed` on at which the bug is found, without pictures. */
  readonly search: boolean;
  /** Until this step the run is as fast as possible. */
  readonly paceFrom: number;
  /** Faults that were injected by hand in an earlier run of this seed. */
  readonly faults: readonly FaultAt[];
}

export interface WatchedResult {
  /** What was found; undefined if the run went well. */
  readonly found: string | undefined;
  /** The step of the run at which it ended. */
  readonly step: number;
  readonly schedulerSteps: number;
  readonly processes: number;
  readonly clients: number;
  readonly digest: string;
}

/** What the worker tells the page. */
export type Told =
  | { readonly kind: "ready"; readonly bugs: readonly string[] }
  | { readonly kind: "picture"; readonly picture: Snapshot; readonly step: number; readonly acts: string[] }
  | { readonly kind: "fault"; readonly step: number; readonly fault: Fault }
  | { readonly kind: "searching"; readonly seed: number }
  | {
      readonly kind: "end";
      readonly seed: number;
      readonly result: WatchedResult;
      readonly isSearch: boolean;
    };
