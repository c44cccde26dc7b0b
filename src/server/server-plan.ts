// Plan of a server from its options: placement of threads, shared memory, process facts.

import { randomBytes } from "node:crypto";
import { hostname, machine, version as osVersion } from "node:os";
import type { ProcessFacts } from "../acceptor/state/stats-text.ts";
import { createTopology, type Topology } from "../message/topology.ts";
import { LogWord } from "../ring/log-words.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { ExitCode, OperatorError } from "./options/operator-error.ts";
import type { Options } from "./options/options.ts";
import { type ChosenPlacement, choosePlacement, type LogPlacementOptions } from "./options/placement.ts";
import { usableCores } from "./options/usable-cores.ts";
import { VERSION } from "./options/version.ts";

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
