// The shared memory of a server and the assignment of roles to threads. The main thread creates it
// once and passes it to every thread at startup.

import { assert } from "../base/assert.ts";
import { WorkerNames } from "../ring/connection-words.ts";
import { DOORBELL_WORDS } from "../ring/doorbell.ts";
import { createRing } from "../ring/ring.ts";
import {
  BackupWords,
  FileTable,
  JobDirectory,
  LOG_WORDS,
  type LogWord,
  MemoryWords,
  RestateWords,
} from "../ring/shared-words.ts";
import { GROUP_FIGURES } from "./group.ts";
import { recordRingBytes } from "./record.ts";

// The servers whose job ids mean the same jobs here: this one, and those whose log it continues.
//
// A job id alone does not say which job is meant: a server without a log begins at 1 again, and one
// that starts from a backup gives the ids after the backup a second time. Together with the server
// that gave it, an id is unique.

export interface Origin {
  /** 16 hex digits of a process, or the id of a group. */
  readonly id: string;
  /** Job ids of that server below this one are valid here. Infinity for the server itself. */
  readonly below: number;
}

/**
 * Returns the origins for the starts of a log, each with the first job id that the server could
 * give; both lists begin with the newest. A log that lost its end may give ids twice, so the lowest
 * first id of all later starts counts.
 */
export function originsOf(starts: readonly (readonly [id: string, firstJobId: number])[]): Origin[] {
  let below = Number.POSITIVE_INFINITY;
  return starts.map(([id, firstJobId]) => {
    const origin = { id, below };
    below = Math.min(below, firstJobId);
    return origin;
  });
}

/** Composes the text of the command `origins`. */
export const originsText = (origins: readonly Origin[]): string =>
  `---\n${origins.map(({ id, below }) => `${id}: ${below === Number.POSITIVE_INFINITY ? "all" : below}\n`).join("")}`;

/** Words of `control`, each on its own cache line (16 int32 words). */
export const ControlWord = {
  /** 1 after SIGUSR1: puts are refused. */
  Draining: 0,
  /**
   * Creation order of tubes, counted like job ids in two words, because two clients can create 2^31
   * tubes in a day.
   */
  TubeSequence: 16,
  /** The next job id, in two words (see ring/shared-words.ts). */
  JobIds: 32,
  /** 1 while the log has no room for new jobs: puts are refused. */
  BinlogFull: 48,
  /** 1 once the binlog thread has to make everything durable and end. */
  BinlogStop: 64,
  /** 1 while the log cannot be written for lack of room: shards take no commands. */
  BinlogWaits: 80,
  /**
   * 1 once nothing more may be acknowledged or executed; the process then ends. The log sets it
   * when it has failed or is about to close. The main thread sets it when a thread has died, also
   * without a log, and when the group has ended.
   */
  NoMoreReplies: 96,
  /** The highest job id that the log has lent (see ring/shared-words.ts). */
  IdsLent: 112,
  /** In a group: the time until which it may serve (see ring/monotonic-clock.ts). */
  ServeUntil: 128,
  /** In a group: the last batch up to which the shared log is complete (ring/shared-words.ts). */
  AcknowledgedBatch: 144,
  /** 1 while the shared log of a group is nearly full: puts are refused. */
  SharedLogFull: 160,
  /** See ring/shared-words.ts. */
  MemoryUsed: 176,
  MemoryLimit: 192,
  MemoryFull: 208,
  /**
   * 1 once a command may have sent a job to another shard, or have allowed the server to do so
   * later: commands by id may then have to follow their jobs.
   */
  JobsMove: 224,
  /** In a group: the lower 32 bits of the shared log's message with the last acknowledged batch. */
  AcknowledgedMessage: 240,
  /**
   * In a group: the end of the lease as in ServeUntil, by the wall clock (see
   * ring/monotonic-clock.ts).
   */
  ServeUntilWall: 256,
  /** The backup that asks for a cut of the log, and what the log answers: ring/shared-words.ts. */
  BackupAsked: 272,
  BackupAnswered: 288,
  /** How many schedules have moved to another shard, in two words (see ring/shared-words.ts). */
  ScheduleMoves: 304,
  /** The same for jobs. */
  JobMoves: 320,
} as const;
const CONTROL_WORDS = 336;

