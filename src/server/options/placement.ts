// Whether shards live in the threads of acceptors, or each role has a thread of its own; and how many threads there are.
//
// Together a command never waits for another thread to wake: less processor a command, and the choice where cores are
// scarce. Apart, an acceptor and a shard work on a deep pipeline at the same time, if each really has a core and the
// clients and the log have some left. To compare them: bench/README.md, "placement".
//
// The log has a thread of its own, so that nobody else waits while it writes, syncs and gives back room. Where every reply
// waits for a sync (-f 0) and one thread serves, it lives there: on its way to another thread and back a command waited
// longer for cores than for the disk ("what made it fast" there).

import type { Placement } from "../../message/topology.ts";

/** Cores that should be left for clients and the log, where there are more. */
const CORES_LEFT = 1;

export interface ChosenPlacement {
  readonly placement: Placement;
  /** Threads that serve. */
  readonly threads: number;
  /** Cores that the process may use. */
  readonly cores: number;
  /** Whether the log lives in the thread that serves. */
  readonly hasResidentLog: boolean;
  /** For the line at the start. */
  readonly why: string;
}

export interface PlacementOptions {
  readonly shards: number;
  readonly acceptors: number;
  readonly placement: Placement | "auto";
  /** Threads of `together`; as many as pay, if it is left out. */
  readonly threads?: number | undefined;
  /** If there is one. */
  readonly log?: LogPlacementOptions | undefined;
}

export interface LogPlacementOptions {
  readonly placement: Placement | "auto";
  /** Whether replies wait for syncs. */
  readonly repliesWaitForSync: boolean;
  /** In a group it follows others before it leads, and has more to do than its own disk. */
  readonly isInGroup: boolean;
}

export function choosePlacement(options: PlacementOptions, cores: number): ChosenPlacement {
  const { shards, acceptors } = options;
  const isRoomy = cores >= shards + acceptors + CORES_LEFT;
  const chosen = isRoomy && options.threads === undefined ? "apart" : "together";
  const placement = options.placement === "auto" ? chosen : options.placement;
  // A command for a shard of another thread costs more than a thread without a core of its own brings.
  const pays = Math.min(acceptors, Math.max(1, cores - CORES_LEFT));
  const threads = placement === "together" ? (options.threads ?? pays) : shards + acceptors;
  const reason =
    options.placement === "auto" ? `${cores} usable ${cores === 1 ? "core" : "cores"}` : "as asked";
  const hasResidentLog = placement === "together" && threads === 1 && isResident(options.log);
  const where = threads === 1 ? "in 1 thread" : `in ${threads} threads`;
  const withLog = hasResidentLog ? ", with the log" : "";
  return { placement, threads, cores, hasResidentLog, why: `${placement} ${where}${withLog} (${reason})` };
}

function isResident(log: LogPlacementOptions | undefined): boolean {
  if (log === undefined || log.isInGroup || log.placement === "apart") return false;
  return log.placement === "together" || log.repliesWaitForSync;
}
