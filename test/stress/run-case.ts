// Runs one case: starts a thread for each actor, ends them in time, and gathers their results.

import { Worker } from "node:worker_threads";
import { ActorControl } from "./actor-control.ts";
import type { ActorData, ActorReport } from "./actor-worker.ts";
import type { Experiment, Shared, StressCase } from "./case.ts";

export interface CaseOptions {
  readonly seed: number;
  readonly seconds: number;
  /** Iterations of one actor after which the run ends. */
  readonly iterationsMax?: number;
  /** Bug to be found. */
  readonly planted?: string;
}

export interface CaseReport {
  readonly played: Experiment;
  readonly counts: ReadonlyMap<string, number>;
  /** Amount of work, in words. */
  readonly size: string;
  /** Results that are not allowed, with detail. */
  readonly forbidden: readonly string[];
  /** Threads that died or were stuck, and what else helps to explain a failure. */
  readonly broken: readonly string[];
  /** Required results that did not happen: the run was too short to show anything. */
  readonly missing: readonly string[];
}

/** A count with commas: 1,234,567. */
export const grouped = (count: number): string => count.toLocaleString("en-GB");

/** Time after the end after which an actor counts as stuck, ms. */
const STUCK_MS = 20_000;
/** Time that the other actors have to end when one is gone, ms. */
const ABANDON_MS = 1000;
const WORDS_SHOWN = 48;

export async function runCase(played: StressCase, options: CaseOptions): Promise<CaseReport> {
  const shared = played.create();
  const control = new ActorControl(played.actors.length);
  const { seed, seconds, iterationsMax = Number.POSITIVE_INFINITY, planted } = options;
  const workers = played.actors.map((_, actor) => {
    // Neighbouring seeds must not give the actors the same pauses one after the other.
    const actorSeed = (Math.imul(seed, 31) + actor * 0x1000193) >>> 0;
    const workerData: ActorData = {
      name: played.name,
      planted,
      actor,
      seed: actorSeed,
      iterationsMax,
      shared,
      control: control.buffer,
    };
    return new Worker(new URL("./actor-worker.ts", import.meta.url), { workerData });
  });
  let stop: NodeJS.Timeout | undefined;
  const started = (): void => {
    stop ??= setTimeout(() => control.stop(), seconds * 1000);
  };
  const abandon = (): void => {
    control.fail();
    // The others may wait for the one that is gone.
    setTimeout(() => workers.forEach((worker) => void worker.terminate()), ABANDON_MS).unref();
  };
  const reports = await Promise.all(
    workers.map((worker, actor) =>
      ending(worker, played.actors[actor]!, seconds * 1000 + STUCK_MS, started, abandon),
    ),
  );
  clearTimeout(stop);
  const counts = new Map<string, number>();
  const forbidden: string[] = [];
  const broken: string[] = [];
  for (const report of reports) {
    if (typeof report === "string") broken.push(report);
    else {
      forbidden.push(...report.details);
      for (const [result, count] of report.counts) counts.set(result, (counts.get(result) ?? 0) + count);
    }
  }
  if (forbidden.length + broken.length > 0) broken.push(...wordsOf(shared));
  const whole = reports.filter((report) => typeof report !== "string");
  const iterations = Math.max(0, ...whole.map((report) => report.iterations));
  const pauses = whole.reduce((sum, report) => sum + report.pauses, 0);
  return {
    played,
    counts,
    size: `${grouped(iterations)} iterations, ${grouped(pauses)} pauses`,
    forbidden,
    broken,
    missing: missingOf(played, counts),
  };
}

/** Returns whether all that came of a run is allowed, and all that is required came. */
export const hasPassed = ({ forbidden, broken, missing }: CaseReport): boolean =>
  forbidden.length + broken.length + missing.length === 0;

/** The required results that did not happen. */
export function missingOf({ outcomes }: Experiment, counts: ReadonlyMap<string, number>): string[] {
  return outcomes
    .filter(({ result, required }) => required && !counts.has(result))
    .map(({ result }) => result);
}

/** Returns the report of an actor, or the reason why there is none. */
async function ending(
  worker: Worker,
  actor: string,
  limitMs: number,
  started: () => void,
  abandon: () => void,
): Promise<ActorReport | string> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<ActorReport | string>((resolve) => {
      const broken = (why: string): void => {
        abandon();
        resolve(`${actor} ${why}`);
      };
      timer = setTimeout(() => broken("is stuck: it has not ended"), limitMs);
      worker.on("message", (message: "started" | ActorReport) =>
        message === "started" ? started() : resolve(message),
      );
      worker.once("error", (error) => broken(`threw ${error instanceof Error ? error.stack : error}`));
      worker.once("exit", (code) => broken(`ended with code ${code} and said nothing`));
    });
  } finally {
    clearTimeout(timer);
    await worker.terminate();
  }
}

/** The first words of all shared memory, for a failure. */
function wordsOf(shared: Shared): string[] {
  return Object.entries(shared).map(([name, buffer]) => {
    const words = new Int32Array(buffer).subarray(0, WORDS_SHOWN);
    const shown = [...words].flatMap((word, index) => (word === 0 ? [] : [`[${index}]=${word}`]));
    return `words of ${name}: ${shown.join(" ") || "all 0"}${buffer.byteLength > WORDS_SHOWN * 4 ? " …" : ""}`;
  });
}
