// Case of resident memory per ready job of 64 bytes.
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import { ServerRefused } from "../server/contender.ts";
import { processUsage } from "../server/process-usage.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";
import { fill } from "./fill.ts";

export function memoryCase(jobs: number): BenchCase {
  return {
    key: `memory-${jobs}`,
    title: `memory, ${jobs} jobs of 64 B`,
    group: "memory",
    workload: { ...WORKLOAD_DEFAULTS, scenario: "put", jobs },
    headline: "bytesPerJob",
    turnsMax: 1,
    async measure(context) {
      if (!context.contender.canStart)
        throw new ServerRefused("the memory of a server elsewhere can't be seen");
      const server = await context.contender.start(startFlags(context));
      try {
        // buffers and code that the first jobs bring with them
        await fill(context.load, server.address, 1000);
        const before = processUsage(server.pid!).residentBytes;
        await fill(context.load, server.address, jobs);
        const after = processUsage(server.pid!).residentBytes;
        return { figures: { bytesPerJob: (after - before) / jobs, residentBytes: after } };
      } finally {
        await server.stop();
      }
    },
  };
}
