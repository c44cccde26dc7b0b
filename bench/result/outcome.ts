// All turns of a case, server by server.
import type { BenchCase } from "../case/bench-case.ts";
import { Latency } from "../load/latency.ts";
import type { Contender } from "../server/contender.ts";
import { FIGURES } from "./figures.ts";
import { type Measurement, type Spreads, type SweepPoint, spreadsOf } from "./measurement.ts";

export interface ServerOutcome {
  readonly server: string;
  readonly description: string;
  readonly isOurs: boolean;
  readonly spreads: Spreads;
  /** Over all turns. */
  readonly latency?: Latency;
  readonly sweep?: readonly SweepPoint[];
  /** Why there is nothing. */
  readonly skipped?: string;
}

export interface CaseOutcome {
  readonly benchCase: BenchCase;
  /** Ours first. */
  readonly servers: readonly ServerOutcome[];
}

export function serverOutcome(
  server: Pick<Contender, "name" | "description" | "isOurs">,
  measurements: readonly Measurement[],
  skipped?: string,
): ServerOutcome {
  const { name, description, isOurs } = server;
  const base = { server: name, description, isOurs, spreads: spreadsOf(measurements) };
  const latencies = measurements.map(({ latency }) => latency).filter((latency) => latency !== undefined);
  const sweep = measurements.find((measurement) => measurement.sweep)?.sweep;
  return {
    ...base,
    ...(latencies.length > 0 ? { latency: merged(latencies) } : {}),
    ...(sweep ? { sweep } : {}),
    ...(skipped === undefined ? {} : { skipped }),
  };
}

function merged(latencies: Latency[]): Latency {
  const all = new Latency();
  for (const latency of latencies) all.add(latency);
  return all;
}

/**
 * How many times better the first server is than the other, by the case's headline; undefined if
 * one has no figure.
 */
export function ratioTo(outcome: CaseOutcome, other: number): number | undefined {
  const { headline } = outcome.benchCase;
  const ours = outcome.servers[0]?.spreads[headline]?.median;
  const theirs = outcome.servers[other]?.spreads[headline]?.median;
  if (!ours || !theirs) return undefined;
  return FIGURES[headline].better === "more" ? ours / theirs : theirs / ours;
}
