// The ordinary case: a fresh server, one workload, throughput and latency.
import { setTimeout as sleep } from "node:timers/promises";
import { NO_MARKS } from "../load/load-source.ts";
import type { Workload } from "../load/workload.ts";
import type { Figures } from "../result/figures.ts";
import { type RunningServer, ServerRefused } from "../server/contender.ts";
import { type BenchCase, type Goal, startFlags, type TurnContext } from "./bench-case.ts";
import { measuredLoad } from "./measured-load.ts";

const FIRST_HALF_SECOND = { seconds: 0.5, warmupSeconds: 0 } as const;

export interface LoadCaseExtras {
  /** The scenario's name unless told otherwise. */
  readonly group?: string;
  /** With it the servers keep a log, whatever the command line says. */
  readonly fsync?: string;
  readonly goal?: Goal;
  /** Measures the first half second after the server's start, with nothing before it. */
  readonly isFresh?: boolean;
}

export function loadCase(workload: Workload, more: LoadCaseExtras = {}): BenchCase {
  const log = more.fsync === undefined ? "" : `-f${more.fsync}`;
  const needsC = workload.processes > 0 || more.isFresh === true;
  const asked = more.isFresh === true ? { ...workload, ...FIRST_HALF_SECOND } : workload;
  return {
    key: keyOf(workload) + log + (more.isFresh === true ? "-fresh" : ""),
    title:
      titleOf(workload) +
      (more.fsync === undefined ? "" : `, -b -f ${more.fsync}`) +
      (more.isFresh === true ? ", first half second after a start" : ""),
    group: more.group ?? workload.scenario,
    workload: asked,
    headline: "commandsPerSecond",
    ...(more.goal === undefined ? {} : { goal: more.goal }),
    async measure(context) {
      // Node workers can't be separate processes, and warm up on the server that they measure.
      if (needsC && context.load.name !== "native")
        throw new ServerRefused("this needs the generator in C: npm run bench:native");
      const server = await context.contender.start(startFlags(context, more.fsync));
      try {
        const { result, figures } = await measuredLoad(context.load, server, asked);
        if (!context.contender.canStart) await cleanUp(context, server, workload);
        const latency = result.metrics.get("command");
        const shown = { ...figures, ...detailFigures(workload, result.metrics) };
        return latency ? { figures: shown, latency } : { figures: shown };
      } finally {
        await server.stop();
      }
    },
  };
}

/** A server that we can't stop gets its tubes emptied. */
async function cleanUp(context: TurnContext, server: RunningServer, workload: Workload): Promise<void> {
  const drain: Workload = {
    ...workload,
    scenario: "drain",
    connections: Math.max(workload.connections, workload.tubes), // connection i empties tube i
    pipeline: 16,
    seconds: 60,
    warmupSeconds: 0,
    rate: 0,
    jobs: 0,
  };
  if (workload.scenario === "delayed") await sleep((workload.delaySeconds + 1) * 1000);
  await context.load.run(server.address, drain, NO_MARKS);
}

type Metrics = Awaited<ReturnType<typeof measuredLoad>>["result"]["metrics"];

function detailFigures(workload: Workload, metrics: Metrics): Figures {
  if (workload.scenario !== "tubes" && workload.scenario !== "delayed") return {};
  const put = metrics.get("put");
  const delivery = metrics.get("delivery");
  return {
    ...(put ? { putP50: put.percentileMicros(50), putP99: put.percentileMicros(99) } : {}),
    ...(delivery
      ? { deliveryP50: delivery.percentileMicros(50), deliveryP99: delivery.percentileMicros(99) }
      : {}),
  };
}

function keyOf(w: Workload): string {
  const parts = [w.scenario, `${w.connections}x${w.pipeline}`, `${w.bodyBytes}b`];
  if (w.processes > 0) parts.push(`${w.processes}processes`);
  if (w.tubes > 1) parts.push(`${w.tubes}tubes`);
  if (w.scenario === "tubes") parts.push(`${w.watchers}watchers`);
  if (w.rate > 0) parts.push(`${w.rate}ps`);
  return parts.join("-");
}

function titleOf(w: Workload): string {
  const name = w.scenario.replaceAll("-", w.scenario === "put-reserve-delete" ? "+" : " ");
  const body = w.bodyBytes === 64 ? "" : `, ${bytesTitle(w.bodyBytes)}`;
  const rate = w.rate > 0 ? `, at ${w.rate}/s` : "";
  const processes = w.processes > 0 ? `, from ${w.processes} processes` : "";
  if (w.scenario === "tubes")
    return `${w.tubes} tubes x ${w.watchers} watchers, ${w.connections} x ${w.pipeline}${body}${rate}`;
  return `${name}, ${w.connections} x ${w.pipeline}${body}${w.tubes > 1 ? `, ${w.tubes} tubes` : ""}${processes}${rate}`;
}

function bytesTitle(bytes: number): string {
  if (bytes >= 2 ** 20) return `${bytes / 2 ** 20} MiB`;
  return bytes >= 1024 ? `${bytes / 1024} KiB` : `${bytes} B`;
}