/** Float64 counters per role. Each role writes its own, and any acceptor may read them. */
export const COUNTERS_PER_ROLE = 320;
export const Counter = {
  /**
   * 1 if the acceptor may read a command before the end of another connection that came earlier,
   * as with libuv: epoll names sockets in no fixed order, and libuv reads an end one pass after the
   * bytes before it.
   */
  ReadsEndsLate: 14,
  /** Messages from other threads that a role has taken. */
  Crossed: 15,
  /**
   * Connections that an acceptor refused, by reason: see acceptor/admission/admission-control.ts.
   */
  RejectedFull: 16,
  RejectedAddress: 17,
  RejectedAuth: 18,
  RejectedHandshake: 19,
  RejectedDescriptors: 20,
  /** Also by the HTTP thread: missing, malformed, cut or slow PROXY headers. */
  RejectedHeader: 13,
  /** The first counter of ended connections, indexed by END_REASONS. */
  Closed: 21,
  /** Bytes of the beanstalkd protocol: received from clients, and handed over for them. */
  BytesIn: 28,
  BytesOut: 29,
  /**
   * How long a thread has slept in the kernel, in ms, and the start of the current sleep; 0 while
   * it is awake.
   */
  IdleMs: 30,
  IdleSinceMs: 31,
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
  /**
   * Connections that came to an acceptor from another one, and that left for one. Connections,
   * Producers and Workers go up where a connection is accepted and down where it ends, so only
   * their sums are right.
   */
  MovedIn: 45,
  MovedOut: 46,
  /** 1 if the acceptor takes connections from others. */
  TakesMoved: 47,
  BinlogOldest: 48,
  BinlogCurrent: 49,
  BinlogWritten: 50,
  BinlogMigrated: 51,
  // See message/turn-counters.ts.
  Turns: 52,
  BusyTurns: 53,
  Messages: 54,
  Sleeps: 55,
  Wakes: 56,
  RingFillSum: 57,
  RingFillMax: 58,
  /** The size of the log's files, and how much of it is live. */
  BinlogBytes: 59,
  BinlogLiveBytes: 60,
  /** Free space in files that are still written to. */
  BinlogSpareBytes: 61,
  /** When the longest-waiting record began to wait for a sync, in monotonic ms; 0 if none waits. */
  BinlogUnsyncedSinceMs: 62,
  /** 1 during compaction. */
  BinlogCompacts: 63,
  /** Counter of the command with the code 0; the others follow by their codes. */
  Commands: 64,
  /** The first counter of acceptors and the HTTP thread in message/acceptor-counts.ts. */
  CommandTimes: 192,
  /** The first counter of the binlog thread in message/log-figures.ts. */
  LogFigures: 256,
  /** Changes by hand that an acceptor did not record, because too many came at once. */
  UnrecordedChanges: 319,
} as const;

/** Maximum number of connections of one acceptor. */
export const SESSIONS_PER_ACCEPTOR_MAX = 1 << 17;

/** The accepted commands: those of beanstalkd only, or the extended ones too. */
export type ProtocolName = "extended" | "strict";

/** A thread that serves: acceptors with the shards beside them, or a single shard. */
export interface ThreadRoles {
  readonly acceptors: readonly number[];
  readonly shards: readonly number[];
}

export interface Topology {
  readonly shards: number;
  readonly acceptors: number;
  /**
   * Ports of a shard: one for each acceptor and, after them, one for the HTTP thread, if there is
   * one.
   */
  readonly ports: number;
  readonly protocol: ProtocolName;
  /** The threads that serve, and the roles in each. */
  readonly threads: readonly ThreadRoles[];
  readonly jobBytesMax: number;
  /**
   * Bodies of at least this size bypass the rings between an acceptor and the shards of its thread.
   */
  readonly storedBytesMin: number;
  /**
   * Runs of at least this many bytes of such a body are received and sent in place, if the
   * transport can.
   */
  readonly inPlaceBytesMin: number;
  /** int32: see ControlWord. */
  readonly control: SharedArrayBuffer;
  /**
   * int32: a doorbell for each thread, then that of a binlog with its own thread, that of the HTTP
   * thread and that of the group thread.
   */
  readonly doorbells: SharedArrayBuffer;
  /**
   * float64: COUNTERS_PER_ROLE for each shard, then each acceptor, the binlog and the HTTP thread.
   */
  readonly counters: SharedArrayBuffer;
  /** `requests[port][shard]` and `responses[port][shard]`. */
  readonly requests: readonly (readonly SharedArrayBuffer[])[];
  readonly responses: readonly (readonly SharedArrayBuffer[])[];
  /**
   * `migrationRings[from][to]`: for connections that move between acceptors of different threads;
   * empty if none may.
   */
  readonly migrationRings: readonly (readonly (SharedArrayBuffer | undefined)[])[];
  /** One for each port: see ring/connection-words.ts. */
  readonly claims: readonly SharedArrayBuffer[];
  /** One for each port: see ring/connection-words.ts. */
  readonly workerNames: readonly SharedArrayBuffer[];
  /** See ring/shared-words.ts; unused with a single shard. */
  readonly directory: SharedArrayBuffer;
  /** Shared by the shards and the binlog; undefined without a log. */
  readonly binlog: BinlogTopology | undefined;
}

