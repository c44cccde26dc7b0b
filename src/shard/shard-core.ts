// The core of a shard, as plain code: reads requests from its rings, drives its engine, writes
// replies. It has no thread and no clock.
//
// `step` is one turn: due timers first, then requests from every acceptor in batches. The loop
// around it (shard-loop.ts) publishes and decides when to sleep. A simulation runs the same loop
// with its own time.

import { assert } from "../base/assert.ts";
import { asciiBytes } from "../base/bytes.ts";
import { shardOfTube } from "../base/tube-hash.ts";
import { Engine, type Outcome, ReserveOutcome } from "../engine/engine.ts";
import type { BodyArena } from "../engine/jobs/body-arena.ts";
import { JobState, NO_SLOT } from "../engine/jobs/job-table.ts";
import type { ClientEffects } from "../engine/waiting/effects.ts";
import { type Session, Waiting } from "../engine/waiting/session.ts";
import { ReplyCredit } from "../message/reply-credit.ts";
import {
  BarrierAckView,
  CarriedView,
  ControlView,
  isById,
  MeterView,
  MoveView,
  RequestFlag,
  RequestOp,
  readRequest,
  requestOp,
  waitsForTransfer,
} from "../message/request.ts";
import { ResponseKind } from "../message/response.ts";
import { LandedView, Shipping } from "../message/shipment.ts";
import {
  ControlWord,
  Counter,
  commandCounter,
  countersOf,
  hostOfShard,
  httpPort,
  memoryWords,
  portBell,
  shardRole,
  type Topology,
} from "../message/topology.ts";
import { Reply, ReplyWord } from "../protocol/reply.ts";
import { Request } from "../protocol/request.ts";
import { ClaimWords } from "../ring/claim-word.ts";
import { ControlWords } from "../ring/control-words.ts";
import { JobDirectory, UNKNOWN_SHARD } from "../ring/job-directory.ts";
import { JobIds } from "../ring/job-ids.ts";
import type { MessageSource } from "../ring/message-source.ts";
import { EMPTY, RingReader } from "../ring/ring-reader.ts";
import type { BarrierRounds, CommandShard, ShardCommand } from "./commands/command.ts";
import { MAY_BE_LATE, OVERTAKES, SHARD_COMMANDS } from "./commands/command-table.ts";
import { reserveMany } from "./commands/reserve-batch.ts";
import { ControlHandler } from "./control/control-handler.ts";
import { LatencyMeter } from "./control/latency-meter.ts";
import { PutIntake } from "./intake/put-intake.ts";
import { ReadBarrier } from "./read-barrier.ts";
import type { RecordLog } from "./records/record-log.ts";
import { leaseDetails } from "./replies/lease-details.ts";
import { type RecordNumbers, Replies } from "./replies/replies.ts";
import { ReplyPort } from "./replies/reply-port.ts";
import { TubeLists } from "./replies/tube-lists.ts";
import { TubeSetter } from "./replies/tube-setter.ts";
import { CHEAP_WORK_MAX, RunQueue, WORK_PER_MS } from "./run-queue.ts";
import { Adoptions } from "./sessions/adoptions.ts";
import { DeferredMessages } from "./sessions/deferred-messages.ts";
import { MemoryBudget } from "./sessions/memory-budget.ts";
import { ShardSession } from "./sessions/shard-session.ts";
import { AwaitTransfer } from "./slices/await-transfer.ts";
import { SessionCleanup } from "./slices/session-cleanup.ts";
import { SlicedCommands, TURN_JOBS_MAX } from "./slices/sliced-commands.ts";
import { DeadLetters } from "./transfer/dead-letters.ts";
import { TransferReceiver } from "./transfer/transfer-receiver.ts";
import { TransferSender } from "./transfer/transfer-sender.ts";

/** Messages taken from one acceptor before others get their turn and replies are published. */
const BATCH_MESSAGES = 64;
/** A clock reading takes 40 ns. */
const MESSAGES_PER_CLOCK_READING = 8;
/** Work of expensive commands in one turn, not counting the last of them: half a millisecond. */
const TURN_WORK_MAX = WORK_PER_MS / 2;
/** Time after which a turn takes no more from the rings, so that replies leave. */
const TURN_MS = 1;
/** Due timers processed in one turn: about a microsecond each. */
const TURN_DUE_MAX = 500;

