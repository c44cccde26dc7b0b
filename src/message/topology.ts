// All shared memory of a server and who is who: made once by the main thread, handed to every thread at its
// start.

import { assert } from "../base/assert.ts";
import { DOORBELL_WORDS } from "../ring/doorbell.ts";
import { FileTable } from "../ring/file-table.ts";
import { JobDirectory } from "../ring/job-directory.ts";
import { LOG_WORDS, type LogWord } from "../ring/log-words.ts";
import { MemoryWords } from "../ring/memory-words.ts";
import { createRing } from "../ring/ring-layout.ts";
import { GROUP_FIGURES } from "./group.ts";

/** Words of `control`, each on a cache line of its own (16 int32 words). */
export const ControlWord = {
  /** 1 once SIGUSR1 has arrived: puts are refused. */
  Draining: 0,
  /**
   * Creation order of tubes, counted up as job ids are, in two words: two clients can make 2^31 tubes in a
   * day.
   */
  TubeSequence: 16,
  /** The next job id, two words (see ring/job-ids.ts). */
  JobIds: 32,
  /** 1 while the log has no room for new jobs: puts are refused. */
  BinlogFull: 48,
  /** 1 once the binlog thread must make everything durable and end. */
  BinlogStop: 64,
  /** 1 while nothing can be written to the log for want of room: shards take no commands. */
  BinlogWaits: 80,
  /**
   * 1 once the log takes nothing more, failed or closed: nothing more is acknowledged or done, and the
   * process ends.
   */
  BinlogEnded: 96,
  /** Up to which job id the log has lent ids (see ring/lent-ids.ts). */
  IdsLent: 112,
  /** In a group: until when it may serve (see ring/lease-word.ts). */
  ServeUntil: 128,
  /** In a group: up to which batch the shared log has all (see ring/batch-word.ts). */
  AcknowledgedBatch: 144,
  /** 1 while the shared log of a group is nearly full: puts are refused. */
  SharedLogFull: 160,
  /** See ring/memory-words.ts. */
  MemoryUsed: 176,
  MemoryLimit: 192,
  MemoryFull: 208,
  /**
   * 1 from the first command on that may send a job to another shard, or after which jobs may go there by themselves: commands by
   * id may have to follow theirs.
   */
  JobsMove: 224,
  /** In a group: the message of the shared log that holds the last acknowledged batch, its lower 32 bits. */
  AcknowledgedMessage: 240,
  /** In a group: the same end of the lease as ServeUntil, by the wall clock (see ring/lease-word.ts). */
  ServeUntilWall: 256,
} as const;
const CONTROL_WORDS = 272;

/** Slots of float64 counters that each role writes for itself and any acceptor may read. */
export const COUNTERS_PER_ROLE = 256;
export const Counter = {
  /** Connections that an acceptor did not let in, and why: see acceptor/admission/admission-control.ts. */
  RejectedFull: 16,
  RejectedAddress: 17,
  RejectedAuth: 18,
  RejectedHandshake: 19,
  RejectedDescriptors: 20,
  /** The first of those of connections that have ended, by the place of the reason in END_REASONS. */
  Closed: 21,
  /** Bytes of the beanstalkd protocol, as clients sent them and as they were handed over for them. */
  BytesIn: 28,
  BytesOut: 29,
  JobsUrgent: 32,
  JobsReady: 33,
  JobsReserved: 34,
  JobsDelayed: 35,
  JobsBuried: 36,
  TotalJobs: 37,
  JobTimeouts: 38,
  Tubes: 39,
  Waiting: 40,
  Connections: 41,
  Producers: 42,
  Workers: 43,
  TotalConnections: 44,
  BinlogOldest: 48,
  BinlogCurrent: 49,
  BinlogWritten: 50,
  BinlogMigrated: 51,
  /**
   * Connections that came to an acceptor from another, and left it for one. Connections, Producers and Workers stay
   * where a connection came in and go down where it ends, so that their sums are right at any time.
   */
  MovedIn: 45,
  MovedOut: 46,
  /** 1 where connections may come to. */
  TakesMoved: 47,
  /** How long a thread has slept in the kernel, ms, and since when it does now: 0 while it is awake. */
  IdleMs: 60,
  IdleSinceMs: 61,
  // See message/turn-counters.ts.
  Turns: 52,
  BusyTurns: 53,
  Messages: 54,
  Sleeps: 55,
  Wakes: 56,
  RingFillSum: 57,
  RingFillMax: 58,
  /** What the files of the log take, and what of them is live. */
  BinlogBytes: 59,
  BinlogLiveBytes: 60,
  /** What is free in files that are still written to. */
  BinlogSpareBytes: 61,
  /** Since when a record waits for a sync, monotonic ms; 0: none does. */
  BinlogUnsyncedSinceMs: 62,
  /** 1 while space is being given back. */
  BinlogCompacts: 63,
  /** The first of those of commands: see `commandCounter`. */
  Commands: 64,
  /** Behind those of commands, of the binlog thread only: see message/log-figures.ts. */
  LogFigures: 192,
  /** In the same place, of acceptors and the http thread: see message/command-times.ts. */
  CommandTimes: 192,
} as const;