interface BinlogTopology {
  /** A ring for records from each shard (see message/record.ts). */
  readonly rings: readonly SharedArrayBuffer[];
  /** See ring/shared-words.ts. */
  readonly progress: SharedArrayBuffer;
  /** See ring/shared-words.ts. */
  readonly files: SharedArrayBuffer;
  /** See ring/shared-words.ts. */
  readonly restate: SharedArrayBuffer;
  /** How far a change's record must be before the reply: written or, with -f 0, synced. */
  readonly repliesWaitFor: LogWord;
  /** The thread that runs the log; undefined if the log has its own thread. */
  readonly thread: number | undefined;
  /** Undefined outside a group of servers. */
  readonly group: GroupTopology | undefined;
}

interface GroupTopology {
  /** From the binlog to the group thread, for batches (see message/group.ts). */
  readonly ring: SharedArrayBuffer;
  /** Progress of the shared log, like the binlog's own `progress`; the word is `Written`. */
  readonly progress: SharedArrayBuffer;
  /** float64: see GroupFigure. */
  readonly figures: SharedArrayBuffer;
  /** Whether replies wait for the shared log. */
  readonly repliesWait: boolean;
}

/** Distribution of roles over threads: each has its own, or shards run with the acceptors. */
export type Placement = "together" | "apart";

export interface TopologyOptions {
  shards: number;
  acceptors: number;
  /** Whether there is an HTTP thread. */
  http?: boolean;
  /** Default: apart. */
  placement?: Placement;
  /** Default: extended. */
  protocol?: ProtocolName;
  /**
   * The number of threads that serve together, 1 to `acceptors`. Default: one for each acceptor.
   */
  threads?: number;
  jobBytesMax: number;
  storedBytesMin?: number;
  inPlaceBytesMin?: number;
  ringBytes: number;
  /** Whether connections may move between acceptors. */
  migration?: boolean;
  binlog?: {
    repliesWaitFor: LogWord;
    segmentBytes: number;
    /** Whether the log runs in the only thread that serves. */
    isResident?: boolean;
    group?: { repliesWait: boolean };
  };
}

/** Below this size, a copy through the ring is cheaper than bypassing it. */
const STORED_BYTES_MIN = 4096;
/** Below this size, a copy is cheaper than a message of several parts. */
const IN_PLACE_BYTES_MIN = 16 * 1024;
/**
 * One connection may take a quarter of it: 16 KiB of received bytes, and as much for its watched
 * tubes.
 */
export const MIGRATION_RING_BYTES = 128 * 1024;
const GROUP_RING_BYTES = 4 * 1024 * 1024;

export function createTopology(options: TopologyOptions): Topology {
  const { shards, acceptors, jobBytesMax, ringBytes } = options;
  const ports = acceptors + (options.http === true ? 1 : 0);
  const perPort = <T>(make: () => T): T[] => Array.from({ length: ports }, make);
  const roles = shards + ports + 1;
  const threads = rolesOfThreads(options);
  assert(
    options.binlog?.isResident !== true || threads.length === 1,
    "a log shares a thread only if a single thread serves",
  );
  const rings = (): SharedArrayBuffer[] => Array.from({ length: shards }, () => createRing(ringBytes));
  return {
    shards,
    acceptors,
    ports,
    protocol: options.protocol ?? "extended",
    threads,
    jobBytesMax,
    storedBytesMin: options.storedBytesMin ?? STORED_BYTES_MIN,
    inPlaceBytesMin: options.inPlaceBytesMin ?? IN_PLACE_BYTES_MIN,
    control: new SharedArrayBuffer(CONTROL_WORDS * 4),
    doorbells: new SharedArrayBuffer((threads.length + 3) * DOORBELL_WORDS * 4),
    counters: new SharedArrayBuffer(roles * COUNTERS_PER_ROLE * 8),
    requests: perPort(rings),
    responses: perPort(rings),
    migrationRings:
      options.migration === true && mayMigrate(threads) ? createMigrationRings(threads, acceptors) : [],
    claims: perPort(() => new SharedArrayBuffer(SESSIONS_PER_ACCEPTOR_MAX * 4)),
    workerNames: perPort(() => new SharedArrayBuffer(WorkerNames.bytesFor(SESSIONS_PER_ACCEPTOR_MAX))),
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
            restate: new SharedArrayBuffer(RestateWords.bytesFor(shards)),
            repliesWaitFor: options.binlog.repliesWaitFor,
            thread: options.binlog.isResident === true ? 0 : undefined,
            group: groupFor(options),
          },
  };
}

/** Returns whether a connection can benefit at all from another thread. */
function mayMigrate(threads: readonly ThreadRoles[]): boolean {
  const withAcceptors = threads.filter(({ acceptors }) => acceptors.length > 0);
  return withAcceptors.length > 1 && withAcceptors.some(({ shards }) => shards.length > 0);
}

