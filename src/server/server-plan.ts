// Plan of a server from its options: placement of threads, shared memory, process facts.

import { randomBytes } from "node:crypto";
import { hostname, machine, version as osVersion } from "node:os";
import type { ProcessFacts } from "../acceptor/state/stats-text.ts";
import { createTopology, type Placement, type Topology } from "../message/topology.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { LogWord } from "../ring/shared-words.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import type { Options } from "./options/options.ts";
import { VERSION } from "./options/program.ts";
import { usableCores } from "./options/thread-settings.ts";

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

interface LogPlacementOptions {
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

/** Of each ring between an acceptor and a shard. A message has at most a quarter: 256 KiB. */
const RING_BYTES = 1 << 20;

/** Throws an OperatorError if the log can't run where `--log-placement` wants it. */
export function placementFor(options: Options): ChosenPlacement {
  const placement = choosePlacement({ ...options, log: logPlacementOf(options) }, usableCores());
  if (options.binlog !== undefined && options.logPlacement === "together" && !placement.hasResidentLog) {
    throw new OperatorError(
      "--log-placement together: the log can share a thread only if one thread serves, and not in a group; add --placement together --threads 1",
      ExitCode.Usage,
    );
  }
  return placement;
}

function logPlacementOf(options: Options): LogPlacementOptions | undefined {
  const { binlog, logPlacement, replicate } = options;
  if (binlog === undefined) return undefined;
  return { placement: logPlacement, isInGroup: replicate !== undefined };
}

export function topologyFor(
  options: Options,
  { placement, threads, hasResidentLog }: ChosenPlacement,
): Topology {
  const { shards, acceptors, http, protocol, jobBytesMax, migration } = options;
  const { binlog, binlogBytes, fsyncMs, replicate, replicateWait } = options;
  const group = replicate === undefined ? {} : { group: { repliesWait: replicateWait !== "nothing" } };
  const log = {
    repliesWaitFor: fsyncMs === 0 ? LogWord.Synced : LogWord.Written,
    segmentBytes: binlogBytes,
    isResident: hasResidentLog,
    ...group,
  };
  return createTopology({
    shards,
    acceptors,
    http: http !== undefined,
    placement,
    protocol,
    threads,
    jobBytesMax,
    ringBytes: RING_BYTES,
    migration,
    ...(binlog === undefined ? {} : { binlog: log }),
  });
}

export function processFactsOf({ compat, binlogBytes }: Options): ProcessFacts {
  return {
    version: VERSION,
    pid: process.pid,
    instanceId: instanceId(),
    hostname: hostname(),
    os: osVersion(),
    platform: machine(),
    bareFacts: compat === "1.12",
    binlogMaxBytes: binlogBytes,
    startedAtMs: monotonicMs(),
  };
}

/** Returns 16 hex digits that no parser reads as a number: not all digits, and not like 12e3. */
function instanceId(): string {
  for (;;) {
    const id = randomBytes(8).toString("hex");
    if (!/^[0-9]+(e[0-9]+)?$/.test(id)) return id;
  }
}
