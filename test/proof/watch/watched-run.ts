// Runs a seed of the simulator of test/simulation, watched: in Node for tests, in a worker for the
// page.

import type { Fault } from "../../simulation/faults.ts";
import { InProcessServer } from "../../simulation/server/in-process-server.ts";
import { simulate } from "../../simulation/simulation.ts";
import type { SimulationOptions } from "../../simulation/simulation-state.ts";
import type { WatchedResult } from "./control.ts";
import { Digest } from "./digest.ts";
import { ObservedServer } from "./observed-server.ts";

interface WatchedOptions {
  readonly seed: number;
  readonly steps: number;
  /** Of a planted bug. */
  readonly planted?: Partial<SimulationOptions> | undefined;
  readonly faultAt?: (step: number) => Fault | undefined;
  /** Told when another process of the server has started. */
  readonly onServer?: (observed: ObservedServer) => void;
  readonly onStep?: (step: number) => void;
  readonly onAct?: (what: string) => void;
  /** Called after each step of a thread. */
  readonly onThread?: () => void;
}

const STILL: NodeJS.ResourceUsage = {
  ...{ userCPUTime: 0, systemCPUTime: 0, maxRSS: 0, sharedMemorySize: 0, unsharedDataSize: 0 },
  ...{ unsharedStackSize: 0, minorPageFault: 0, majorPageFault: 0, swappedOut: 0, fsRead: 0, fsWrite: 0 },
  ...{ ipcSent: 0, ipcReceived: 0, signalsCount: 0, voluntaryContextSwitches: 0 },
  involuntaryContextSwitches: 0,
};

/** Plays a seed to its end, or to what is found. */
export async function watchRun(options: WatchedOptions): Promise<WatchedResult> {
  const { seed, steps, planted = {}, faultAt, onAct } = options;
  const digest = new Digest();
  const observed: ObservedServer[] = [];
  const sum = (of: (each: ObservedServer) => number): number =>
    observed.reduce((all, each) => all + of(each), 0);
  let at = 0;
  const found = await findOf(() =>
    simulate({
      ...{ seed, steps },
      ...planted,
      createServer: (settings) => {
        const server = planted.createServer?.(settings) ?? new InProcessServer(settings);
        const made = new ObservedServer(
          server,
          {
            process: observed.length + 1,
            stepsBefore: sum((each) => each.server.stepsTaken),
            firstClient: 1 + sum((each) => each.clientsMade),
          },
          digest,
          options.onThread ?? (() => {}),
        );
        observed.push(made);
        options.onServer?.(made);
        return server;
      },
      onStep: (step) => {
        at = step;
        options.onStep?.(step);
      },
      ...(onAct === undefined ? {} : { onAct }),
      ...(faultAt === undefined ? {} : { faultAt }),
    }),
  );
  return {
    found,
    step: at,
    schedulerSteps: sum((each) => each.server.stepsTaken),
    processes: observed.length,
    clients: sum((each) => each.clientsMade),
    digest: digest.hex,
  };
}

/** Longer values are cut off. */
const SHOWN_CHARACTERS = 400;

/** The message of a find; behind its first line, what the server has and what the model expects. */
function described(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [first = "", ...rest] = error.message.split("\n");
  const { actual, expected } = (error.cause ?? {}) as { actual?: unknown; expected?: unknown };
  const shown = (value: unknown): string => {
    const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
    return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
  };
  const compared =
    actual === expected ? [] : [`  is:        ${shown(actual)}`, `  should be: ${shown(expected)}`];
  return [first, ...compared, ...rest].join("\n");
}

async function findOf(run: () => Promise<unknown>): Promise<string | undefined> {
  // The processor time in a reply to `stats` is all that a seed does not draw: it stands still.
  const { resourceUsage } = process;
  process.resourceUsage = () => ({ ...STILL });
  try {
    await run();
    return undefined;
  } catch (error) {
    return described(error);
  } finally {
    process.resourceUsage = resourceUsage;
  }
}
