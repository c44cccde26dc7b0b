// Parts of a shard and how they are wired: engine, rings, replies, transfers, sessions.

import { assert } from "../base/assert.ts";
import { asciiBytes } from "../base/bytes.ts";
import { shardOfTube } from "../base/tube-hash.ts";
import { Engine } from "../engine/engine.ts";
import type { BodyArena } from "../engine/jobs/body-arena.ts";
import type { ClientEffects } from "../engine/waiting/effects.ts";
import type { Session } from "../engine/waiting/session.ts";
import {
  ControlWord,
  countersOf,
  httpPort,
  lateReaders,
  memoryWords,
  portBell,
  shardRole,
  type Topology,
  threadOfShard,
} from "../message/topology.ts";
import { Request } from "../protocol/request.ts";
import { ClaimWords } from "../ring/claim-word.ts";
import { ControlWords } from "../ring/control-words.ts";
import { JobDirectory, UNKNOWN_SHARD } from "../ring/job-directory.ts";
import { JobIds } from "../ring/job-ids.ts";
import { RingReader } from "../ring/ring-reader.ts";
import { WorkerNames } from "../ring/worker-names.ts";
import { PutIntake } from "./commands/put.ts";
import { ControlHandler } from "./control/control-handler.ts";
import { LatencyMeter } from "./control/latency-meter.ts";
import { BatchHomes } from "./flows/batch-homes.ts";
import { ReadBarrier } from "./read-barrier.ts";
import type { RecordLog } from "./records/record-log.ts";
import { Replies } from "./replies/replies.ts";
import { ReplyPort } from "./replies/reply-port.ts";
import type { RecordNumbers } from "./replies/short-replies.ts";
import { TubeLists } from "./replies/tube-lists.ts";
import { TubeSetter } from "./replies/tube-setter.ts";
import { RunQueue } from "./run-queue.ts";
import { ShardSchedules } from "./schedules/shard-schedules.ts";
import { Adoptions } from "./sessions/adoptions.ts";
import { MemoryBudget } from "./sessions/memory-budget.ts";
import type { ShardSession } from "./sessions/shard-session.ts";
import { SlicedCommands, TURN_JOBS_MAX } from "./slices/sliced-commands.ts";
import { DeadLetters } from "./transfer/dead-letters.ts";
import { TransferReceiver } from "./transfer/transfer-receiver.ts";
import { TransferSender } from "./transfer/transfer-sender.ts";

/** Due timers processed in one turn: about a microsecond each. */
const TURN_DUE_MAX = 500;

/** Not a port. */
export const NO_PORT = -1;
const NO_NUMBERS: RecordNumbers = { lastNumber: 0 };

interface ShardOptions {
  topology: Topology;
  shard: number;
  /** Whether stats-job and stats-tube quote names, as beanstalkd 1.13 does. */
  quoteNames: boolean;
  /** The monotonic clock, in ms. Without it, a turn takes no time. */
  clock?: () => number;
  /** Returns wall clock minus monotonic clock now, in ms; 0 if it is absent. */
  wallOffsetMs?: () => number;
  /** Takes the records of changes. Without it there is no log. */
  records?: RecordLog;
  arena?: BodyArena;
  /** See EngineOptions. */
  keySeed?: readonly [number, number];
  /**
   * Maximum number of jobs of a kick, or of jobs and watches of an ended connection, to process in
   * one turn.
   */
  turnJobsMax?: number;
  /** Maximum number of delays, pauses, reservations and waits that end in one turn. */
  turnDueMax?: number;
  /** Minimum cost of a command, in lookups. With it, a simulation sets every connection aside. */
  commandWork?: number;
  /** See EngineOptions. */
  orderedTubesMin?: number;
}

