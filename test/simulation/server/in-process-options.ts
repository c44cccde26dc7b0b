// Options of a server in one process, and the threads that it schedules.

import type { ProcessFacts } from "../../../src/acceptor/state/stats-text.ts";
import type { Disk } from "../../../src/binlog/disk/disk.ts";
import type { OpenedBinlog } from "../../../src/binlog/open-binlog.ts";
import type { BodyArena } from "../../../src/engine/jobs/body-arena.ts";
import {
  createTopology,
  type Placement,
  type ProtocolName,
  type Topology,
  type TopologyOptions,
} from "../../../src/message/topology.ts";
import { createRing } from "../../../src/ring/ring.ts";
import type { LogWord } from "../../../src/ring/shared-words.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";

export interface InProcessOptions {
  shards: number;
  acceptors: number;
  random: SeededRandom;
  jobBytesMax?: number;
  /** Capacity of each ring. */
  ringBytes?: number;
  /**
   * Probability that a thread is held up at each place where it can be; 0 lets every thread run as
   * long as it has work.
   */
  holdUps?: number;
  /** Probability that a thread without work looks once more before it sleeps. */
  pollChance?: number;
  /** Probability that a ring of a doorbell comes late. */
  lateRings?: number;
  /** Whether doorbells are rung for nothing now and then. */
  strayRings?: boolean;
  /** Whether shards live in the threads of acceptors; apart if it is left out. */
  placement?: Placement;
  /** Threads of `together`. */
  threads?: number;
  /** Probability that an acceptor takes a connection whose tube lives beside it; 0 for none. */
  migrations?: number;
  storedBytesMin?: number;
  protocol?: ProtocolName;
  /** Acceptors move the bytes of their sockets themselves, as with io_uring. */
  ownSockets?: boolean;
  compat?: "default" | "1.12" | "1.13";
  firstJobId?: number;
  arena?: (shard: number) => BodyArena;
  /** Jobs that a kick or the end of a connection moves in one turn of a shard. */
  turnJobsMax?: number;
  /** Things that are due and happen in one turn of a shard. */
  turnDueMax?: number;
  /** Least cost of a command: each above the cheap limit sets its connection aside. */
  commandWork?: number | undefined;
  /** A session with more tubes to choose from keeps them in an order. */
  orderedTubesMin?: number | undefined;
  /** Largest advance of the clock between two steps, ms. */
  tickMs?: number;
  /**
   * Probability that what is due within a millisecond falls due while a shard is in its turn, at
   * each look at the clock.
   */
  dueInTurn?: number;
  /**
   * Probability that a thread that was held up is passed over: others do all that they can
   * meanwhile.
   */
  longHoldUps?: number;
  /** Probability that the log's thread is passed over while another can go on. */
  slowLog?: number;
  /** Start of the monotonic clock, ms. */
  startsAtMs?: number;
  log?: InProcessLog;
  /** Whether there is a port for the http thread, with its loop. */
  http?: boolean;
}

/** A log on a disk in memory; `opened` has its jobs still to be restored. */
export interface InProcessLog {
  readonly disk: Disk;
  readonly opened: OpenedBinlog;
  /** Word that replies wait for: under -f 0 the sync of their records. */
  readonly repliesWaitFor: LogWord;
  /** Capacity of each shard's ring to the log. */
  readonly recordRingBytes: number;
  /** Wall clock minus monotonic clock, ms. */
  wallOffsetMs: number;
  /** It lives in the only thread that serves; else it has its own. */
  readonly isResident?: boolean;
}

/** A shard waits for room in its ring to a log that has ended: nothing will ever wake it. */
export class LogIsGone extends Error {}

/** Condition for a thread to go on; undefined if it can at once. */
type Blocked = (() => boolean) | undefined;

export type ThreadSteps = Generator<Blocked, never, void>;

export interface Thread {
  readonly name: string;
  readonly steps: ThreadSteps;
  /** Condition for it to go on; undefined for "at once". */
  ready: Blocked;
}

/**
 * Probability that a thread that sleeps is rung for nothing, at each step of a server that has such
 * rings.
 */
export const STRAY_RINGS = 0.005;

export const RING_BYTES = 1 << 16;

/** So small that many bodies of a simulation go past the rings. */
export const STORED_BYTES_MIN = 10;

/** The same of those that are received and sent where they lie. */
export const IN_PLACE_BYTES_MIN = 14;

/** With rings to the log of a size of their own: in a simulation they must fill up. */
export function topologyFor(options: TopologyOptions, log: InProcessLog | undefined): Topology {
  if (log === undefined) return createTopology(options);
  const { repliesWaitFor, recordRingBytes, isResident = false } = log;
  const topology = createTopology({ ...options, binlog: { repliesWaitFor, segmentBytes: 0, isResident } });
  const rings = Array.from({ length: options.shards }, () => createRing(recordRingBytes));
  return { ...topology, binlog: { ...topology.binlog!, rings } };
}

export function processFacts(compat: string, startedAtMs: number): ProcessFacts {
  return {
    version: compat === "1.12" || compat === "1.13" ? compat : "0.0.0",
    pid: 1,
    instanceId: "0123456789abcdef",
    hostname: "simulated",
    os: "#1 simulated",
    platform: "none",
    bareFacts: compat === "1.12",
    binlogMaxBytes: 10485760,
    startedAtMs,
  };
}
