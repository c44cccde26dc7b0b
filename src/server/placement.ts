// Whether shards live in the threads of acceptors, or each role has a thread of its own; and how many threads there are.
//
// Together a command never waits for another thread to wake: less processor a command, and the choice where cores are
// scarce. Apart, an acceptor and a shard work on a deep pipeline at the same time, if each really has a core and the
// clients and the log have some left. To compare them: bench/README.md, "placement".

import type { Placement } from "../message/topology.ts";

/** Cores that should be left for clients and the log, where there are more. */
const CORES_LEFT = 1;

export interface ChosenPlacement {
  readonly placement: Placement;
  /** Threads that serve. */
  readonly threads: number;
  /** Cores that the process may use. */
  readonly cores: number;
  /** For the line at the start. */
  readonly why: string;
}

export interface PlacementOptions {
  readonly shards: number;
  readonly acceptors: number;
  readonly placement: Placement | "auto";
  /** Threads of `together`; as many as pay, if it is left out. */
  readonly threads?: number | undefined;
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
  const where = threads === 1 ? "in 1 thread" : `in ${threads} threads`;
  return { placement, threads, cores, why: `${placement} ${where} (${reason})` };
}