/** `nextTubeSequence` must work during the constructor: the engine creates its first tube there. */
export abstract class ShardParts implements ClientEffects {
  readonly engine: Engine;
  readonly ports: readonly ReplyPort[];
  readonly requests: readonly RingReader[];
  readonly counters: Float64Array;
  readonly clock: () => number;
  readonly portCount: number;
  readonly quoteNames: boolean;
  protected readonly controlWords: ControlWords;
  protected readonly tubeSequences: JobIds;
  protected readonly workerNames: readonly WorkerNames[];
  protected readonly claims: readonly ClaimWords[];
  protected readonly sessions: (ShardSession | undefined)[] = [];
  readonly adoptions: Adoptions;
  readonly replies: Replies;
  readonly lists: TubeLists;
  readonly puts: PutIntake;
  readonly tubeSetter: TubeSetter;
  readonly schedules: ShardSchedules;
  readonly slicedCommands: SlicedCommands;
  /** Connections with expensive commands. */
  readonly aside = new RunQueue();
  protected readonly commandWork: number;
  readonly memory: MemoryBudget;
  readonly transferSender: TransferSender;
  protected readonly deadLetters: DeadLetters;
  readonly homes: BatchHomes;
  readonly transferReceiver: TransferReceiver;
  protected readonly barrier: ReadBarrier;
  readonly records: RecordLog | undefined;
  /** Answers the HTTP thread; undefined without one. */
  readonly control: ControlHandler | undefined;
  /** The port of the HTTP thread, through which leases get jobs, and the session of its slot 0. */
  protected readonly leasePort: number;
  readonly leaseSession: number;
  /** Sessions whose wait over several shards is counted on this shard. */
  readonly leadWaits = new Set<ShardSession>();
  nowMs = 0;
  /** The message being executed. */
  protected readonly request = new Request();

  constructor(options: ShardOptions) {
    const { topology, shard } = options;
    this.clock = options.clock ?? (() => this.nowMs);
    this.portCount = topology.ports;
    this.adoptions = new Adoptions(topology.ports, (session, port, slot) => this.#place(session, port, slot));
    this.quoteNames = options.quoteNames;
    this.controlWords = new ControlWords(topology.control);
    this.tubeSequences = new JobIds(this.controlWords.words, ControlWord.TubeSequence);
    this.workerNames = topology.workerNames.map((buffer) => new WorkerNames(buffer));
    this.claims = topology.claims.map((buffer) => new ClaimWords(buffer));
    this.requests = topology.requests.map((rings) => new RingReader(rings[shard]!));
    const thread = threadOfShard(topology, shard);
    this.ports = topology.responses.map(
      (rings, acceptor) => new ReplyPort(rings[shard]!, portBell(topology, acceptor) === thread),
    );
    this.counters = countersOf(topology, shardRole(shard));
    const hasHttp = topology.ports > topology.acceptors;
    this.leasePort = hasHttp ? httpPort(topology) : NO_PORT;
    this.leaseSession = httpPort(topology);
    const meter = hasHttp ? new LatencyMeter() : undefined;
    const shardOf = (name: string): number => shardOfTube(asciiBytes(name), 0, name.length, topology.shards);
    const owns = (name: string): boolean => shardOf(name) === shard;
    this.engine = new Engine({
      effects: this,
      ...(options.records === undefined ? {} : { records: options.records }),
      ...(options.arena === undefined ? {} : { arena: options.arena }),
      ...(meter === undefined ? {} : { meter }),
      ownsDefaultTube: owns("default"),
      ownsTube: owns,
      ...(options.keySeed === undefined ? {} : { keySeed: options.keySeed }),
      workerName: (session, job, into, at) => this.workerName(session, job, into, at),
      turnDueMax: options.turnDueMax ?? TURN_DUE_MAX,
      ...(options.orderedTubesMin === undefined ? {} : { orderedTubesMin: options.orderedTubesMin }),
    });
    this.memory = new MemoryBudget(this.engine, memoryWords(topology), topology.shards);
    this.engine.bodies.limit = this.memory;
    this.replies = new Replies(
      this.engine,
      this.ports,
      options.records ?? NO_NUMBERS,
      topology.storedBytesMin,
    );
    this.lists = new TubeLists(this.engine, this.ports, this.replies);
    this.barrier = new ReadBarrier(this.engine, this.ports, topology.acceptors, lateReaders(topology));
    this.slicedCommands = new SlicedCommands(this.replies, options.turnJobsMax ?? TURN_JOBS_MAX, this.clock);
    this.commandWork = options.commandWork ?? 0;
    this.records = options.records;
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    if (directory !== undefined) this.#lookInto(directory, shard);
    const port = this.ports[shard % topology.acceptors]!;
    const travel = { engine: this.engine, port, records: options.records, shards: topology.shards };
    const noteMoves = (): void => this.controlWords.set(ControlWord.JobsMove);
    const onSettled = (id: number): void => this.slicedCommands.settled(id);
    this.engine.queues.onSettled = onSettled;
    this.transferSender = new TransferSender({ ...travel, shardOf, onBegin: noteMoves, onLanded: onSettled });
    this.deadLetters = new DeadLetters(this.engine, this.transferSender);
    const takeJobId = this.#idTaker(directory, shard);
    this.homes = new BatchHomes({ ...travel, shard, shardOf, onSettled });
    this.transferReceiver = this.#makeReceiver(travel, directory, shard);
    if (meter !== undefined) {
      this.control = new ControlHandler({
        shard: this,
        port: this.ports[this.leasePort]!,
        meter,
        transferSender: this.transferSender,
        leaseSession: this.leaseSession,
        waiting: () => this.waiting(),
        wallMs: () => this.schedules.wallMs(),
      });
    }
    this.tubeSetter = new TubeSetter(this.engine, options.records, owns, noteMoves);
    this.schedules = this.#makeSchedules(options, travel.port, takeJobId);
    const set: ShardSchedules["set"] = (...put) => this.schedules.set(...put);
    this.puts = new PutIntake(this.engine, this.replies, this.controlWords, set);
  }

  #makeReceiver(
    travel: Omit<ConstructorParameters<typeof TransferReceiver>[0], "onArrived">,
    directory: JobDirectory | undefined,
    shard: number,
  ): TransferReceiver {
    const moves = new JobIds(this.controlWords.words, ControlWord.JobMoves);
    const onArrived = (id: number): void => {
      // First: a list of jobs may omit one on its old shard once the directory names the new one.
      moves.take();
      directory?.set(id, shard);
    };
    return new TransferReceiver({ ...travel, onArrived });
  }

