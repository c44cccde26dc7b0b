// A planted bug: a server broken from outside, in the test tree only.

import type { Engine } from "../../../src/engine/engine.ts";
import type { InProcessOptions } from "../server/in-process-options.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import type { SimulationOptions } from "../simulation-state.ts";

export interface PlantedBug {
  readonly name: string;
  readonly options: Pick<
    SimulationOptions,
    | "createServer"
    | "plant"
    | "extensions"
    | "policies"
    | "jobMoves"
    | "durable"
    | "weights"
    | "flows"
    | "duplicates"
    | "cancels"
    | "fills"
    | "oneGroups"
    | "clockSteps"
  >;
}

/** True at every `n`th call. */
export function everyNth(n: number): () => boolean {
  let calls = 0;
  return () => ++calls % n === 0;
}

/** A bug put into each server after it is made. */
export function planted(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  return { name, options: { plant } };
}

/** The same, to be found with commands that beanstalkd does not have. */
export function plantedInExtension(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  return { name, options: { plant, extensions: true } };
}

/** A bug that lives in a kind of server of its own. */
export function plantedIn(
  name: string,
  createServer: (settings: InProcessOptions) => InProcessServer,
): PlantedBug {
  return { name, options: { createServer } };
}

/** Breaks each engine of a server. */
export const inEachEngine =
  (plant: (engine: Engine) => void) =>
  ({ shards }: InProcessServer): void => {
    for (const { engine } of shards) plant(engine);
  };
