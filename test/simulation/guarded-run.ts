// Runs seeds in a separate thread, and ends it if a step takes too much time or memory.

import { Worker } from "node:worker_threads";

export interface SeedRun {
  readonly firstSeed: number;
  readonly count: number;
  readonly steps: number;
  readonly only: ReadonlySet<number> | undefined;
  /** Look for a shorter run that fails. */
  readonly shrink: boolean;
  /** Breaks the servers, for the test of the guard: runs in a circle, or fills memory. */
  readonly fault?: "circle" | "memory";
}

/** Data of the thread; `progress` are float64: the seed, and the step, counted over all runs. */
export interface SeedRunnerData extends SeedRun {
  readonly progress: SharedArrayBuffer;
}

interface GuardedResult {
  readonly exitCode: number;
  /** Place at which it had to be ended, and the reason. */
  readonly aborted?: { readonly seed: number; readonly step: number; readonly why: string };
}

interface Limits {
  /** A step of a simulation takes milliseconds. */
  readonly stepMsMax: number;
  /** A simulation takes some hundred MiB. */
  readonly heapMebibytesMax: number;
}

const LIMITS: Limits = { stepMsMax: 60_000, heapMebibytesMax: 2048 };
const LOOK_MS = 250;
/**
 * A busy machine may take long to load the thread: until its first step it has at least so long.
 */
const LOAD_MS_MAX = 60_000;

/** Resolves when the thread has ended, by itself or not. */
export async function runGuarded(run: SeedRun, limits: Limits = LIMITS): Promise<GuardedResult> {
  const progress = new SharedArrayBuffer(24);
  const words = new Float64Array(progress);
  const data: SeedRunnerData = { ...run, progress };
  const worker = new Worker(new URL("./seed-runner.ts", import.meta.url), {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: limits.heapMebibytesMax },
  });
  let why: string | undefined;
  let [lastSteps, sinceMs] = [-1, performance.now()];
  const look = setInterval(() => {
    if (words[2] !== lastSteps) [lastSteps, sinceMs] = [words[2]!, performance.now()];
    else if (performance.now() - sinceMs > (lastSteps > 0 ? limits.stepMsMax : LOAD_MS_MAX)) {
      why = `one step takes more than ${limits.stepMsMax / 1000} s: something runs in a circle`;
      void worker.terminate();
    }
  }, LOOK_MS);
  worker.on("error", (error: Error & { code?: string }) => {
    const outOfMemory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
    why ??= outOfMemory ? `more than ${limits.heapMebibytesMax} MiB of memory` : `${error.stack ?? error}`;
  });
  const exitCode = await new Promise<number>((resolve) => worker.once("exit", resolve));
  clearInterval(look);
  if (why === undefined) return { exitCode };
  return { exitCode: 1, aborted: { seed: words[0]!, step: words[1]!, why } };
}