  #idTaker(directory: JobDirectory | undefined, shard: number): () => number {
    const ids = new JobIds(this.controlWords.words, ControlWord.JobIds);
    return () => {
      const id = ids.take();
      assert(id > 0, "ids begin at 1");
      directory?.set(id, shard);
      return id;
    };
  }

  #makeSchedules(
    { topology, shard, wallOffsetMs, records }: ShardOptions,
    port: ReplyPort,
    takeJobId: () => number,
  ): ShardSchedules {
    const { engine, replies, slicedCommands, clock } = this;
    assert(shard < topology.shards, "the shard is part of the topology");
    const ids = new JobIds(this.controlWords.words, ControlWord.JobIds);
    const moves = new JobIds(this.controlWords.words, ControlWord.ScheduleMoves);
    return new ShardSchedules({
      engine,
      replies,
      slicedCommands,
      records,
      shard,
      shards: topology.shards,
      port,
      clock,
      isDraining: () => this.controlWords.isSet(ControlWord.Draining),
      nowMs: () => this.nowMs,
      wallOffsetMs: wallOffsetMs ?? (() => 0),
      // Numbers of schedules are in the log, so they must keep rising after a restart, as ids do.
      nextNumber: () => ids.take(),
      onMove: () => moves.take(),
      takeJobId,
    });
  }

  /** When the shard next has something to do on its own, in monotonic ms. */
  get nextDueAtMs(): number {
    const { nextDueAtMs, schedules, batches } = this.engine;
    // Batches and ticks wait until the log can write; otherwise, the shard would not sleep
    // meanwhile.
    const mayLog = batches.timers.nextAtMs < nextDueAtMs && this.records?.hasRoom !== false;
    const dueAtMs = mayLog ? batches.timers.nextAtMs : nextDueAtMs;
    return schedules.table.size === 0 ? dueAtMs : Math.min(dueAtMs, this.schedules.turns.dueAtMs);
  }

  #lookInto(directory: JobDirectory, own: number): void {
    assert(own !== UNKNOWN_SHARD, "a shard has a number in the directory");
    this.replies.mayBeElsewhere = (id) => directory.find(id) !== own;
    this.replies.isElsewhere = (id) => ![own, UNKNOWN_SHARD].includes(directory.find(id));
  }

  #place(session: ShardSession, acceptor: number, connectionSlot: number): void {
    const index = connectionSlot * this.portCount + acceptor;
    assert(
      acceptor < this.portCount && connectionSlot >= 0,
      "a connection that arrives has a port and a slot",
    );
    assert(this.sessions[index] === undefined, "a slot has one session");
    assert(session.deferred === undefined, "a connection moves without deferred messages");
    session.acceptor = acceptor;
    session.connectionSlot = connectionSlot;
    this.engine.adoptSession(session.engineSession, index);
    this.sessions[index] = session;
  }

  protected abstract waiting(): number;
  protected abstract workerName(session: number, job: number, into: Uint8Array, at: number): number;
  abstract reserved(client: Session, slot: number): void;
  abstract timedOut(client: Session): void;
  abstract deadlineSoon(client: Session): void;
  abstract waitDue(client: Session): void;
  abstract claim(client: Session): boolean;
  abstract stillWaiting(client: Session): boolean;

  ownsTube(name: string): boolean {
    return this.tubeSetter.owns(name);
  }

  nextTubeSequence(): number {
    return 1 + this.tubeSequences.take();
  }
}