export interface ShardOptions {
  topology: Topology;
  shard: number;
  /** Whether stats-job and stats-tube quote names, as beanstalkd 1.13 does. */
  quoteNames: boolean;
  /** The monotonic clock, in ms. Without it, a turn takes no time. */
  clock?: () => number;
  /** Takes the records of changes. Without it there is no log. */
  records?: RecordLog;
  arena?: BodyArena;
  /** See EngineOptions. */
  keySeed?: readonly [number, number];
  /** Jobs that a kick, or jobs and watches that the end of a connection, processes in one turn. */
  turnJobsMax?: number;
  /** Delays, pauses, reservations and waits that end in one turn. */
  turnDueMax?: number;
  /** Minimum cost of a command, in lookups. A simulation thus sets every connection aside. */
  commandWork?: number;
  /** See EngineOptions. */
  orderedTubesMin?: number;
}

export class ShardCore implements ClientEffects, CommandShard {
  readonly engine: Engine;
  readonly ports: readonly ReplyPort[];
  readonly requests: readonly RingReader[];
  readonly counters: Float64Array;
  readonly clock: () => number;
  readonly portCount: number;
  readonly quoteNames: boolean;
  readonly #control: ControlWords;
  readonly #tubeSequences: JobIds;
  readonly #claims: readonly ClaimWords[];
  readonly #sessions: (ShardSession | undefined)[] = [];
  readonly adoptions: Adoptions;
  readonly #resuming: ShardSession[] = [];
  readonly #stalled: ShardSession[] = [];
  readonly replies: Replies;
  readonly lists: TubeLists;
  readonly puts: PutIntake;
  readonly tubeSetter: TubeSetter;
  readonly moves: SlicedCommands;
  /** Connections with expensive commands. */
  readonly aside = new RunQueue();
  readonly #commandWork: number;
  /** Work of expensive commands in this turn. */
  #turnWork = 0;
  #turnBeganAtMs = 0;
  /** The acceptor whose ring is read first in this turn. */
  #firstAcceptor = 0;
  /** Whether the last turn put off sliced work because it had commands to execute. */
  #owesSlices = false;
  readonly memory: MemoryBudget;
  readonly departures: TransferSender;
  readonly #deadLetters: DeadLetters;
  readonly #arrivals: TransferReceiver;
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

