// Backlog case: puts many jobs, then drains them, and checks whether the memory is freed.
import { setTimeout as sleep } from "node:timers/promises";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import { ServerRefused } from "../server/contender.ts";
import { processUsage } from "../server/process-usage.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";
import { fill } from "./fill.ts";
import { measuredLoad } from "./measured-load.ts";

const SETTLE_MS = 3000; // for memory to be given back
const DRAIN_SECONDS_MAX = 600;

export function backlogCase(jobs: number): BenchCase {
  return {
    key: `backlog-${jobs}`,
    title: `backlog of ${jobs} jobs, put and drained`,
    group: "backlog",
    workload: { ...WORKLOAD_DEFAULTS, scenario: "drain", jobs },
    headline: "drainedBytes",
    turnsMax: 1,
    async measure(context) {
      if (!context.contender.canStart)
        throw new ServerRefused("the memory of a server elsewhere can't be seen");
      const server = await context.contender.start(startFlags(context));
      try {
        const put = await fill(context.load, server.address, jobs);
        const fullBytes = processUsage(server.pid!).residentBytes;
        const drain = {
          ...WORKLOAD_DEFAULTS,
          scenario: "drain",
          connections: 20,
          pipeline: 50,
          seconds: DRAIN_SECONDS_MAX,
          warmupSeconds: 0,
        } as const;
        const { figures } = await measuredLoad(context.load, server, drain);
        await sleep(SETTLE_MS);
        return {
          figures: {
            putPerSecond: put.commands / put.seconds,
            drainPerSecond: figures.commandsPerSecond!,
            fullBytes,
            drainedBytes: processUsage(server.pid!).residentBytes,
          },
        };
      } finally {
        await server.stop();
      }
    },
  };
}
