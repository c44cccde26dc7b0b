// A run of load, with the server's CPU time and memory during its measured part.
import type { LoadResult, LoadSource } from "../load/load-source.ts";
import type { Workload } from "../load/workload.ts";
import type { Figures } from "../result/figures.ts";
import type { RunningServer } from "../server/contender.ts";
import { type ProcessUsage, processUsage } from "../server/process-usage.ts";

interface MeasuredLoad {
  readonly result: LoadResult;
  readonly figures: Figures;
}

export async function measuredLoad(
  load: LoadSource,
  server: RunningServer,
  workload: Workload,
): Promise<MeasuredLoad> {
  let before: ProcessUsage | undefined;
  let after: ProcessUsage | undefined;
  const usage = () => (server.pid === undefined ? undefined : processUsage(server.pid));
  const result = await load.run(server.address, workload, {
    begin: () => {
      before = usage();
    },
    end: () => {
      after = usage();
    },
  });
  if (result.commands === 0) throw new Error("no reply came in the measured part");
  const latency = result.metrics.get("command");
  const figures: Figures = {
    commandsPerSecond: result.commands / result.seconds,
    ...(latency
      ? {
          p50: latency.percentileMicros(50),
          p99: latency.percentileMicros(99),
          p999: latency.percentileMicros(99.9),
          max: latency.maxMicros,
        }
      : {}),
    ...(before && after
      ? {
          cpuPerCommand: ((after.cpuSeconds - before.cpuSeconds) / result.commands) * 1e6,
          residentBytes: after.residentBytes,
        }
      : {}),
  };
  return { result, figures };
}