function createMigrationRings(
  threads: readonly ThreadRoles[],
  acceptors: number,
): (SharedArrayBuffer | undefined)[][] {
  const all = Array.from({ length: acceptors }, (_, acceptor) => acceptor);
  const areTogether = (a: number, b: number): boolean =>
    threads.some((thread) => thread.acceptors.includes(a) && thread.acceptors.includes(b));
  return all.map((from) =>
    all.map((to) => (areTogether(from, to) ? undefined : createRing(MIGRATION_RING_BYTES))),
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

function rolesOfThreads({
  shards,
  acceptors,
  placement,
  threads = acceptors,
}: TopologyOptions): ThreadRoles[] {
  const all = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
  if (placement !== "together") {
    return [
      ...all(shards).map((shard) => ({ acceptors: [], shards: [shard] })),
      ...all(acceptors).map((acceptor) => ({ acceptors: [acceptor], shards: [] })),
    ];
  }
  return all(threads).map((thread) => ({
    acceptors: all(acceptors).filter((acceptor) => acceptor % threads === thread),
    shards: all(shards).filter((shard) => shard % threads === thread),
  }));
}

/** Returns the thread of a shard. Its index is also that of the shard's doorbell. */
export function threadOfShard(topology: Topology, shard: number): number {
  return topology.threads.findIndex((thread) => thread.shards.includes(shard));
}

/** Returns the thread of an acceptor, with the doorbell of the same index. */
export function threadOfAcceptor(topology: Topology, acceptor: number): number {
  return topology.threads.findIndex((thread) => thread.acceptors.includes(acceptor));
}

/** Returns the index of the doorbell of the thread that runs the binlog. */
export const binlogBell = (topology: Topology): number => topology.binlog?.thread ?? topology.threads.length;

/** Returns the index of the HTTP thread's doorbell. */
export const httpBell = (topology: Topology): number => topology.threads.length + 1;

/** Returns the port of the HTTP thread. The port does not exist without that thread. */
export const httpPort = (topology: Topology): number => topology.acceptors;

/** Returns the index of the doorbell of the thread at a port. */
export const portBell = (topology: Topology, port: number): number =>
  port === httpPort(topology) ? httpBell(topology) : threadOfAcceptor(topology, port);

/** Returns the index of the group thread's doorbell. */
export const groupBell = (topology: Topology): number => topology.threads.length + 2;

/** Returns the words for the memory that jobs use and may use. */
export function memoryWords({ control }: Topology): MemoryWords {
  const { MemoryUsed, MemoryLimit, MemoryFull } = ControlWord;
  return new MemoryWords(new Int32Array(control), MemoryUsed, MemoryLimit, MemoryFull);
}

/** Returns what the binlog and the group share. Call it in a group only. */
export function binlogGroup(topology: Topology): GroupTopology {
  const group = topology.binlog?.group;
  assert(group !== undefined, "a server without --replicate is in no group");
  return group;
}

/** Returns the index of a shard's counters. */
export const shardRole = (shard: number): number => shard;

/**
 * Returns the index of an acceptor's counters. Turns and sleeps are those of its thread, counted at
 * the thread's first acceptor.
 */
export const acceptorRole = (topology: Topology, acceptor: number): number => topology.shards + acceptor;

/** Returns the index of the binlog's counters. */
export const binlogRole = (topology: Topology): number => topology.shards + topology.acceptors;

/** Returns the index of the HTTP thread's counters. */
export const httpRole = (topology: Topology): number => binlogRole(topology) + 1;

export const portRole = (topology: Topology, port: number): number =>
  port === httpPort(topology) ? httpRole(topology) : acceptorRole(topology, port);

/** Returns a function that tells whether an acceptor reads ends late: see Counter.ReadsEndsLate. */
export function lateReaders(topology: Topology): (acceptor: number) => boolean {
  const { acceptors } = topology;
  const counters = Array.from({ length: acceptors }, (_, each) =>
    countersOf(topology, acceptorRole(topology, each)),
  );
  return (acceptor) => counters[acceptor]![Counter.ReadsEndsLate] === 1;
}

/** Returns the number of roles whose counters `stats` adds up: all but the HTTP thread's. */
export const rolesOf = (topology: Topology): number => binlogRole(topology) + 1;

export function countersOf(topology: Topology, role: number): Float64Array {
  return new Float64Array(topology.counters, role * COUNTERS_PER_ROLE * 8, COUNTERS_PER_ROLE);
}

// The shared words by which the HTTP thread and the log arrange a backup.

/** Returns the words by which the HTTP thread asks the log for a cut. */
export function backupWords({ control }: Topology): BackupWords {
  return new BackupWords(new Int32Array(control), ControlWord.BackupAsked, ControlWord.BackupAnswered);
}
