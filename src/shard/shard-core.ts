// The core of a shard, as plain code: reads requests from its rings, drives its engine, writes
// replies. It has no thread and no clock.
//
// `step` is one turn: due timers first, then requests from every acceptor in batches. `next` runs
// turns, each with its publications. Its thread sleeps between turns (loop/). A simulation runs the
// same code.

import { assert, CHECKED } from "../base/assert.ts";
import { asciiBytes, latin1, shardOfTube } from "../base/bytes.ts";
import { Engine, type Outcome, ReserveOutcome } from "../engine/engine.ts";
import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { JobState, NO_SLOT, rowOf } from "../engine/jobs/job-table.ts";
import { Timer, TimerHeap } from "../engine/queues/heaps.ts";
import type { ClientEffects } from "../engine/state/effects.ts";
import { type Session, Waiting } from "../engine/state/session.ts";
import { Point, type ResidentShard, type Surroundings } from "../loop/role.ts";
import {
  BarrierAckView,
  CarriedView,
  ControlView,
  isById,
  MigrationView,
  RequestFlag,
  RequestOp,
  readRequest,
  requestOp,
  waitsForTransfer,
} from "../message/request.ts";
import { ReplyPort, ResponseKind } from "../message/response.ts";
import {
  ControlWord,
  Counter,
  countersOf,
  httpPort,
  lateReaders,
  memoryWords,
  portBell,
  shardRole,
  type Topology,
  threadOfShard,
} from "../message/topology.ts";
import { LandedView, TransferMessage } from "../message/transfer.ts";
import { TurnCounters } from "../message/turn-counters.ts";
import { Op } from "../protocol/commands.ts";
import { metaOf } from "../protocol/job-attribute.ts";
import { WORKER_BYTES_MAX } from "../protocol/job-failure.ts";
import { Reply, ReplyWord } from "../protocol/reply.ts";
import { Request } from "../protocol/request.ts";
import { ClaimWords, WorkerNames } from "../ring/connection-words.ts";
import type { Doorbell } from "../ring/doorbell.ts";
import type { Lease } from "../ring/monotonic-clock.ts";
import { EMPTY, type MessageSource, RingReader } from "../ring/ring.ts";
import { ControlWords, JobDirectory, JobIds, UNKNOWN_SHARD } from "../ring/shared-words.ts";
import { JOB_COUNTERS, JobCounter } from "../schema/job.ts";
import { BatchHomes } from "./commands/batch-homes.ts";
import type { BarrierRounds, CommandShard, ShardCommand } from "./commands/command.ts";
import { SHARD_COMMANDS, TRAITS, Trait } from "./commands/command-table.ts";
import { abandonPut, dropStored } from "./commands/put.ts";
import { ReadBarrier } from "./commands/read-barrier.ts";
import { reserveMany } from "./commands/reserve.ts";
import { ControlHandler } from "./control/control-handler.ts";
import { LatencyMeter } from "./control/shard-totals.ts";
import type { RecordLog } from "./records/record-log.ts";
import { ShardSchedules } from "./schedules/shard-schedules.ts";
import { MemoryBudget } from "./sessions/memory-budget.ts";
import { type RecordNumbers, ReplyWriter } from "./sessions/replies.ts";
import { Adoptions, DeferredMessages, ShardSession } from "./sessions/shard-session.ts";
import { AwaitJob, SessionCleanup, SlicedCommands, TURN_JOBS_MAX } from "./sessions/sliced-commands.ts";
import { TubeLists } from "./sessions/tube-lists.ts";
import { TubeSetter } from "./sessions/tube-setter.ts";
import { DeadLetters } from "./transfer/far-moves.ts";
import { TransferReceiver } from "./transfer/transfer-receiver.ts";
import { TransferSender } from "./transfer/transfer-sender.ts";

// Run queue of a shard: connections with expensive commands take turns, so that no pipeline delays
// others.
//
// Cheap commands are executed in the order of the rings. A connection whose command cost more than
// CHEAP_WORK_MAX is set aside. Its next messages wait in `session.deferred`, as they do behind a
// waiting reserve, while the rings continue with other connections. The queue then gives it turns
// between those of the rings.
//
// The queue uses start-time fair queueing. Each connection has a tag: its work so far, counted from
// when it joined. The smallest tag is next, and a command adds its cost. So ten connections with
// commands of 0.1 ms and one with commands of 10 ms each get an eleventh of the time, and no
// connection waits while the shard is idle. The order within a connection is that of its deferred
// messages. The limit on its commands in flight bounds their memory
// (acceptor/connection/replies.ts).

/** Work is counted in lookups of the engine, of about 50 ns each. */
export const WORK_PER_MS = 20_000;
/**
 * A command that costs more than this sets its connection aside: 10 us, so that 256 cheap ones take
 * 2.5 ms.
 */
const CHEAP_WORK_MAX = 200;

class RunQueue {
  /** Connections in the queue. */
  size = 0;
  readonly #line = new TimerHeap<ShardSession>();
  /** The tag of the connection that had the last turn. */
  #servedTo = 0;

