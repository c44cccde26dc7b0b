// The knee: latency at rising rates, each as a share of what the server reached without a rate.
import type { Workload } from "../load/workload.ts";
import type { SweepPoint } from "../result/measurement.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";
import { measuredLoad } from "./measured-load.ts";

const SHARES = [0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.1];

export function sweepCase(workload: Workload): BenchCase {
  return {
    key: `rate-sweep-${workload.connections}x${workload.pipeline}`,
    title: `rate sweep, put+reserve+delete, ${workload.connections} x ${workload.pipeline}: at 80 % of its own limit`,
    group: "rate-sweep",
    workload,
    headline: "p99",
    turnsMax: 1,
    async measure(context) {
      const server = await context.contender.start(startFlags(context));
      try {
        const { figures: limit } = await measuredLoad(context.load, server, { ...workload, rate: 0 });
        const sweep: SweepPoint[] = [];
        for (const share of SHARES) {
          const rate = Math.round(limit.commandsPerSecond! * share);
          const { figures } = await measuredLoad(context.load, server, { ...workload, rate });
          const { commandsPerSecond, p50, p99, p999 } = figures;
          sweep.push({ rate, commandsPerSecond: commandsPerSecond!, p50: p50!, p99: p99!, p999: p999! });
        }
        const { commandsPerSecond, p50, p99, p999 } = sweep[SHARES.indexOf(0.8)]!;
        return { figures: { commandsPerSecond, p50, p99, p999 }, sweep };
      } finally {
        await server.stop();
      }
    },
  };
}
