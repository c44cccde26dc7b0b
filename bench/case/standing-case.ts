// Case of rare slow replies while many jobs exist, caused by garbage collection or growing tables.
import type { Workload } from "../load/workload.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";
import { fill } from "./fill.ts";
import { measuredLoad } from "./measured-load.ts";

/**
 * The jobs stand in the tube of the load, which takes the oldest of them and puts new ones: as many
 * as before remain.
 */
export function standingCase(jobs: number, workload: Workload): BenchCase {
  return {
    key: `standing-${jobs}`,
    title: `put+reserve+delete, ${workload.connections} x ${workload.pipeline}, ${jobs} jobs standing by, ${workload.seconds} s`,
    group: "standing",
    workload: { ...workload, jobs },
    headline: "p999",
    turnsMax: 1,
    async measure(context) {
      const server = await context.contender.start(startFlags(context));
      try {
        await fill(context.load, server.address, jobs, workload.bodyBytes);
        const { result, figures } = await measuredLoad(context.load, server, workload);
        const latency = result.metrics.get("command");
        return latency ? { figures, latency } : { figures };
      } finally {
        await server.stop();
      }
    },
  };
}
