// Placement: whether shards run in the threads of acceptors (together) or each role has its own
// thread (apart), and the number of threads.
//
// Together, a command never waits until another thread wakes. That takes less CPU per command, and
// is best when cores are scarce. Apart, an acceptor and a shard work on a deep pipeline in
// parallel. That needs a core for each, and some for the clients and the log. bench/README.md,
// "placement", compares them.
//
// The log has its own thread, so that nothing else waits while it writes, syncs and releases space.
// If there is a single serving thread, cores are scarce, and the log runs in that thread: otherwise
// a command waits longer for cores than for the disk ("what made it fast" there).

import type { Placement } from "../../message/topology.ts";

/** Cores to leave for clients and the log, if there are more. */
const CORES_LEFT = 1;

export interface ChosenPlacement {
  readonly placement: Placement;
  /** Number of serving threads. */
  readonly threads: number;
  /** Cores that the process may use. */
  readonly cores: number;
  /** Whether the log runs in the serving thread. */
  readonly hasResidentLog: boolean;
  /** Explanation for the start line. */
  readonly why: string;
}

interface PlacementOptions {
  readonly shards: number;
  readonly acceptors: number;
  readonly placement: Placement | "auto";
  /** Threads with `together`; by default as many as pay off. */
  readonly threads?: number | undefined;
  /** Undefined without a log. */
  readonly log?: LogPlacementOptions | undefined;
}

export interface LogPlacementOptions {
  readonly placement: Placement | "auto";
  /** In a group, the log follows others before it leads, and has more to do than its own disk. */
  readonly isInGroup: boolean;
}

export function choosePlacement(options: PlacementOptions, cores: number): ChosenPlacement {
  const { shards, acceptors } = options;
  const isRoomy = cores >= shards + acceptors + CORES_LEFT;
  const chosen = isRoomy && options.threads === undefined ? "apart" : "together";
  const placement = options.placement === "auto" ? chosen : options.placement;
  // Beyond this, a thread without a core of its own gains less than commands to shards on other
  // threads cost.
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
  return log !== undefined && !log.isInGroup && log.placement !== "apart";
}
