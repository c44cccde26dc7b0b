// One case as a line of JSON, for results files and the table in docs/figures.md.
import type { BenchCase } from "../case/bench-case.ts";
import type { Workload } from "../load/workload.ts";
import type { FigureName } from "./figures.ts";
import type { Machine } from "./machine.ts";
import type { Spreads, SweepPoint } from "./measurement.ts";
import { type CaseOutcome, ratioTo } from "./outcome.ts";

export interface RunFacts {
  /** The same for all lines of one run: when it began. */
  readonly run: string;
  readonly generator: string;
  readonly machine: Machine;
  readonly flags: string;
}

export interface ResultLine extends RunFacts {
  readonly key: string;
  readonly title: string;
  readonly headline: FigureName;
  readonly workload?: Workload;
  /** Beside server and load, from the server's start to its end. */
  readonly busyLoops?: number;
  readonly servers: readonly {
    readonly server: string;
    readonly description: string;
    readonly isOurs: boolean;
    readonly skipped?: string;
    readonly figures: Spreads;
    /** HDR histogram, compressed, in tenths of a microsecond. */
    readonly latency?: string;
    readonly sweep?: readonly SweepPoint[];
  }[];
  /** Ratios of the first server to each other one; above 1 the first is better. */
  readonly ratios: readonly number[];
}

export function resultLine(facts: RunFacts, outcome: CaseOutcome): ResultLine {
  const { key, title, headline, workload, busyLoops }: BenchCase = outcome.benchCase;
  const servers = outcome.servers.map(
    ({ server, description, isOurs, skipped, spreads, latency, sweep }) => ({
      server,
      description,
      isOurs,
      ...(skipped === undefined ? {} : { skipped }),
      figures: spreads,
      ...(latency ? { latency: latency.encode() } : {}),
      ...(sweep ? { sweep } : {}),
    }),
  );
  const ratios = outcome.servers.slice(1).map((_, index) => ratioTo(outcome, index + 1) ?? 0);
  return {
    ...facts,
    key,
    title,
    headline,
    ...(workload ? { workload } : {}),
    ...(busyLoops === undefined ? {} : { busyLoops }),
    servers,
    ratios,
  };
}
