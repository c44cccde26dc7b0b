// Case of the startup time with a log of many jobs.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import { ask, statOf } from "../server/ask.ts";
import { ServerRefused } from "../server/contender.ts";
import { processUsage } from "../server/process-usage.ts";
import type { BenchCase } from "./bench-case.ts";
import { fill } from "./fill.ts";

export function startCase(jobs: number): BenchCase {
  return {
    key: `start-${jobs}`,
    title: `start from a log of ${jobs} jobs`,
    group: "start",
    workload: { ...WORKLOAD_DEFAULTS, scenario: "put", jobs },
    headline: "startSeconds",
    turnsMax: 1,
    async measure(context) {
      if (!context.contender.canStart) throw new ServerRefused("a server elsewhere can't be restarted");
      const flags = { binlogDirectory: context.directory, fsync: "never" };
      const filled = await context.contender.start(flags);
      try {
        await fill(context.load, filled.address, jobs);
      } finally {
        await filled.stop();
      }
      const logBytes = bytesIn(context.directory);
      const server = await context.contender.start(flags);
      try {
        const found = statOf(await ask(server.address, "stats", 10_000), "current-jobs-ready");
        if (found !== jobs) throw new Error(`${found} of ${jobs} jobs are there after the restart`);
        const { residentBytes } = processUsage(server.pid!);
        return { figures: { startSeconds: server.startSeconds, logBytes, residentBytes } };
      } finally {
        await server.stop();
      }
    },
  };
}

/** Blocks in use, so that files written ahead count with what they take. */
function bytesIn(directory: string): number {
  const files = readdirSync(directory).map((name) => statSync(join(directory, name)));
  return files.reduce((total, file) => total + file.blocks * 512, 0);
}