/** The counter of the command `op`. */
export function commandCounter(op: number): number {
  return Counter.Commands + op;
}

/** Connections that one acceptor serves at most. */
export const SESSIONS_PER_ACCEPTOR_MAX = 1 << 17;

/** Which commands are known: those of beanstalkd only, or ours too. */
export type ProtocolName = "extended" | "strict";

/** A thread that serves: acceptors with the shards that live beside them, or a shard alone. */
export interface Host {
  readonly acceptors: readonly number[];
  readonly shards: readonly number[];
}

export interface Topology {
  readonly shards: number;
  readonly acceptors: number;
  /** Ways into a shard: one from each acceptor, and behind them one from the http thread, if there is one. */
  readonly ports: number;
  readonly protocol: ProtocolName;
  /** The threads that serve, and the roles that live in each. */
  readonly hosts: readonly Host[];
  readonly jobBytesMax: number;
  /** A body of at least so many bytes goes past the rings between an acceptor and the shards of its thread. */
  readonly storedBytesMin: number;
  /** So many bytes of such a body are received and sent right there, where a transport can. */
  readonly inPlaceBytesMin: number;
  /** int32: see ControlWord. */
  readonly control: SharedArrayBuffer;
  /** int32: a doorbell for each host, then that of a binlog with its own thread, then that of the http thread. */
  readonly doorbells: SharedArrayBuffer;
  /** float64: COUNTERS_PER_ROLE for the shards, then the acceptors, then the binlog, then the http thread. */
  readonly counters: SharedArrayBuffer;
  /** `requests[port][shard]` and `responses[port][shard]`. */
  readonly requests: readonly (readonly SharedArrayBuffer[])[];
  readonly responses: readonly (readonly SharedArrayBuffer[])[];
  /** `moves[from][to]`: for connections that move between acceptors of different threads; empty where none does. */
  readonly moves: readonly (readonly (SharedArrayBuffer | undefined)[])[];
  /** One for each port: see ring/claim-word.ts. */
  readonly claims: readonly SharedArrayBuffer[];
  /** See ring/job-directory.ts; unused with a single shard. */
  readonly directory: SharedArrayBuffer;
  /** What shards and binlog share; undefined in a server without a log. */
  readonly binlog: BinlogTopology | undefined;
}

export interface BinlogTopology {
  /** A ring from each shard, for records (see message/append.ts). */
  readonly rings: readonly SharedArrayBuffer[];
  /** See ring/log-words.ts. */
  readonly progress: SharedArrayBuffer;
  /** See ring/file-table.ts. */
  readonly files: SharedArrayBuffer;
  /** What a reply to a change waits for: that its record is written, or with -f 0 that it is synced. */
  readonly repliesWaitFor: LogWord;
  /** The host in whose thread the log lives; undefined where it has a thread of its own. */
  readonly host: number | undefined;
  /** In a group of servers. */
  readonly group: GroupTopology | undefined;
}

export interface GroupTopology {
  /** From the binlog to the thread of the group, for batches (see message/group.ts). */
  readonly ring: SharedArrayBuffer;
  /** How far the shared log is, as the binlog's own `progress`; the word is `Written`. */
  readonly progress: SharedArrayBuffer;
  /** float64: see GroupFigure. */
  readonly figures: SharedArrayBuffer;
  /** Whether replies wait for the shared log. */
  readonly repliesWait: boolean;
}

/** How the roles are spread over threads: each has its own, or shards live with the acceptors. */
export type Placement = "together" | "apart";

