// Generating worker: runs its share of the connections through one run. Piscina starts it.
import { setTimeout as sleep } from "node:timers/promises";
import { GeneratorConnection } from "./generator-connection.ts";
import { GeneratorRun } from "./generator-run.ts";
import { SCENARIOS } from "./programs.ts";
import { WorkerControl } from "./worker-control.ts";
import type { WorkerOutcome, WorkerTask } from "./worker-task.ts";

export default async function worker(task: WorkerTask): Promise<WorkerOutcome> {
  const { workload, address } = task;
  const scenario = SCENARIOS[workload.scenario];
  const control = new WorkerControl(task.control);
  const run = new GeneratorRun(workload, scenario, control);
  const total = workload.connections + (scenario.separateWatchers ? workload.watchers : 0);
  const connections: GeneratorConnection[] = [];
  for (let index = 0; index < total; index++) {
    // Dealt in pairs, so that each worker has producers and consumers.
    if (Math.floor(index / 2) % task.workers === task.worker)
      connections.push(new GeneratorConnection(run, index));
  }
  try {
    for (const connection of connections) await connection.open(address);
    control.add("driversLeft", connections.filter((connection) => !connection.isConsumer).length);
    control.add("ready", 1);
    while (control.get("go") === 0) {
      await sleep(1);
      if (control.get("failed") > 0) throw new Error("another generating worker failed");
    }
    return await run.play(connections);
  } catch (error) {
    control.add("failed", 1);
    throw error;
  } finally {
    for (const connection of connections) connection.close();
  }
}