  constructor(options: ShardOptions) {
    const { topology, shard } = options;
    this.clock = options.clock ?? (() => this.nowMs);
    this.portCount = topology.ports;
    this.adoptions = new Adoptions(topology.ports, (session, port, slot) => this.#place(session, port, slot));
    this.quoteNames = options.quoteNames;
    this.#control = new ControlWords(topology.control);
    this.#tubeSequences = new JobIds(this.#control.words, ControlWord.TubeSequence);
    this.#claims = topology.claims.map((buffer) => new ClaimWords(buffer));
    this.requests = topology.requests.map((rings) => new RingReader(rings[shard]!));
    const host = hostOfShard(topology, shard);
    this.ports = topology.responses.map(
      (rings, acceptor) => new ReplyPort(rings[shard]!, portBell(topology, acceptor) === host),
    );
    this.counters = countersOf(topology, shardRole(shard));
    const hasHttp = topology.ports > topology.acceptors;
    this.#leasePort = hasHttp ? httpPort(topology) : NO_PORT;
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
    this.#barrier = new ReadBarrier(this.engine, this.ports, topology.acceptors);
    this.moves = new SlicedCommands(this.replies, options.turnJobsMax ?? TURN_JOBS_MAX, this.clock);
    this.#commandWork = options.commandWork ?? 0;
    this.records = options.records;
    const directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    if (directory !== undefined) this.#lookInto(directory, shard);
    const travel = {
      engine: this.engine,
      port: this.ports[shard % topology.acceptors]!,
      records: options.records,
    };
    const noteMoves = (): void => this.#control.set(ControlWord.JobsMove);
    const { moves } = this;
    const onSettled = (id: number): void => moves.settled(id);
    this.engine.queues.onSettled = onSettled;
    this.departures = new TransferSender({ ...travel, shardOf, onBegin: noteMoves, onLanded: onSettled });
    this.#deadLetters = new DeadLetters(this.engine, this.departures);
    this.#arrivals = new TransferReceiver({ ...travel, onArrived: (id) => directory?.set(id, shard) });
    if (meter !== undefined) {
      this.control = new ControlHandler({
        shard: this,
        port: this.ports[this.#leasePort]!,
        meter,
        departures: this.departures,
        leaseSession: this.leaseSession,
        waiting: () => this.#waiting(),
      });
    }
    this.tubeSetter = new TubeSetter(this.engine, options.records, owns, noteMoves);
    this.puts = new PutIntake(this.engine, this.replies, () => this.#control.isSet(ControlWord.Draining));
  }

  #lookInto(directory: JobDirectory, own: number): void {
    this.replies.mayBeElsewhere = (id) => directory.find(id) !== own;
    this.replies.isElsewhere = (id) => ![own, UNKNOWN_SHARD].includes(directory.find(id));
  }

  /** Runs one turn. Returns the number of messages taken. `publish` makes the replies visible. */
  step(nowMs: number): number {
    this.nowMs = nowMs;
    this.#turnWork = 0;
    this.#turnBeganAtMs = nowMs;
    this.engine.beginTurn();
    this.moves.beginTurn();
    this.engine.runDue(nowMs);
    if (this.#resuming.length > 0) this.#runResumed();
    const taken = this.#takeFromAll();
    for (let session = this.replies.pumpLong(); session !== undefined; session = this.replies.pumpLong()) {
      this.resume(session);
    }
    if (this.#resuming.length > 0) this.#runResumed();
    if (!this.aside.isEmpty) this.#runAside();
    // Replies leave before work that can wait. But that work gets every second turn.
    if (taken > 0 && !this.#owesSlices) this.#owesSlices = true;
    else this.#workOn();
    if (this.#deadLetters.hasWork) this.#deadLetters.step(this.nowMs);
    this.departures.step();
    if (this.#resuming.length > 0) this.#runResumed();
    this.memory.settle();
    return taken;
  }

  /** Continues work that takes many turns. */
  #workOn(): void {
    this.#owesSlices = false;
    this.readClock();
    if (this.#recordsOpen()) this.#moveOn(this.nowMs);
    this.lists.pump();
    if (this.control !== undefined) {
      this.readClock();
      this.control.step();
    }
    if (this.engine.isUntidy) this.engine.tidy();
  }

  /** Gives connections with expensive commands their turns, until the shard's turn is long. */
  #runAside(): void {
    while (!this.#isLong() && this.#recordsOpen()) {
      const session = this.aside.next();
      if (session === undefined) return;
      this.resume(session);
      this.#runResumed();
    }
  }

  /** Charges a command that may have been expensive to its connection. */
  #charge(session: ShardSession): void {
    const work = this.engine.looks + this.moves.spentMs * WORK_PER_MS;
    this.moves.spentMs = 0;
    this.#turnWork += work;
    if (work > CHEAP_WORK_MAX && !session.ended) this.aside.setAside(session, work);
  }

  /**
   * Executes a batch of each acceptor until the turn is long. The next turn begins with the acceptor
   * behind the last one, so that each has its turn. Returns how many messages were taken.
   */
  #takeFromAll(): number {
    const first = this.#firstAcceptor;
    let taken = 0;
    for (let turn = 0; turn < this.portCount && !this.#isLong(); turn++) {
      const acceptor = (first + turn) % this.portCount;
      taken += this.#takeFrom(acceptor);
      if (!this.#isLong() && !this.#isLate()) continue;
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
    while (taken < BATCH_MESSAGES && this.#mayTake(acceptor) && this.#recordsOpen() && !this.#isLong()) {
      if (taken > 0 && taken % MESSAGES_PER_CLOCK_READING === 0) {
        this.readClock();
        if (this.#isLate()) break;
      }
      const offset = ring.next();
      if (offset === EMPTY) break;
      if (taken++ === 0) this.readClock();
      this.#receive(ring, offset, acceptor);
      if (this.#resuming.length > 0) this.#runResumed();
    }
    return taken;
  }

  /** Returns whether the messages of an acceptor may be executed. */
  #mayTake(acceptor: number): boolean {
    return this.ports[acceptor]!.open && !this.adoptions.isWaiting(acceptor);
  }

  /** Reads the clock: in a turn that is held up, delays and TTRs would otherwise end too early. */
  readClock(): void {
    this.nowMs = Math.max(this.nowMs, this.clock());
  }

  #moveOn(nowMs: number): void {
    const session = this.moves.step(this.#mayAnswer, nowMs);
    this.moves.spentMs = 0;
    if (session === undefined) return;
    if (session.ended) this.end(session);
    else this.resume(session);
  }

  readonly #mayAnswer = (session: ShardSession): boolean => this.ports[session.acceptor]!.open;

  #isLate(): boolean {
    return this.nowMs - this.#turnBeganAtMs > TURN_MS;
  }

  /** Whether the turn was so expensive that replies should leave before the next command. */
  #isLong(): boolean {
    return this.#turnWork > TURN_WORK_MAX;
  }

  /** Whether one more command's records are likely to find room, without a wait inside it. */
  #recordsOpen(): boolean {
    return this.records === undefined || this.records.hasRoom;
  }

  /** Whether the shard has work now, apart from timers. */
  get hasWork(): boolean {
    if (!this.#recordsOpen()) return false;
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
      this.moves.hasWork(this.#mayAnswer) ||
      this.#deadLetters.hasWork ||
      this.departures.hasWork ||
      this.control?.hasWork === true ||
      this.replies.longHasWork ||
      this.lists.hasWork ||
      !this.aside.isEmpty ||
      this.engine.isUntidy
    );
  }

  /** Whether commands have arrived that can be executed now. */
  get hasCommands(): boolean {
    for (let acceptor = 0; acceptor < this.portCount; acceptor++)
      if (this.requests[acceptor]!.hasMessage && this.#mayTake(acceptor)) return this.#recordsOpen();
    return false;
  }

  /** Asks the acceptors and the log to ring when they have made room that work waits for. */
  wantRoom(): void {
    this.records?.wantRoom();
    for (const port of this.ports) if (!port.open) port.ring.wantRoom();
    this.replies.wantRoomForLong();
    this.lists.wantRoom();
    this.control?.wantRoom();
  }

  // --- requests ----------------------------------------------------------------------------------

  #session(acceptor: number, connectionSlot: number): ShardSession {
    const index = connectionSlot * this.portCount + acceptor;
    return (this.#sessions[index] ??= new ShardSession(this.engine.session(index), acceptor, connectionSlot));
  }

  #receive(source: MessageSource, offset: number, acceptor: number): void {
    const request = this.#request;
    readRequest(source, offset, request);
    const { op, flags, slot } = request;
    if (this.#isOfNobody(request, acceptor)) return;
    // An orderly end may come before the session's last Credit or the news that the client is gone.
    if (MAY_BE_LATE[op] === 1 && this.#sessions[slot * this.portCount + acceptor] === undefined) return;
    const session = this.#session(acceptor, slot);
    if (overtakes(op, flags)) {
      this.#execute(session, request);
      return;
    }
    if (session.isRedirected && (op === RequestOp.Locate || (flags & RequestFlag.Probe) !== 0)) {
      // The acceptor has returned to this shard with the redirected command.
      session.beginReplies(0);
      this.#execute(session, request);
      return;
    }
    const busy = session.deferred !== undefined || this.#isAnswering(session);
    if ((flags & RequestFlag.Metered) !== 0) {
      if ((flags & RequestFlag.First) !== 0) session.beginReplies(MeterView.unreadBytes(request));
      else this.read(session, request.readBytes);
    } else if (!busy) {
      // Part of a conversation or of a put in pieces: nothing else is in flight.
      session.beginReplies(0);
    }
    if (!busy && !session.isAside && !owesReading(session)) {
      this.#execute(session, request);
      return;
    }
    session.deferred ??= new DeferredMessages();
    session.deferred.push(source, offset);
  }

  /** Handles a message that belongs to no connection. Returns false if it belongs to one. */
  #isOfNobody(request: Request, acceptor: number): boolean {
    const { op, slot } = request;
    if (op === RequestOp.BarrierAck) this.#passBarrier(BarrierAckView.barrier(request));
    else if (op === RequestOp.Adopt) this.adoptions.adopt(MoveView.move(request), acceptor, slot);
    else if (op === RequestOp.Carried) this.#takeCarried(request);
    else if (op === RequestOp.Control) {
      const { bytes, start, end } = request.body;
      assert(this.control !== undefined, "only an http thread asks by Control");
      this.control.take(ControlView.question(request), bytes.subarray(start, end));
    } else return false;
    return true;
  }

  /** Notes what the client has read of its replies, so that its next commands may run. */
  read(session: ShardSession, bytes: number): void {
    session.read(bytes);
    if (!this.#mustWait(session)) this.resume(session);
  }

  /** Runs deferred messages of sessions whose command has ended, until they wait again. */
  #runResumed(): void {
    for (let session = this.#resuming.pop(); session !== undefined; session = this.#resuming.pop()) {
      session.resuming = false;
      const port = this.ports[session.acceptor]!;
      const { deferred } = session;
      if (deferred === undefined) continue;
      // Without room for a reply the rest stays deferred, and the next turn tries again. In a long turn
      // it joins the run queue: a crowd that is resumed at once must not take turns from the rings.
      while (!deferred.isEmpty && !this.#mustWait(session) && port.open && !this.#isLong()) {
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

  /** Whether the deferred messages wait for something other than room in a ring. */
  #mustWait(session: ShardSession): boolean {
    if (session.isAside || this.#isAnswering(session)) return true;
    // A Close has no reply to read, and the next command reports what was read of the last reply.
    return owesReading(session) && session.deferred?.firstOp !== RequestOp.Close;
  }

  /** Returns whether the session is executing a command, so that later ones have to wait. */
  #isAnswering(session: ShardSession): boolean {
    return (
      session.engineSession.waiting === Waiting.Alone ||
      session.longReply !== undefined ||
      session.longMove !== undefined ||
      session.isRedirected ||
      session.barrier !== 0
    );
  }

  resume(session: ShardSession): void {
    if (session.resuming || session.deferred === undefined) return;
    session.resuming = true;
    this.#resuming.push(session);
  }

  // put 5/10
  #execute(session: ShardSession, request: Request): void {
    const { counted } = request;
    if (counted !== 0) {
      const counter = commandCounter(counted);
      this.counters[counter] = this.counters[counter]! + 1;
    }
    if (this.records !== undefined) this.replies.recordsBefore = this.records.lastNumber;
    this.engine.looks = this.#commandWork;
    if (this.engine.jobsMoving > 0 && isById(request) && this.engine.isMoving(request.id))
      this.#runOfMoving(session, request);
    else this.#run(session, request);
    if (this.engine.looks > CHEAP_WORK_MAX || this.moves.spentMs > 0) this.#charge(session);
  }

  /**
   * Executes a command by id whose job is in transfer. The news of its arrival may take long, as
   * with a full disk. This shard must not deny what a client has done on the other shard since.
   */
  #runOfMoving(session: ShardSession, request: Request): void {
    if (this.replies.isElsewhere(request.id)) this.replies.elsewhere(session, request, request.flags);
    else if (waitsForTransfer(request)) {
      const run = (settled: Request): void => this.#run(session, settled);
      this.moves.join(session, new AwaitTransfer(this.engine, request.clone(), run));
    } else this.#run(session, request);
  }

  #run(session: ShardSession, request: Request): void {
    this.replies.request = request;
    SHARD_COMMANDS[request.op]!(this, session, request);
  }

  /** Takes a message from another shard. */
  #takeCarried(message: Request): void {
    const { body } = message;
    const shipping = CarriedView.shipping(message);
    const from = CarriedView.fromShard(message);
    const shipment = CarriedView.shipment(message);
    this.readClock();
    if (shipping === Shipping.Ship) this.#arrivals.ship(from, shipment, body, this.nowMs);
    else if (shipping === Shipping.Piece) this.#arrivals.piece(from, shipment, body, this.nowMs);
    else if (shipping === Shipping.Credit) this.departures.credit(shipment);
    else {
      const view = new DataView(body.bytes.buffer, body.bytes.byteOffset + body.start);
      const refusal = LandedView.refusal(view, 0) as Outcome;
      this.departures.landed(shipment, LandedView.taken(view, 0), refusal, this.nowMs);
    }
  }

  reserve(session: ShardSession, timeoutMs: number): void {
    if (session.batch !== undefined) {
      reserveMany(this, session, session.batch, timeoutMs);
      return;
    }
    const slot = this.engine.reserve(session.engineSession, timeoutMs, this.nowMs);
    if (slot >= 0) this.giveJob(session, slot, 0);
    else if (slot === ReserveOutcome.TimedOut) this.replies.fixed(session, Reply.timedOut);
    else if (slot === ReserveOutcome.DeadlineSoon) this.replies.fixed(session, Reply.deadlineSoon);
  }

  ownsTube(name: string): boolean {
    return this.tubeSetter.owns(name);
  }

  /**
   * Answers RESERVED, or the batch that the session has waited for. A session of the HTTP thread
   * hands the job to the lease session at once and gets the details of the lease.
   */
  giveJob(session: ShardSession, slot: number, flags: number): void {
    const { batch } = session;
    if (batch !== undefined) {
      session.endBatch();
      this.replies.batch(session, [slot], batch.withTubes);
      return;
    }
    if (session.acceptor !== this.#leasePort) {
      this.replies.job(session, ReplyWord.reserved, slot, flags);
      return;
    }
    this.engine.hand(slot, session.engineSession, this.engine.session(this.leaseSession));
    const details = leaseDetails(this.engine, slot, this.nowMs);
    this.replies.job(session, ReplyWord.reserved, slot, flags, details);
  }

  /** Starts a read barrier if it may bring a job. Returns whether it did: see ReadBarrier. */
  beginBarrier(session: ShardSession): boolean {
    this.engine.runDue(this.nowMs);
    return this.engine.bestReady(session.engineSession) === NO_SLOT && this.#barrier.beginForJob(session);
  }

  afterReading(session: ShardSession, request: Request, rounds: BarrierRounds, command: ShardCommand): void {
    if (!this.#barrier.begin(session, rounds)) {
      command(this, session, request);
      return;
    }
    const kept = request.clone();
    session.afterBarrier = () => {
      this.replies.request = kept;
      command(this, session, kept);
    };
  }

  /** Continues a session's command once all acceptors have acknowledged its barrier. */
  #passBarrier(number: number): void {
    const session = this.#barrier.acknowledged(number);
    if (session === undefined) return;
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

  detach(session: ShardSession, number: number): void {
    this.aside.leave(session);
    this.#runUnanswered(session);
    this.engine.detachSession(session.engineSession);
    this.#sessions[session.connectionSlot * this.portCount + session.acceptor] = undefined;
    this.replies.signal(session, ResponseKind.Detached);
    this.adoptions.detached(number, session);
  }

  /**
   * Executes what a connection that moves has left in line: a wait that ended elsewhere, and its end. Nobody
   * awaits an answer to these.
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

  #place(session: ShardSession, acceptor: number, connectionSlot: number): void {
    const index = connectionSlot * this.portCount + acceptor;
    assert(this.#sessions[index] === undefined, "a slot has one session");
    session.acceptor = acceptor;
    session.connectionSlot = connectionSlot;
    this.engine.adoptSession(session.engineSession, index);
    this.#sessions[index] = session;
  }

  /**
   * Ends the session of a connection that is gone. Commands that have not begun are dropped. A
   * sliced command in progress is finished first, and then this is called again.
   */
  end(session: ShardSession): void {
    session.ended = true;
    this.aside.leave(session);
    if (session.deferred !== undefined) this.#drop(session.deferred);
    session.deferred = undefined;
    session.barrier = 0;
    session.afterBarrier = undefined;
    this.leadWaits.delete(session);
    this.puts.abandon(session);
    this.replies.abandonLong(session);
    this.lists.abandon(session);
    if (session.longMove !== undefined) return;
    const giveBack = new SessionCleanup(this.engine, session);
    if (!this.moves.takesTurn(giveBack.jobs)) {
      // The cleanup may have to wait for its turn, and a client that is gone must get no job until
      // then.
      this.engine.abandonWait(session.engineSession);
      this.moves.join(session, giveBack);
      return;
    }
    const index = session.connectionSlot * this.portCount + session.acceptor;
    this.engine.closeSession(session.engineSession, this.nowMs);
    this.#sessions[index] = undefined;
    this.replies.signal(session, ResponseKind.Closed);
  }

  /** Drops messages that will not be executed, and frees their bodies. */
  #drop(deferred: DeferredMessages): void {
    while (!deferred.isEmpty) {
      const offset = deferred.shift();
      if (requestOp(deferred, offset) !== RequestOp.PutStored) continue;
      readRequest(deferred, offset, this.#request);
      this.puts.dropStored(this.#request);
    }
  }

  /** Returns `acceptor.connection`, or "lease" for the session that holds the leases. */
  holderName(session: number): string {
    if (session === this.leaseSession && this.#leasePort !== NO_PORT) return "lease";
    return `${session % this.portCount}.${Math.floor(session / this.portCount)}`;
  }

  updateGauges(): void {
    const { counters, engine } = this;
    counters[Counter.JobsUrgent] = engine.urgentJobs;
    counters[Counter.JobsReady] = engine.jobCounts[JobState.Ready]!;
    counters[Counter.JobsReserved] = engine.jobCounts[JobState.Reserved]! + engine.jobsMoving;
    counters[Counter.JobsDelayed] = engine.jobCounts[JobState.Delayed]!;
    counters[Counter.JobsBuried] = engine.jobCounts[JobState.Buried]!;
    counters[Counter.TotalJobs] = engine.totalJobs;
    counters[Counter.JobTimeouts] = engine.jobTimeouts;
    counters[Counter.Tubes] = engine.tubes.size;
    counters[Counter.Waiting] = this.#waiting();
  }

  #waiting(): number {
    let waiting = this.engine.waitingAlone;
    for (const session of this.leadWaits) if (this.stillWaiting(session.engineSession)) waiting++;
    return waiting;
  }

  // --- effects of the engine ---------------------------------------------------------------------

  #sessionOf(client: Session): ShardSession {
    const session = this.#sessions[client.index];
    assert(session !== undefined, "a session that the engine knows is known here");
    return session;
  }

  reserved(client: Session, slot: number): void {
    const session = this.#sessionOf(client);
    this.leadWaits.delete(session);
    this.giveJob(session, slot, 0);
    this.resume(session);
  }

  timedOut(client: Session): void {
    const session = this.#sessionOf(client);
    session.endBatch();
    this.replies.fixed(session, Reply.timedOut);
    this.resume(session);
  }

  deadlineSoon(client: Session): void {
    const session = this.#sessionOf(client);
    session.endBatch();
    this.replies.fixed(session, Reply.deadlineSoon);
    this.resume(session);
  }

  waitDue(client: Session): void {
    const session = this.#sessionOf(client);
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

  nextTubeSequence(): number {
    return 1 + this.#tubeSequences.take();
  }
}

/** Not a port. */
const NO_PORT = -1;
const NO_NUMBERS: RecordNumbers = { lastNumber: 0 };

/** Returns whether so much of the session's replies is unread that its next command has to wait. */
function owesReading(session: ShardSession): boolean {
  return session.unreadBytes >= ReplyCredit.UnreadBytesMax;
}

/** Whether a message is never deferred. An orderly Close is. */
export function overtakes(op: number, flags: number): boolean {
  return OVERTAKES[op] === 1 && (flags & RequestFlag.Orderly) === 0;
}