export interface TopologyOptions {
  shards: number;
  acceptors: number;
  /** Whether there is an http thread. */
  http?: boolean;
  /** Apart if it is left out. */
  placement?: Placement;
  /** Extended if it is left out. */
  protocol?: ProtocolName;
  /** Threads that serve together, 1 to `acceptors`; as many as acceptors if it is left out. */
  threads?: number;
  jobBytesMax: number;
  storedBytesMin?: number;
  inPlaceBytesMin?: number;
  ringBytes: number;
  /** Whether connections may move between acceptors. */
  moves?: boolean;
  binlog?: {
    repliesWaitFor: LogWord;
    segmentBytes: number;
    /** The log lives in the only thread that serves. */
    isResident?: boolean;
    group?: { repliesWait: boolean };
  };
}

/** Below this a copy through the ring costs less than what it takes to go past it. */
const STORED_BYTES_MIN = 4096;
/** Below this a copy costs less than a message of several parts. */
const IN_PLACE_BYTES_MIN = 16 * 1024;
const RECORD_RING_BYTES_MIN = 32 * 1024;
const RECORD_RING_BYTES_MAX = 1024 * 1024;
/** A quarter of it is for one connection: 16 KiB that were read, and as much for what it watches. */
export const MOVE_RING_BYTES = 128 * 1024;
const GROUP_RING_BYTES = 4 * 1024 * 1024;

/**
 * Smaller segments of the log would keep too little back for what the smallest rings of so many shards can
 * hold.
 */
export function segmentBytesMin(shards: number): number {
  return 4 * RECORD_RING_BYTES_MIN * shards;
}

/**
 * The rings of all shards together hold at most a quarter of a segment: what may come after the log said it
 * is full. The log makes its segments large enough for that (segmentBytesMin).
 */
function recordRingBytes(shards: number, segmentBytes: number): number {
  let bytes = RECORD_RING_BYTES_MAX;
  while (bytes > RECORD_RING_BYTES_MIN && bytes * shards > segmentBytes / 4) bytes /= 2;
  return bytes;
}

export function createTopology(options: TopologyOptions): Topology {
  const { shards, acceptors, jobBytesMax, ringBytes } = options;
  const ports = acceptors + (options.http === true ? 1 : 0);
  const perPort = <T>(make: () => T): T[] => Array.from({ length: ports }, make);
  const roles = shards + ports + 1;
  const hosts = hostsFor(options);
  assert(
    options.binlog?.isResident !== true || hosts.length === 1,
    "a log lives with others in one thread only",
  );
  const rings = (): SharedArrayBuffer[] => Array.from({ length: shards }, () => createRing(ringBytes));
  return {
    shards,
    acceptors,
    ports,
    protocol: options.protocol ?? "extended",
    hosts,
    jobBytesMax,
    storedBytesMin: options.storedBytesMin ?? STORED_BYTES_MIN,
    inPlaceBytesMin: options.inPlaceBytesMin ?? IN_PLACE_BYTES_MIN,
    control: new SharedArrayBuffer(CONTROL_WORDS * 4),
    doorbells: new SharedArrayBuffer((hosts.length + 3) * DOORBELL_WORDS * 4),
    counters: new SharedArrayBuffer(roles * COUNTERS_PER_ROLE * 8),
    requests: perPort(rings),
    responses: perPort(rings),
    moves: options.moves === true && mayMove(hosts) ? moveRings(hosts, acceptors) : [],
    claims: perPort(() => new SharedArrayBuffer(SESSIONS_PER_ACCEPTOR_MAX * 4)),
    directory: new SharedArrayBuffer(shards === 1 ? 4 : JobDirectory.BYTES),
    binlog:
      options.binlog === undefined
        ? undefined
        : {
            rings: Array.from({ length: shards }, () =>
              createRing(recordRingBytes(shards, options.binlog!.segmentBytes)),
            ),
            progress: new SharedArrayBuffer(shards * LOG_WORDS * 4),
            files: new SharedArrayBuffer(FileTable.BYTES),
            repliesWaitFor: options.binlog.repliesWaitFor,
            host: options.binlog.isResident === true ? 0 : undefined,
            group: groupFor(options),
          },
  };
}

/** Whether a connection can be better off in another thread at all. */
function mayMove(hosts: readonly Host[]): boolean {
  const withAcceptors = hosts.filter(({ acceptors }) => acceptors.length > 0);
  return withAcceptors.length > 1 && withAcceptors.some(({ shards }) => shards.length > 0);
}

