// Thread of one actor: installs the pauses, then loads the case and plays its part.

import { parentPort, workerData } from "node:worker_threads";
import { monotonicMs } from "../../src/ring/monotonic-clock.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { ActorControl } from "./actor-control.ts";
import type { ActorRun, Shared } from "./case.ts";
import { injectPauses } from "./pauses.ts";

export interface ActorData {
  readonly name: string;
  readonly planted: string | undefined;
  readonly actor: number;
  readonly seed: number;
  readonly iterationsMax: number;
  readonly shared: Shared;
  readonly control: SharedArrayBuffer;
}

/** Report of an actor. */
export interface ActorReport {
  readonly counts: ReadonlyMap<string, number>;
  /** Details of forbidden results. */
  readonly details: readonly string[];
  readonly iterations: number;
  readonly pauses: number;
}

const data = workerData as ActorData;
const pauses = injectPauses(data.seed, monotonicMs);
const { caseNamed } = await import("./cases.ts");
const played = caseNamed(data.name);
const control = new ActorControl(played.actors.length, data.control);
const allowed = new Set(played.outcomes.map(({ result }) => result));
const counts = new Map<string, number>();
const details: string[] = [];
let iterations = 0;

const run: ActorRun = {
  planted: data.planted,
  random: new SeededRandom(data.seed),
  actors: played.actors.length,
  see(result, detail = "") {
    counts.set(result, (counts.get(result) ?? 0) + 1);
    if (allowed.has(result)) return;
    details.push(`${played.actors[data.actor]}: ${result}${detail === "" ? "" : `: ${detail}`}`);
    control.fail();
  },
  next() {
    if (++iterations >= data.iterationsMax) control.stop();
    return !control.stopped;
  },
  get failed() {
    return control.failed;
  },
  barrier: () => control.barrier(),
  meet: (number) => control.meet(data.actor, number),
};

control.barrier();
parentPort!.postMessage("started");
try {
  await played.play(data.actor, data.shared, run);
} catch (error) {
  // An assertion of the sources is a check like those of the case.
  if (!(error instanceof Error) || !error.message.startsWith("broken invariant")) throw error;
  run.see(error.message);
}
const report: ActorReport = { counts, details, iterations, pauses: pauses.made };
parentPort!.postMessage(report);
