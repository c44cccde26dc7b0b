// Case of latency at shares of the maximum throughput: the knee, and 80 % of each server's own
// maximum.
import type { LoadSource } from "../load/load-source.ts";
import type { Workload } from "../load/workload.ts";
import type { SweepPoint } from "../result/measurement.ts";
import type { RunningServer } from "../server/contender.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";
import { measuredLoad } from "./measured-load.ts";

const SHARES = [0.2, 0.4, 0.6, 0.8, 0.9, 1, 1.1];
const SHOWN_SHARE = 0.8;
/**
 * Under load before the limit is measured: a tail is that of a server that runs, not of one whose
 * code is being compiled.
 */
const WARMUP_SECONDS = 4;

export function sweepCase(workload: Workload): BenchCase {
  return {
    ...atOwnRates(workload, SHARES),
    key: `rate-sweep-${shapeOf(workload)}`,
    title: `rate sweep, put+reserve+delete, ${titleOf(workload)}: at 80 % of its own limit`,
    group: "rate-sweep",
    turnsMax: 1,
  };
}

export function p99At80Case(workload: Workload): BenchCase {
  return {
    ...atOwnRates(workload, [SHOWN_SHARE]),
    key: `p99-at-80-${shapeOf(workload)}`,
    title: `p99 of put+reserve+delete, ${titleOf(workload)}, at 80 % of its own limit`,
    group: "p99-at-80",
  };
}

const shapeOf = ({ connections, pipeline }: Workload): string => `${connections}x${pipeline}`;
const titleOf = ({ connections, pipeline }: Workload): string => `${connections} x ${pipeline}`;

/** The figures are those at 80 %, which must be among `shares`. */
function atOwnRates(
  workload: Workload,
  shares: readonly number[],
): Pick<BenchCase, "workload" | "headline" | "measure"> {
  return {
    workload,
    headline: "p99",
    async measure(context) {
      const server = await context.contender.start(startFlags(context));
      try {
        const sweep = await sweepOf(context.load, server, workload, shares);
        const { commandsPerSecond, p50, p99, p999 } = sweep[shares.indexOf(SHOWN_SHARE)]!;
        return { figures: { commandsPerSecond, p50, p99, p999 }, sweep };
      } finally {
        await server.stop();
      }
    },
  };
}

async function sweepOf(
  load: LoadSource,
  server: RunningServer,
  workload: Workload,
  shares: readonly number[],
): Promise<SweepPoint[]> {
  const warmupSeconds = Math.max(workload.warmupSeconds, WARMUP_SECONDS);
  const { figures: limit } = await measuredLoad(load, server, { ...workload, warmupSeconds, rate: 0 });
  const sweep: SweepPoint[] = [];
  for (const share of shares) {
    const rate = Math.round(limit.commandsPerSecond! * share);
    const { figures } = await measuredLoad(load, server, { ...workload, rate });
    const { commandsPerSecond, p50, p99, p999 } = figures;
    sweep.push({ rate, commandsPerSecond: commandsPerSecond!, p50: p50!, p99: p99!, p999: p999! });
  }
  return sweep;
}