function moveRings(hosts: readonly Host[], acceptors: number): (SharedArrayBuffer | undefined)[][] {
  const all = Array.from({ length: acceptors }, (_, acceptor) => acceptor);
  const areTogether = (a: number, b: number): boolean =>
    hosts.some((host) => host.acceptors.includes(a) && host.acceptors.includes(b));
  return all.map((from) =>
    all.map((to) => (areTogether(from, to) ? undefined : createRing(MOVE_RING_BYTES))),
  );
}

function groupFor({ shards, binlog }: TopologyOptions): GroupTopology | undefined {
  if (binlog?.group === undefined) return undefined;
  return {
    ring: createRing(GROUP_RING_BYTES),
    progress: new SharedArrayBuffer(shards * LOG_WORDS * 4),
    figures: new SharedArrayBuffer(GROUP_FIGURES * 8),
    repliesWait: binlog.group.repliesWait,
  };
}

function hostsFor({ shards, acceptors, placement, threads = acceptors }: TopologyOptions): Host[] {
  const all = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
  if (placement !== "together") {
    return [
      ...all(shards).map((shard) => ({ acceptors: [], shards: [shard] })),
      ...all(acceptors).map((acceptor) => ({ acceptors: [acceptor], shards: [] })),
    ];
  }
  return all(threads).map((host) => ({
    acceptors: all(acceptors).filter((acceptor) => acceptor % threads === host),
    shards: all(shards).filter((shard) => shard % threads === host),
  }));
}

/** The host of a shard: its index is that of the doorbell by which the shard is rung. */
export function hostOfShard(topology: Topology, shard: number): number {
  return topology.hosts.findIndex((host) => host.shards.includes(shard));
}

/** The host of an acceptor, as that of a shard. */
export function hostOfAcceptor(topology: Topology, acceptor: number): number {
  return topology.hosts.findIndex((host) => host.acceptors.includes(acceptor));
}

/** Index of the doorbell of the thread in which the binlog lives. */
export const binlogBell = (topology: Topology): number => topology.binlog?.host ?? topology.hosts.length;

/** Index of the http thread's doorbell. */
export const httpBell = (topology: Topology): number => topology.hosts.length + 1;

/** The port of the http thread; no such port where there is none. */
export const httpPort = (topology: Topology): number => topology.acceptors;

/** Index of the doorbell of the thread at a port. */
export const portBell = (topology: Topology, port: number): number =>
  port === httpPort(topology) ? httpBell(topology) : hostOfAcceptor(topology, port);

/** Index of the doorbell of the group's thread. */
export const groupBell = (topology: Topology): number => topology.hosts.length + 2;

/** What jobs have of memory, and may have. */
export function memoryWords({ control }: Topology): MemoryWords {
  const { MemoryUsed, MemoryLimit, MemoryFull } = ControlWord;
  return new MemoryWords(new Int32Array(control), MemoryUsed, MemoryLimit, MemoryFull);
}

/** What binlog and group share; to be called in a group only. */
export function binlogGroup(topology: Topology): GroupTopology {
  const group = topology.binlog?.group;
  assert(group !== undefined, "a server without --replicate is in no group");
  return group;
}

/** Index of a shard's counters. */
export const shardRole = (shard: number): number => shard;

/** Index of an acceptor's counters; those of turns and sleeps are its thread's, at the first acceptor of it. */
export const acceptorRole = (topology: Topology, acceptor: number): number => topology.shards + acceptor;

/** Index of the binlog's counters. */
export const binlogRole = (topology: Topology): number => topology.shards + topology.acceptors;

/** Index of the http thread's counters. */
export const httpRole = (topology: Topology): number => binlogRole(topology) + 1;

/** Index of the counters of the role at a port. */
export const portRole = (topology: Topology, port: number): number =>
  port === httpPort(topology) ? httpRole(topology) : acceptorRole(topology, port);

/** How many roles have counters that `stats` adds up: all but the http thread's. */
export const rolesOf = (topology: Topology): number => binlogRole(topology) + 1;

/** The counters of one role. */
export function countersOf(topology: Topology, role: number): Float64Array {
  return new Float64Array(topology.counters, role * COUNTERS_PER_ROLE * 8, COUNTERS_PER_ROLE);
}
