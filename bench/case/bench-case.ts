// A case of the bench: its name, and how one turn on one server is measured.
import type { LoadSource } from "../load/load-source.ts";
import type { Workload } from "../load/workload.ts";
import type { FigureName } from "../result/figures.ts";
import type { Measurement } from "../result/measurement.ts";
import type { Contender, StartFlags } from "../server/contender.ts";

export interface TurnContext {
  readonly contender: Contender;
  readonly load: LoadSource;
  /** An empty directory for this turn, on the disk that the logs go to. */
  readonly directory: string;
  /** Flags that were asked for on the command line; a case may set its own. */
  readonly flags: { readonly binlog: boolean; readonly fsync?: string };
}

/**
 * Ratios of ours to the servers that it is compared with, in their order: to beanstalkd, then to
 * the fastest fork of it.
 */
export interface Goal {
  readonly needed: readonly number[];
  readonly aim: readonly number[];
}

export interface BenchCase {
  /** Unique, of letters, digits and hyphens. */
  readonly key: string;
  readonly title: string;
  /** What --scenario selects it by. */
  readonly group: string;
  readonly workload?: Workload;
  /** The figure that the ratio is taken of. */
  readonly headline: FigureName;
  /** Fewer turns than asked for, where one takes long and varies little. */
  readonly turnsMax?: number;
  /** Beside server and load, from the server's start to its end. */
  readonly busyLoops?: number;
  readonly goal?: Goal;
  /**
   * Instead of other servers ours with each of these flags, which must reach a share of the
   * default's headline.
   */
  readonly variants?: { readonly flags: readonly (readonly string[])[]; readonly shareMin: number };
  measure(context: TurnContext): Promise<Measurement>;
}

/** The flags of a case that doesn't need a log of its own. */
export function startFlags(context: TurnContext, fsync?: string): StartFlags {
  const chosen = fsync ?? context.flags.fsync;
  if (fsync === undefined && !context.flags.binlog) return {};
  return { binlogDirectory: context.directory, ...(chosen === undefined ? {} : { fsync: chosen }) };
}