  /** Sets aside a connection whose command cost `work`. */
  setAside(session: ShardSession, work: number): void {
    assert(work > 0, "a turn costs work");
    assert(!session.ended, "a client that is gone takes no turn");
    const turn = (session.turn ??= new Timer<ShardSession>(session));
    if (!session.isAside) this.size++;
    session.isAside = true;
    session.workTag = Math.max(session.workTag, this.#servedTo) + Math.max(1, work);
    this.#line.set(turn, session.workTag);
    assert(turn.position >= 0, "a session aside has a place in line");
  }

  /** Removes and returns the connection whose turn it is. It keeps its tag. */
  next(): ShardSession | undefined {
    const session = this.#line.first;
    if (session === undefined) return undefined;
    assert(session.isAside, "a session in line is aside");
    assert(session.workTag >= this.#servedTo, "turns go to ever greater tags");
    this.#servedTo = session.workTag;
    this.leave(session);
    return session;
  }

  /** Removes a connection that has ended or moves to another acceptor. */
  leave(session: ShardSession): void {
    if (!session.isAside) return;
    assert(session.turn !== undefined, "a session aside has a turn");
    session.isAside = false;
    this.size--;
    assert(this.size >= 0, "sessions in line are counted");
    this.#line.set(session.turn, Number.POSITIVE_INFINITY);
  }
}

// The names of the workers that hold leases, by job: one session holds all leases of a shard, so
// its name tells nothing.
//
// A lease ends in many ways, and none of them reports to this table. Instead, each new lease
// examines the next two entries and removes those of ended ones, so the table never has many more
// entries than there are leases.

/** Entries that a new lease examines. */
const EXAMINED = 2;

export class LeaseWorkers {
  readonly #engine: Engine;
  readonly #leaseSession: number;
  readonly #names = new Map<number, string>();
  #next = this.#names.keys();
  #last = "";

  constructor(engine: Engine, leaseSession: number) {
    this.#engine = engine;
    this.#leaseSession = leaseSession;
  }

  get size(): number {
    return this.#names.size;
  }

  /** Notes which worker has leased a job. */
  note(job: number, name: string): void {
    // Most leases in a row are one worker's, and then share one string.
    if (name !== this.#last) this.#last = name;
    this.#names.set(job, this.#last);
    for (let left = EXAMINED; left > 0; left--) this.#examineNext();
  }

  /** Returns the worker that leased the job last; "" if that is unknown. */
  of(job: number): string {
    return this.#names.get(job) ?? "";
  }

  #examineNext(): void {
    const { done, value: job } = this.#next.next();
    if (done === true) this.#next = this.#names.keys();
    else if (this.#engine.heldBy(this.#engine.session(this.#leaseSession), job) === NO_SLOT)
      this.#names.delete(job);
  }
}

// The facts about a leased job that follow RESERVED: ` <pri> <ttr> <ms left> <age ms> <each
// counter>… <tube>[ meta=<pair>]…`. Only the HTTP thread sees them.

function leaseDetails(engine: Engine, slot: number, nowMs: number): Uint8Array {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  assert(page.state[row] === JobState.Reserved, "a leased job is reserved");
  const leftMs = Math.round(page.deadlineAtMs[row]! - nowMs);
  const ageMs = Math.max(0, Math.round(nowMs - page.createdAtMs[row]!));
  const counters = JOB_COUNTERS.map((name) => page.count(row, JobCounter[name])).join(" ");
  const tube = engine.tubeOf(slot).name;
  const pairs = metaOf(engine.policies.attributes.fixedAttributes(slot));
  const meta = pairs.map((pair) => ` meta=${pair}`).join("");
  return asciiBytes(
    ` ${page.pri[row]} ${page.ttrSeconds[row]} ${leftMs} ${ageMs} ${counters} ${tube}${meta}`,
  );
}

/** Due timers processed in one turn: about a microsecond each. */
const TURN_DUE_MAX = 500;

/** Not a port. */
const NO_PORT = -1;
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

/** Messages taken from one acceptor before others get their turn and replies are published. */
const BATCH_MESSAGES = 64;
/** A clock reading takes 40 ns. */
const MESSAGES_PER_CLOCK_READING = 8;
/** Work of expensive commands in one turn, not counting the last of them: half a millisecond. */
const TURN_WORK_MAX = WORK_PER_MS / 2;
/** Time after which a turn takes no more from the rings, so that replies leave. */
const TURN_MS = 1;
/** Sliced commands that end in one turn, if they take little time: most of them only waited. */
const ENDED_MAX = 16;

/**
 * The next step. Replies are published before the records that they wait for, so that the binlog
 * may ring for both: see ReplyPort.publish.
 */
const Action = {
  Step: 0,
  Release: 1,
  PublishReplies: 2,
  RingAcceptor: 3,
  PublishRecords: 4,
  RingLog: 5,
} as const;
type Action = (typeof Action)[keyof typeof Action];

/** The thread that runs a shard. */
interface ShardThread {
  /** The doorbell of each acceptor. */
  readonly acceptors: readonly Doorbell[];
  readonly binlog: Doorbell;
  readonly surroundings: Surroundings;
  /**
   * In a group: the lease that permits serving. After its end no message is taken and no timer
   * expires. Its renewal rings the doorbell.
   */
  readonly lease?: Lease | undefined;
}

/** `nextTubeSequence` must work during the constructor: the engine creates its first tube there. */
export class ShardCore implements ClientEffects, CommandShard, ResidentShard {
  begunAtMs = 0;
  taken = 0;
  hasMore = false;
  /** Set by `runIn`. */
  #thread!: ShardThread;
  #lease: Lease | undefined;
  #action: Action = Action.Step;
  /** The acceptor whose messages are released or published next. */
  #acceptor = 0;
  /** Whether that acceptor waits for the room that was released. */
  #waits = false;
  readonly turnCounters: TurnCounters;
  readonly engine: Engine;
  readonly ports: readonly ReplyPort[];
  readonly requests: readonly RingReader[];
  readonly counters: Float64Array;
  readonly clock: () => number;
  readonly portCount: number;
  readonly quoteNames: boolean;
  /** Flags and counters that all threads share. */
  readonly controlWords: ControlWords;
  readonly #tubeSequences: JobIds;
  readonly #workerNames: readonly WorkerNames[];
  readonly #claims: readonly ClaimWords[];
  readonly sessions: (ShardSession | undefined)[] = [];
  readonly adoptions: Adoptions;
  readonly replies: ReplyWriter;
  readonly lists: TubeLists;
  readonly tubeSetter: TubeSetter;
  readonly schedules: ShardSchedules;
  readonly slicedCommands: SlicedCommands;
  /** Connections with expensive commands. */
  readonly aside = new RunQueue();
  readonly #commandWork: number;
  readonly memory: MemoryBudget;
  readonly transferSender: TransferSender;
  readonly #deadLetters: DeadLetters;
  readonly homes: BatchHomes;
  readonly transferReceiver: TransferReceiver;
  readonly #barrier: ReadBarrier;
  readonly records: RecordLog | undefined;
  /** Answers the HTTP thread; undefined without one. */
  readonly control: ControlHandler | undefined;
  /** The port of the HTTP thread, through which leases get jobs, and the session of its slot 0. */
  readonly #leasePort: number;
  readonly leaseSession: number;
  /** Sessions whose wait over several shards is counted on this shard. */
  readonly leadWaits = new Set<ShardSession>();
  nowMs = 0;
  /** The message being executed. */
  readonly #request = new Request();
  readonly #leaseWorkers: LeaseWorkers;
  readonly #resuming: ShardSession[] = [];
  readonly #stalled: ShardSession[] = [];
  /** Work of expensive commands in this turn. */
  #turnWork = 0;
  /** Whether the turn was so expensive that replies should leave before the next command. */
  #isLong = false;
  #turnBeganAtMs = 0;
  /** When connections that are set aside had their last turn. */
  #asideAtMs = Number.NEGATIVE_INFINITY;
  /** The acceptor whose ring is read first in this turn. */
  #firstAcceptor = 0;
  /** Whether the last turn put off sliced work because it had commands to execute. */
  #owesSlices = false;

  constructor(options: ShardOptions) {
    const { topology, shard, records } = options;
    this.clock = options.clock ?? (() => this.nowMs);
    this.portCount = topology.ports;
    this.adoptions = new Adoptions(topology.ports, (session, port, slot) => this.#place(session, port, slot));
    this.quoteNames = options.quoteNames;
    this.controlWords = new ControlWords(topology.control);
    this.#tubeSequences = new JobIds(this.controlWords.words, ControlWord.TubeSequence);
    this.#workerNames = topology.workerNames.map((buffer) => new WorkerNames(buffer));
    this.#claims = topology.claims.map((buffer) => new ClaimWords(buffer));
    this.requests = topology.requests.map((rings) => new RingReader(rings[shard]!));
    const thread = threadOfShard(topology, shard);
    this.ports = topology.responses.map(
      (rings, acceptor) => new ReplyPort(rings[shard]!, portBell(topology, acceptor) === thread),
    );
    this.counters = countersOf(topology, shardRole(shard));
    this.turnCounters = new TurnCounters(this.counters, this.requests);
    const hasHttp = topology.ports > topology.acceptors;
    this.#leasePort = hasHttp ? httpPort(topology) : NO_PORT;
    this.leaseSession = httpPort(topology);
    const meter = hasHttp ? new LatencyMeter() : undefined;
    const shardOf = (name: string): number => shardOfTube(asciiBytes(name), 0, name.length, topology.shards);
    const owns = (name: string): boolean => shardOf(name) === shard;
    this.engine = new Engine({
      effects: this,
      ...(records === undefined ? {} : { records }),
      ...(options.arena === undefined ? {} : { arena: options.arena }),
      ...(meter === undefined ? {} : { meter }),
      ownsDefaultTube: owns("default"),
      ownsTube: owns,
      ...(options.keySeed === undefined ? {} : { keySeed: options.keySeed }),
      workerName: (session, job, into, at) => this.#workerName(session, job, into, at),
      turnDueMax: options.turnDueMax ?? TURN_DUE_MAX,
      ...(options.orderedTubesMin === undefined ? {} : { orderedTubesMin: options.orderedTubesMin }),
    });
    this.memory = new MemoryBudget(this.engine, memoryWords(topology), topology.shards);
    this.engine.bodies.limit = this.memory;
    this.replies = new ReplyWriter(this.engine, this.ports, records ?? NO_NUMBERS, topology.storedBytesMin);
    this.lists = new TubeLists(this.engine, this.ports, this.replies);
    this.#leaseWorkers = new LeaseWorkers(this.engine, this.leaseSession);
    this.#barrier = new ReadBarrier(this.engine, this.ports, topology.acceptors, lateReaders(topology));
    this.slicedCommands = new SlicedCommands(this.replies, options.turnJobsMax ?? TURN_JOBS_MAX, this.clock);
    this.#commandWork = options.commandWork ?? 0;
    this.records = records;
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    if (directory !== undefined) this.#lookInto(directory, shard);
    const port = this.ports[shard % topology.acceptors]!;
    const travel = { engine: this.engine, port, records, shards: topology.shards };
    const noteMoves = (): void => this.controlWords.set(ControlWord.JobsMove);
    const onSettled = (id: number): void => this.slicedCommands.settled(id);
    this.engine.queues.onSettled = onSettled;
    this.transferSender = new TransferSender({ ...travel, shardOf, onBegin: noteMoves, onLanded: onSettled });
    this.#deadLetters = new DeadLetters(this.engine, this.transferSender);
    const takeJobId = this.#idTaker(directory, shard);
    this.homes = new BatchHomes({ ...travel, shard, shardOf, onSettled });
    this.transferReceiver = this.#makeReceiver(travel, directory, shard);
    if (meter !== undefined) {
      this.control = new ControlHandler({
        shard: this,
        port: this.ports[this.#leasePort]!,
        meter,
        transferSender: this.transferSender,
        leaseSession: this.leaseSession,
        waiting: () => this.waiting(),
        wallMs: () => this.schedules.wallMs(),
      });
    }
    this.tubeSetter = new TubeSetter(this.engine, records, owns, noteMoves);
    this.schedules = this.#makeSchedules(options, travel.port, takeJobId);
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

  #lookInto(directory: JobDirectory, own: number): void {
    assert(own !== UNKNOWN_SHARD, "a shard has a number in the directory");
    this.replies.mayBeElsewhere = (id) => directory.find(id) !== own;
    this.replies.isElsewhere = (id) => ![own, UNKNOWN_SHARD].includes(directory.find(id));
  }

  // --- turns -------------------------------------------------------------------------------------

  /** Sets the thread that calls `next`. */
  runIn(thread: ShardThread): void {
    this.#thread = thread;
    this.#lease = thread.lease;
    assert(thread.acceptors.length === this.portCount, "each port has a doorbell");
  }

  get isInTurn(): boolean {
    return this.#action !== Action.Step;
  }

  #isOver(lease: Lease): boolean {
    return lease.isOver(this.#thread.surroundings.nowMs());
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a method for each action costs 7 to 20 ns a turn
  next(): Point {
    const { acceptors, binlog, surroundings, lease } = this.#thread;
    for (;;) {
      switch (this.#action) {
        case Action.Step:
          // Changes made now would be lost: the process is about to end.
          if (this.controlWords.isSet(ControlWord.NoMoreReplies)) return Point.Ended;
          this.begunAtMs = surroundings.nowMs();
          if (lease?.isOver(this.begunAtMs)) {
            this.taken = 0;
            this.hasMore = false;
            return Point.Turned;
          }
          this.turnCounters.begin();
          this.taken = this.step(this.begunAtMs);
          this.turnCounters.end(this.taken);
          this.#acceptor = 0;
          this.#action = Action.Release;
          break;
        case Action.Release:
          this.#waits = this.requests[this.#acceptor]!.release();
          this.#action = Action.PublishReplies;
          break;
        case Action.PublishReplies: {
          const answered = this.ports[this.#acceptor]!.publish(this.records?.shownNumber ?? 0);
          this.#action = Action.RingAcceptor;
          if (this.#waits || answered) break;
          if (this.#nextAcceptor()) continue;
          break;
        }
        case Action.RingAcceptor:
          if (acceptors[this.#acceptor]!.ring()) this.turnCounters.woke();
          if (this.#nextAcceptor()) continue;
          break;
        case Action.PublishRecords:
          if (!this.records?.publish()) return this.#turned();
          this.#action = Action.RingLog;
          break;
        case Action.RingLog:
          if (binlog.ring()) this.turnCounters.woke();
          return this.#turned();
      }
      if (surroundings.isHeldUp?.() === true) return Point.HeldUp;
    }
  }

  /** Advances to the next acceptor. Returns false after the last. */
  #nextAcceptor(): boolean {
    const isLast = ++this.#acceptor === this.portCount;
    assert(this.#acceptor <= this.portCount, "a turn visits each acceptor once");
    this.#action = isLast ? Action.PublishRecords : Action.Release;
    return !isLast;
  }

  #turned(): Point {
    assert(this.#acceptor === this.portCount, "a turn ends after a visit to each acceptor");
    this.hasMore = this.taken > 0 || this.hasWork;
    this.#action = Action.Step;
    return Point.Turned;
  }

  /** When the shard next has something to do on its own, in monotonic ms. */
  get nextDueAtMs(): number {
    if (this.#lease !== undefined && this.#isOver(this.#lease)) return Number.POSITIVE_INFINITY;
    const { nextDueAtMs, schedules, batches } = this.engine;
    // Batches and ticks wait until the log can write; otherwise, the shard would not sleep
    // meanwhile.
    const mayLog = batches.timers.nextAtMs < nextDueAtMs && this.records?.hasRoom !== false;
    const dueAtMs = mayLog ? batches.timers.nextAtMs : nextDueAtMs;
    return schedules.table.size === 0 ? dueAtMs : Math.min(dueAtMs, this.schedules.turns.dueAtMs);
  }

  /** Runs one turn. Returns the number of messages taken. `publish` makes the replies visible. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: parts that have no work cost no call per turn
  step(nowMs: number): number {
    this.nowMs = nowMs;
    this.#turnWork = 0;
    this.#isLong = false;
    this.#turnBeganAtMs = nowMs;
    this.engine.beginTurn();
    if (this.slicedCommands.isTouched) this.slicedCommands.beginTurn();
    const { batches, schedules } = this.engine;
    if (schedules.unlogged.length > 0) schedules.logRestored();
    this.engine.runDue(nowMs);
    if (schedules.table.size > 0) this.schedules.turns.step(nowMs);
    if (this.#resuming.length > 0) this.#runResumed();
    const taken = this.#takeFromAll();
    if (this.replies.longReady > 0) this.#continueLong();
    if (this.#resuming.length > 0) this.#runResumed();
    if (this.aside.size > 0 && (taken === 0 || this.nowMs - this.#asideAtMs >= TURN_MS)) this.#runAside();
    if (batches.hasNews || batches.timers.nextAtMs <= this.nowMs) this.#endBatches();
    // Replies leave before work that can wait. But that work gets every second turn.
    if (taken > 0 && !this.#owesSlices) this.#owesSlices = true;
    else this.#workOn();
    if (this.#deadLetters.isUnderWay || this.engine.policies.deaths.someLeave)
      this.#deadLetters.step(this.nowMs);
    if (this.transferSender.waiting.length > 0) this.transferSender.step();
    if (this.records?.hasRequest === true && this.records.hasRoom) this.records.restate();
    if (this.#resuming.length > 0) this.#runResumed();
    this.memory.settle();
    return taken;
  }

  /** Continues long replies, and the sessions whose replies are complete. */
  #continueLong(): void {
    for (let session = this.replies.pumpLong(); session !== undefined; session = this.replies.pumpLong())
      this.resume(session);
  }

  /** Continues work that takes many turns. */
  #workOn(): void {
    this.#owesSlices = false;
    this.readClock();
    if (this.slicedCommands.size === 0) this.slicedCommands.spentMs = 0;
    else if (this.records?.hasRoom !== false) this.#moveOn(this.nowMs);
    if (this.lists.underWay.length > 0) this.lists.pump();
    if (this.control !== undefined) {
      this.readClock();
      this.control.step();
    }
    if (this.engine.queues.untidy.size > 0) this.engine.tidy();
  }

  /**
   * Gives connections with expensive commands their turns, until the shard's turn is long. While
   * commands arrive, that happens once in a while: those behind a pipeline in the ring would wait
   * for an expensive command with each batch of it, and replies would leave after one.
   */
  #runAside(): void {
    while (!this.#isLong && this.records?.hasRoom !== false) {
      const session = this.aside.next();
      if (session === undefined) break;
      this.resume(session);
      this.#runResumed();
    }
    this.readClock();
    this.#asideAtMs = this.nowMs;
  }

  /** Charges a command that may have been expensive to its connection. */
  #charge(session: ShardSession): void {
    const work = this.engine.looks + this.slicedCommands.spentMs * WORK_PER_MS;
    this.slicedCommands.spentMs = 0;
    this.#turnWork += work;
    this.#isLong = this.#turnWork > TURN_WORK_MAX;
    if (work > CHEAP_WORK_MAX && !session.ended) this.aside.setAside(session, work);
  }

  /**
   * Executes a batch of each acceptor until the turn is long. The next turn begins after the last
   * acceptor, so that each gets its turn. Returns the number of messages taken.
   */
  #takeFromAll(): number {
    const first = this.#firstAcceptor;
    let taken = 0;
    for (let turn = 0; turn < this.portCount && !this.#isLong; turn++) {
      const acceptor = (first + turn) % this.portCount;
      taken += this.#takeFrom(acceptor);
      if (!this.#isLong && this.nowMs - this.#turnBeganAtMs <= TURN_MS) continue;
      this.#firstAcceptor = (acceptor + 1) % this.portCount;
      break;
    }
    return taken;
  }

  /** Executes up to a batch of messages, as long as replies find room. Returns how many. */
  #takeFrom(acceptor: number): number {
    const port = this.ports[acceptor]!;
    if (port.blocked) port.drainOverflow();
    const ring = this.requests[acceptor]!;
    let taken = 0;
    while (taken < BATCH_MESSAGES && this.#mayTake(acceptor) && !this.#isLong) {
      if (taken > 0 && taken % MESSAGES_PER_CLOCK_READING === 0) {
        this.readClock();
        if (this.nowMs - this.#turnBeganAtMs > TURN_MS) break;
      }
      const offset = ring.next();
      if (offset === EMPTY) break;
      if (taken++ === 0) this.readClock();
      this.#receive(ring, offset, acceptor);
      if (this.#resuming.length > 0) this.#runResumed();
    }
    assert(taken <= BATCH_MESSAGES, "a ring gets at most one batch");
    this.counters[Counter.Crossed]! += Number(!port.isLocal) * taken;
    return taken;
  }

  /**
   * Returns whether the messages of an acceptor may be executed: the replies and records of one
   * more command are likely to find room.
   */
  #mayTake(acceptor: number): boolean {
    const { adoptions } = this;
    if (!this.ports[acceptor]!.open || this.records?.hasRoom === false) return false;
    return adoptions.waitingCount === 0 || !adoptions.isWaiting(acceptor);
  }

  /** Reads the clock: in a turn that is held up, delays and TTRs would otherwise end too early. */
  readClock(): void {
    this.nowMs = Math.max(this.nowMs, this.clock());
  }

  #moveOn(nowMs: number): void {
    for (let left = ENDED_MAX; left > 0 && this.slicedCommands.spentMs < TURN_MS / 8; left--) {
      const session = this.slicedCommands.step(this.#mayAnswer, nowMs);
      if (session === undefined) break;
      if (session.ended) this.end(session);
      else this.resume(session);
    }
    this.slicedCommands.spentMs = 0;
  }

  readonly #mayAnswer = (session: ShardSession): boolean => this.ports[session.acceptor]!.open;

  /** Whether the shard has work now, apart from timers. */
  get hasWork(): boolean {
    if (this.records?.hasRoom === false) return false;
    if (this.#lease !== undefined && this.#isOver(this.#lease)) return false;
    for (let acceptor = 0; acceptor < this.portCount; acceptor++) {
      const port = this.ports[acceptor]!;
      if (
        port.blocked
          ? port.ring.hasRoom(port.ring.messageBytesMax)
          : this.requests[acceptor]!.hasMessage && this.#mayTake(acceptor)
      ) {
        return true;
      }
    }
    return (
      this.#resuming.some(this.#mayAnswer) ||
      (this.slicedCommands.size > 0 && this.slicedCommands.hasWork(this.#mayAnswer)) ||
      ((this.#deadLetters.isUnderWay || this.engine.policies.deaths.someLeave) &&
        this.#deadLetters.hasWork) ||
      (this.engine.batches.hasNews && (this.homes.hasWork || this.engine.batchEnds.hasWork)) ||
      (this.transferSender.waiting.length > 0 && this.transferSender.hasWork) ||
      this.control?.hasWork === true ||
      this.records?.hasRequest === true ||
      (this.replies.longReady > 0 && this.replies.longHasWork) ||
      (this.lists.underWay.length > 0 && this.lists.hasWork) ||
      this.aside.size > 0 ||
      this.engine.queues.untidy.size > 0
    );
  }

  /** Whether commands have arrived that can be executed now. */
  get hasCommands(): boolean {
    if (this.#lease !== undefined && this.#isOver(this.#lease)) return false;
    for (let acceptor = 0; acceptor < this.portCount; acceptor++)
      if (this.requests[acceptor]!.hasMessage && this.#mayTake(acceptor)) return true;
    return false;
  }

  /** Asks the acceptors and the log to ring when they have made room that work waits for. */
  wantRoom(): void {
    this.records?.wantRoom();
    for (const port of this.ports) if (!port.open) port.ring.wantRoom();
    if (this.replies.longReady > 0) this.replies.wantRoomForLong();
    if (this.lists.underWay.length > 0) this.lists.wantRoom();
    this.control?.wantRoom();
  }

  // --- requests ----------------------------------------------------------------------------------

  #beginSession(acceptor: number, connectionSlot: number): ShardSession {
    assert(acceptor < this.portCount, "a session's port is one of the shard's");
    const index = connectionSlot * this.portCount + acceptor;
    assert(this.sessions[index] === undefined, "a slot has one session");
    const session = new ShardSession(this.engine.session(index), acceptor, connectionSlot);
    this.sessions[index] = session;
    return session;
  }

  #receive(source: MessageSource, offset: number, acceptor: number): void {
    const request = this.#request;
    readRequest(source, offset, request);
    const { op, flags, slot } = request;
    if (TRAITS[op]! !== 0 && this.#takeSpecial(request, acceptor)) return;
    const session = this.sessions[slot * this.portCount + acceptor] ?? this.#beginSession(acceptor, slot);
    if (session.isRedirected && (op === RequestOp.Locate || (flags & RequestFlag.Probe) !== 0)) {
      // The acceptor has returned to this shard with the redirected command.
      session.beginReplies(0);
      this.#execute(session, request);
      return;
    }
    const busy = session.deferred !== undefined || this.#isAnswering(session);
    if ((flags & RequestFlag.Metered) !== 0) {
      if ((flags & RequestFlag.First) !== 0) session.beginReplies(request.meterBytes);
      else this.read(session, request.meterBytes);
    } else if (!busy) {
      // Part of a conversation or of a put in pieces: nothing else is in flight.
      session.beginReplies(0);
    }
    if (!busy && !session.isAside && !session.owesReading) {
      this.#execute(session, request);
      return;
    }
    session.deferred ??= new DeferredMessages();
    session.deferred.push(source, offset);
  }

  /** Takes a message with a trait. Returns false if it waits its turn, as others do. */
  #takeSpecial(request: Request, acceptor: number): boolean {
    const { op, flags, slot } = request;
    const traits = TRAITS[op]!;
    if (traits === Trait.Connectionless) {
      this.#takeConnectionless(request, acceptor);
      return true;
    }
    const session = this.sessions[slot * this.portCount + acceptor];
    // An orderly end may come before the session's last Credit or the news that the client is gone.
    if (session === undefined && (traits & Trait.MayBeLate) !== 0) return true;
    // An orderly Close waits. A part of a set-tube of all shards does not: if its client left
    // meanwhile, this shard would drop it, while others have already executed it.
    const isPart = (flags & RequestFlag.AckOnly) !== 0;
    if (op === Op.SetTube ? !isPart : (flags & RequestFlag.Orderly) !== 0) return false;
    this.#execute(session ?? this.#beginSession(acceptor, slot), request);
    return true;
  }

  /** Handles a message that belongs to no connection. */
  #takeConnectionless(request: Request, acceptor: number): void {
    const { op, slot } = request;
    if (op === RequestOp.BarrierAck) this.#passBarrier(BarrierAckView.barrier(request));
    else if (op === RequestOp.Adopt) this.adoptions.adopt(MigrationView.move(request), acceptor, slot);
    else if (op === RequestOp.Carried) {
      this.readClock();
      this.#takeCarried(request);
    } else {
      assert(op === RequestOp.Control, "every message without a connection has a branch here");
      const { bytes, start, end } = request.body;
      assert(this.control !== undefined, "only an http thread sends Control");
      this.control.take(ControlView.question(request), bytes.subarray(start, end));
    }
  }

  /** Notes what the client has read of its replies, so that its next commands may run. */
  read(session: ShardSession, bytes: number): void {
    session.read(bytes);
    if (!this.#mustWait(session)) this.resume(session);
  }

  /** Runs deferred messages of sessions whose command has ended, until they wait again. */
  #runResumed(): void {
    for (let session = this.#resuming.pop(); session !== undefined; session = this.#resuming.pop()) {
      assert(session.resuming, "a resumed session was queued");
      session.resuming = false;
      const port = this.ports[session.acceptor]!;
      const { deferred } = session;
      if (deferred === undefined) continue;
      // Without room for a reply, the rest stays deferred until the next turn. In a long turn, it
      // joins the run queue: many sessions resumed at once must not take turns from the rings.
      while (!deferred.isEmpty && !this.#mustWait(session) && port.open && !this.#isLong) {
        readRequest(deferred, deferred.shift(), this.#request);
        this.#execute(session, this.#request);
      }
      if (deferred.isEmpty) session.deferred = undefined;
      else if (!this.#mustWait(session)) {
        if (port.open) this.aside.setAside(session, 1);
        else this.#stalled.push(session);
      }
    }
    while (this.#stalled.length > 0) this.resume(this.#stalled.pop()!);
  }

  /** Returns whether the deferred messages wait for something other than room in a ring. */
  #mustWait(session: ShardSession): boolean {
    if (session.isAside || this.#isAnswering(session)) return true;
    // A Close has no reply to read, and the next command reports what was read of the last reply.
    return session.owesReading && session.deferred?.firstOp !== RequestOp.Close;
  }

  /** Returns whether the session is executing a command, so that later ones have to wait. */
  #isAnswering(session: ShardSession): boolean {
    return (
      session.engineSession.waiting === Waiting.Alone ||
      session.longReply !== undefined ||
      session.slicedCommand !== undefined ||
      session.isRedirected ||
      session.barrier !== 0
    );
  }

  resume(session: ShardSession): void {
    if (session.resuming || session.deferred === undefined) return;
    session.resuming = true;
    this.#resuming.push(session);
  }

  // put 7/18
  #execute(session: ShardSession, request: Request): void {
    const { counted } = request;
    if (counted !== 0) {
      const counter = Counter.Commands + counted;
      if (CHECKED) assert(counter < Counter.CommandTimes, "a counted command has a counter");
      this.counters[counter] = this.counters[counter]! + 1;
    }
    if (this.records !== undefined) this.replies.recordsBefore = this.records.lastNumber;
    this.engine.looks = this.#commandWork;
    if (
      this.engine.jobCounts[JobState.Moving]! > 0 &&
      isById(request) &&
      this.engine.transfers.isMoving(request.id)
    )
      this.#runForMovingJob(session, request);
    else {
      this.replies.request = request;
      SHARD_COMMANDS[request.op]!(this, session, request);
    }
    if (this.engine.looks > CHEAP_WORK_MAX || this.slicedCommands.spentMs > 0) this.#charge(session);
  }

  /**
   * Executes a command by id whose job is in transfer. The news of its arrival may be late, as with
   * a full disk: this answer must not contradict what a client has done there since.
   */
  #runForMovingJob(session: ShardSession, request: Request): void {
    assert(request.id > 0, "a job in transit has an id");
    if (this.replies.isElsewhere(request.id)) this.replies.elsewhere(session, request, request.flags);
    else if (waitsForTransfer(request)) {
      const kept = request.clone();
      const moving = (): number | undefined =>
        this.engine.transfers.isMoving(kept.id) ? kept.id : undefined;
      this.slicedCommands.join(session, new AwaitJob(moving, () => this.#run(session, kept)));
    } else this.#run(session, request);
  }

  #run(session: ShardSession, request: Request): void {
    this.replies.request = request;
    SHARD_COMMANDS[request.op]!(this, session, request);
  }

  /** Continues a command once all acceptors have acknowledged its barrier. */
  #passBarrier(number: number): void {
    assert(number > 0, "a barrier has a number");
    const session = this.#barrier.acknowledged(number);
    if (session === undefined) return;
    assert(!session.ended, "a client that is gone waits for no barrier");
    if (this.records !== undefined) this.replies.recordsBefore = this.records.lastNumber;
    this.engine.looks = this.#commandWork;
    if (session.barrierForAcceptor) {
      session.barrierForAcceptor = false;
      this.replies.signal(session, ResponseKind.Ack);
    } else if (session.afterBarrier !== undefined) {
      const { afterBarrier } = session;
      session.afterBarrier = undefined;
      afterBarrier();
    } else this.reserve(session, 0);
    this.#charge(session);
    this.resume(session);
  }

  /**
   * Takes a message from another shard, which an acceptor relays. Each goes to the part of this
   * shard that it concerns.
   */
  #takeCarried(message: Request): void {
    const { transferSender, transferReceiver, homes, schedules, nowMs } = this;
    const { body } = message;
    assert(body.end <= body.bytes.length, "a message from a shard lies in its ring");
    const transferMessage = CarriedView.transferMessage(message);
    const from = CarriedView.fromShard(message);
    const transfer = CarriedView.transfer(message);
    if (transferMessage === TransferMessage.Begin) transferReceiver.begin(from, transfer, body, nowMs);
    else if (transferMessage === TransferMessage.Piece) transferReceiver.piece(from, transfer, body, nowMs);
    else if (transferMessage === TransferMessage.Credit) transferSender.credit(transfer);
    else if (transferMessage >= TransferMessage.AskJobs)
      schedules.overlaps.take(transferMessage, from, transfer, body);
    else if (transferMessage >= TransferMessage.BatchState) homes.take(transferMessage, from, body, nowMs);
    else if (transferMessage >= TransferMessage.ClaimName)
      schedules.claims.take(transferMessage, from, transfer, body);
    else {
      const view = new DataView(body.bytes.buffer, body.bytes.byteOffset + body.start);
      const refusal = LandedView.refusal(view, 0) as Outcome;
      transferSender.landed(transfer, LandedView.taken(view, 0), refusal, nowMs);
    }
  }

  // --- commands ----------------------------------------------------------------------------------

  reserve(session: ShardSession, timeoutMs: number): void {
    assert(session.engineSession.waiting === Waiting.No, "a session that reserves does not wait yet");
    if (session.batch !== undefined) {
      reserveMany(this, session, session.batch, timeoutMs);
      return;
    }
    const slot = this.engine.reserve(session.engineSession, timeoutMs, this.nowMs);
    if (slot >= 0) this.giveJob(session, slot, 0);
    else if (slot === ReserveOutcome.TimedOut) this.replies.fixed(session, Reply.timedOut);
    else if (slot === ReserveOutcome.DeadlineSoon) this.replies.fixed(session, Reply.deadlineSoon);
  }

  /**
   * Starts a read barrier if it may get the session a job. Returns whether it did: see ReadBarrier.
   */
  beginBarrier(session: ShardSession): boolean {
    this.engine.runDue(this.nowMs);
    return (
      this.engine.bestReady(session.engineSession, this.nowMs) === NO_SLOT &&
      this.#barrier.beginForJob(session)
    );
  }

  afterReading(session: ShardSession, request: Request, rounds: BarrierRounds, command: ShardCommand): void {
    if (!this.#barrier.begin(session, rounds)) {
      command(this, session, request);
      return;
    }
    const kept = request.clone();
    assert(session.afterBarrier === undefined, "one command waits for a barrier");
    session.afterBarrier = () => {
      this.replies.request = kept;
      command(this, session, kept);
    };
  }

  /**
   * Answers RESERVED, or the batch that the session has waited for. A session of the HTTP thread
   * hands the job to the lease session at once and gets the details of the lease.
   */
  giveJob(session: ShardSession, slot: number, flags: number): void {
    const { batch } = session;
    if (batch !== undefined) {
      session.endBatch();
      this.replies.batch(session, [slot], batch.details);
      return;
    }
    if (session.acceptor !== this.#leasePort) {
      this.replies.job(session, ReplyWord.reserved, slot, flags);
      return;
    }
    this.engine.hand(slot, session.engineSession, this.engine.session(this.leaseSession));
    const id = this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
    this.#leaseWorkers.note(id, this.#workerNames[this.#leasePort]!.text(session.connectionSlot));
    const details = leaseDetails(this.engine, slot, this.nowMs);
    this.replies.job(session, ReplyWord.reserved, slot, flags, details);
  }

  detach(session: ShardSession, number: number): void {
    assert(
      session.slicedCommand === undefined && session.longReply === undefined,
      "a connection moves with no answer under way",
    );
    assert(
      session.barrier === 0 && session.incoming === undefined,
      "a connection moves with no command under way",
    );
    assert(!session.isRedirected && !session.ended, "a connection moves with its commands answered");
    this.aside.leave(session);
    this.#runUnanswered(session);
    this.engine.detachSession(session.engineSession);
    this.sessions[session.connectionSlot * this.portCount + session.acceptor] = undefined;
    this.replies.signal(session, ResponseKind.Detached);
    this.adoptions.detached(number, session);
  }

  /**
   * Executes the deferred messages of a connection that moves: the end of a wait elsewhere, and
   * its own end. They get no reply.
   */
  #runUnanswered(session: ShardSession): void {
    const { deferred } = session;
    if (deferred === undefined) return;
    while (!deferred.isEmpty) {
      readRequest(deferred, deferred.shift(), this.#request);
      const { op } = this.#request;
      assert(
        op === RequestOp.WaitShared || op === RequestOp.StopWait,
        "a connection moves with no command under way",
      );
      this.#run(session, this.#request);
    }
    session.deferred = undefined;
  }

  /**
   * Ends the session of a connection that is gone. Commands that have not begun are dropped. A
   * sliced command in progress is finished first, and then this is called again.
   */
  end(session: ShardSession): void {
    // Due timers concern this client, too: they may end its wait.
    if (!session.ended) this.engine.runDue(this.nowMs);
    session.ended = true;
    this.aside.leave(session);
    if (session.deferred !== undefined) this.#drop(session.deferred);
    session.deferred = undefined;
    session.barrier = 0;
    session.afterBarrier = undefined;
    this.leadWaits.delete(session);
    abandonPut(this, session);
    this.replies.abandonLong(session);
    this.lists.abandon(session);
    if (session.slicedCommand !== undefined) return;
    const giveBack = new SessionCleanup(this.engine, session);
    if (!this.slicedCommands.takesTurn(giveBack.jobs)) {
      // The cleanup may have to wait for its turn, and a client that is gone must get no job until
      // then.
      this.engine.abandonWait(session.engineSession, this.nowMs);
      this.slicedCommands.join(session, giveBack);
      return;
    }
    const index = session.connectionSlot * this.portCount + session.acceptor;
    assert(session.engineSession.index === index, "the engine's session has the same index");
    assert(this.sessions[index] === session, "a session ends in its own slot");
    this.engine.closeSession(session.engineSession, this.nowMs);
    this.sessions[index] = undefined;
    this.replies.signal(session, ResponseKind.Closed);
  }

  /** Drops messages that will not be executed, and frees their bodies. */
  #drop(deferred: DeferredMessages): void {
    while (!deferred.isEmpty) {
      const offset = deferred.shift();
      if (requestOp(deferred, offset) !== RequestOp.PutStored) continue;
      readRequest(deferred, offset, this.#request);
      dropStored(this, this.#request);
    }
  }

  /** Returns `acceptor.connection`, or "lease" for the session that holds the leases. */
  holderName(session: number): string {
    assert(session >= 0, "the holder of a job is a session");
    if (this.#holdsLeases(session)) return "lease";
    return `${session % this.portCount}.${Math.floor(session / this.portCount)}`;
  }

  #holdsLeases(session: number): boolean {
    return session === this.leaseSession && this.#leasePort !== NO_PORT;
  }

  /**
   * Writes the name or address of the worker that holds this job; without either, the same as
   * `holderName`.
   */
  #workerName(session: number, job: number, into: Uint8Array, at: number): number {
    const slot = Math.floor(session / this.portCount);
    const length = this.#workerNames[session % this.portCount]!.read(slot, into, at);
    if (length > 0) return length;
    const leased = this.#holdsLeases(session) ? this.#leaseWorkers.of(job) : "";
    const name = asciiBytes(leased || this.holderName(session));
    assert(at + name.length <= into.length, "the name of a connection fits");
    into.set(name, at);
    return name.length;
  }

  workerText(session: number, job: number): string {
    const name = new Uint8Array(WORKER_BYTES_MAX);
    return latin1(name, 0, this.#workerName(session, job, name, 0));
  }

  /** Continues with ending batches, if their records find room. */
  #endBatches(): void {
    if (this.records?.hasRoom === false) return;
    this.homes.step(this.nowMs);
    if (this.engine.batchEnds.hasWork) this.engine.batchEnds.work(this.nowMs);
    this.engine.batches.hasNews = this.homes.hasNews || this.engine.batchEnds.hasWork;
  }

  updateGauges(): void {
    const { counters, engine } = this;
    assert(engine.urgentJobs <= engine.jobCounts[JobState.Ready]!, "urgent jobs are among the ready ones");
    counters[Counter.JobsUrgent] = engine.urgentJobs;
    counters[Counter.JobsReady] = engine.jobCounts[JobState.Ready]!;
    counters[Counter.JobsReserved] =
      engine.jobCounts[JobState.Reserved]! + engine.jobCounts[JobState.Moving]!;
    counters[Counter.JobsDelayed] = engine.jobCounts[JobState.Delayed]!;
    counters[Counter.JobsBuried] = engine.jobCounts[JobState.Buried]!;
    counters[Counter.TotalJobs] = engine.totalJobs;
    counters[Counter.JobTimeouts] = engine.jobTimeouts;
    counters[Counter.Tubes] = engine.tubes.size;
    counters[Counter.Waiting] = this.waiting();
  }

  waiting(): number {
    let waiting = this.engine.waitingAlone;
    for (const session of this.leadWaits) if (this.stillWaiting(session.engineSession)) waiting++;
    assert(waiting >= this.engine.waitingAlone, "sessions that wait are counted");
    return waiting;
  }

  #sessionOf(client: Session): ShardSession {
    const session = this.sessions[client.index];
    assert(session !== undefined, "a session of the engine exists here, too");
    assert(session.engineSession === client, "a session belongs to its client");
    return session;
  }

  reserved(client: Session, slot: number): void {
    const session = this.#sessionOf(client);
    assert(!session.ended, "a client that is gone gets no job");
    this.leadWaits.delete(session);
    this.giveJob(session, slot, 0);
    this.resume(session);
  }

  timedOut(client: Session): void {
    assert(client.waiting === Waiting.No, "a wait that timed out is over");
    const session = this.#sessionOf(client);
    session.endBatch();
    this.replies.fixed(session, Reply.timedOut);
    this.resume(session);
  }

  deadlineSoon(client: Session): void {
    assert(client.waiting === Waiting.No, "a wait that a deadline ended is over");
    const session = this.#sessionOf(client);
    session.endBatch();
    this.replies.fixed(session, Reply.deadlineSoon);
    this.resume(session);
  }

  waitDue(client: Session): void {
    const session = this.#sessionOf(client);
    assert(!session.ended, "a client that is gone waits for nothing");
    this.replies.signal(session, ResponseKind.WaitDue, session.waitNumber);
  }

  claim(client: Session): boolean {
    const session = this.#sessionOf(client);
    return this.#claims[session.acceptor]!.claim(session.connectionSlot, session.waitNumber);
  }

  stillWaiting(client: Session): boolean {
    const session = this.#sessionOf(client);
    return this.#claims[session.acceptor]!.isOpen(session.connectionSlot, session.waitNumber);
  }

  // --- sessions and tubes ------------------------------------------------------------------------

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

  ownsTube(name: string): boolean {
    return this.tubeSetter.owns(name);
  }

  nextTubeSequence(): number {
    return 1 + this.#tubeSequences.take();
  }
}
