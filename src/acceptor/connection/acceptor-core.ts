// One acceptor as plain code: connections in slots, rings to and from every shard. No thread, no socket, no clock.
//
// Sockets call `connect` and the connection's methods as bytes come; `turn` publishes what they sent, takes the shards'
// answers, lets connections go on, and sends each connection's replies with one write.

import { assert } from "../../base/assert.ts";
import { asciiBytes, latin1 } from "../../base/bytes.ts";
import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import { RequestFlag, RequestOp } from "../../message/request.ts";
import {
  RESPONSE_HEADER_BYTES,
  ResponseFlag,
  ResponseKind,
  STORED_HEADER_BYTES,
} from "../../message/response.ts";
import {
  ControlWord,
  Counter,
  commandCounter,
  countersOf,
  portRole,
  SESSIONS_PER_ACCEPTOR_MAX,
  type Topology,
} from "../../message/topology.ts";
import { CommandParser } from "../../protocol/command-parser.ts";
import { COMMANDS, type Command } from "../../protocol/commands.ts";
import { Request, Span } from "../../protocol/request.ts";
import { ClaimWords } from "../../ring/claim-word.ts";
import { ControlWords } from "../../ring/control-words.ts";
import { JobDirectory, UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import { JobIds } from "../../ring/job-ids.ts";
import { LogWord, LogWords } from "../../ring/log-words.ts";
import { EMPTY, type RingReader } from "../../ring/ring-reader.ts";
import type { RingWriter } from "../../ring/ring-writer.ts";
import type { Gate } from "../admission/filtered-connection.ts";
import { GatherBudget } from "../fanout/batch/gather-budget.ts";
import { ListReplies } from "../fanout/lists/list-replies.ts";
import { TubeListings } from "../fanout/lists/tube-listings.ts";
import type { ConnectionMigrator } from "../migration/connection-migrator.ts";
import type { MigrationReceiver } from "../migration/migration-receiver.ts";
import type { MovedConnection } from "../migration/moved-connection.ts";
import { CommandSampler } from "../replies/command-sampler.ts";
import type { Transport } from "../replies/transport.ts";
import type { ClosedConnections } from "../state/closed-connections.ts";
import type { ConnectionFacts } from "../state/connection-facts.ts";
import { extensionsText } from "../state/extensions-text.ts";
import { PendingReplies } from "../state/pending-replies.ts";
import { RunQueues } from "../state/run-queues.ts";
import { SerialQueue } from "../state/serial-queue.ts";
import { ShardLinks } from "../state/shard-links.ts";
import { ShardRelay } from "../state/shard-relay.ts";
import { TubeRef } from "../state/tube-ref.ts";
import { WaitingInput } from "../state/waiting-input.ts";
import { type BodyPart, Connection } from "./connection.ts";
import type { Closing, ConnectionHost } from "./connection-host.ts";

/** An end right behind bytes may be read one reading later than they are. */
const READINGS_PER_LOOK = 2;
/** Answers taken from one shard before the others have their turn. */
const BATCH_MESSAGES = 1024;

export interface AcceptorOptions {
  topology: Topology;
  acceptor: number;
  nowMs: () => number;
  /** The text of `stats`, made after every shard has updated its counters. */
  statsText: () => string;
  /** Takes a line for each command and reply (-VV). */
  trace?: ((line: string) => void) | undefined;
  /** Whether commands that beanstalkd does not have are known here; as the topology says if it is left out. */
  extended?: boolean;
  /** Slots below this are not given to connections. */
  firstSlot?: number;
  /** Keeps the ends of its connections; without it nobody may ask for them. */
  closed?: ClosedConnections | undefined;
}

/** A part of an answer to a Control request. */
export interface ControlAnswer {
  readonly shard: number;
  /** ResponseFlags. */
  readonly flags: number;
  /** Number of the request. */
  readonly number: number;
  /** The record of the shard that it waits for, if it is Durable. */
  readonly recordNumber: number;
  /** Valid during the call. */
  readonly payload: Uint8Array;
}

export interface ControlAnswers {
  onAnswer(answer: ControlAnswer): void;
}

export class AcceptorCore implements ConnectionHost {
  readonly shards: number;
  readonly hasOtherAcceptors: boolean;
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly claims: ClaimWords;
  readonly nowMs: () => number;
  readonly statsText: () => string;
  readonly extensionsText: () => string;
  readonly closed: ClosedConnections | undefined;
  readonly trace: ((line: string) => void) | undefined;
  readonly counters: Float64Array;
  readonly sampler: CommandSampler;
  readonly agenda: RunQueues = new RunQueues();
  readonly expected: PendingReplies = new PendingReplies();
  readonly waitingInput: WaitingInput = new WaitingInput(this.agenda);
  readonly listReplies: ListReplies = new ListReplies();
  readonly tubeListings: TubeListings;
  readonly #courier: ShardRelay = new ShardRelay(this);
  readonly gatherBudget: GatherBudget = new GatherBudget();
  readonly listTurnstile: SerialQueue = new SerialQueue();
  readonly storedBytesMin: number;
  readonly inPlaceBytesMin: number;
  /** The arenas of the shards that live in this thread. */
  readonly #arenas: (BodyArena | undefined)[] = [];
  /** Takes the answers to Control requests, if this thread asks any. */
  control: ControlAnswers | undefined;
  /** Open connections. */
  open = 0;
  /** Takes connections to other acceptors, where that is done. */
  moves: ConnectionMigrator | undefined;
  /** And brings them from there. */
  arrivals: MigrationReceiver | undefined;
  #stopping = false;
  /** Whether somebody may ask for what is counted only for metrics. */
  readonly #hasMetrics: boolean;
  /** When the present turn was asked for its time first; 0 before. */
  #turnAtMs = 0;
  readonly #links: ShardLinks;
  readonly #ids: JobIds;
  /** Numbers of tubes, and of changes of what is set for them. */
  readonly #sequences: JobIds;
  readonly #directory: JobDirectory | undefined;
  readonly #connections: (Connection | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  /** Shards that want to know when the sockets have been read: see shard/read-barrier.ts. */
  #looks: { readonly shard: number; readonly number: number; readingsLeft: number }[] = [];
  /** How far the log has come with what replies wait for. */
  readonly #logged: LogWords | undefined;
  /** How far it is written. */
  readonly #written: LogWords | undefined;
  /** In a group: how far the shared log has come. */
  readonly #replicated: LogWords | undefined;
  /** How far both were when those were asked last who wait for the log. */
  readonly #loggedThen: Int32Array;
  readonly #replicatedThen: Int32Array;
  readonly #control: ControlWords;
  readonly #topology: Topology;
  /** Whether extensions are known here, where that is not as the topology says. */
  readonly #extended: boolean | undefined;
  /** Filled in for each message out, and for each answer that is taken. */
  readonly #message = new Request();
  readonly #payload = new Span();
  readonly #part: BodyPart = { arena: undefined, handle: 0, offset: 0, length: 0, isLast: false };
  readonly #signal = {
    ...{ shard: 0, kind: 0, flags: 0, value: 0, pri: 0, soonestMs: 0, recordNumber: 0 },
    payload: this.#payload,
  };

  constructor(options: AcceptorOptions) {
    const { topology, acceptor } = options;
    this.shards = topology.shards;
    this.hasOtherAcceptors = topology.acceptors > (acceptor < topology.acceptors ? 1 : 0);
    this.tubeListings = new TubeListings(topology.shards);
    this.nowMs = options.nowMs;
    this.statsText = options.statsText;
    this.trace = options.trace;
    this.closed = options.closed;
    this.extensionsText = () => extensionsText(topology);
    this.#topology = topology;
    this.#extended = options.extended;
    this.parser = this.parserWith([]);
    const defaultName = asciiBytes("default");
    this.defaultTube = this.tubeRef(defaultName, 0, defaultName.length);
    this.claims = new ClaimWords(topology.claims[acceptor]!);
    this.counters = countersOf(topology, portRole(topology, acceptor));
    this.sampler = new CommandSampler(this.counters, this.nowMs);
    this.#hasMetrics = topology.ports > topology.acceptors;
    this.storedBytesMin = topology.storedBytesMin;
    this.inPlaceBytesMin = topology.inPlaceBytesMin;
    this.#links = new ShardLinks(topology, acceptor);
    for (let slot = 0; slot < (options.firstSlot ?? 0); slot++) this.#connections.push(undefined);
    this.#control = new ControlWords(topology.control);
    this.#ids = new JobIds(new Int32Array(topology.control), ControlWord.JobIds);
    this.#sequences = new JobIds(this.#control.words, ControlWord.TubeSequence);
    this.#directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    const { binlog } = topology;
    // What the shared log has is written.
    const isImplied = binlog?.group?.repliesWait === true && binlog.repliesWaitFor === LogWord.Written;
    this.#logged =
      binlog === undefined || isImplied ? undefined : new LogWords(binlog.progress, binlog.repliesWaitFor);
    this.#written = binlog === undefined ? undefined : new LogWords(binlog.progress, LogWord.Written);
    const group = binlog?.group;
    this.#replicated = group?.repliesWait ? new LogWords(group.progress, LogWord.Written) : undefined;
    this.#loggedThen = new Int32Array(topology.shards);
    this.#replicatedThen = new Int32Array(topology.shards);
  }

  /** A parser that knows further commands beside those of the server. */
  parserWith(further: readonly Command[]): CommandParser {
    const { jobBytesMax, protocol } = this.#topology;
    const extended = this.#extended ?? protocol === "extended";
    const commands = COMMANDS.filter(({ extension }) => !extension || extended);
    return new CommandParser(jobBytesMax, [...commands, ...further]);
  }

  // --- connections ------------------------------------------------------------------------------------------------

  /** A new connection, with a gate where its listener has one; undefined when all slots are taken. */
  connect(transport: Transport, gate?: Gate, peer?: string, listener?: number): Connection | undefined {
    const slot = this.#freeSlots.pop() ?? this.#connections.length;
    if (slot >= SESSIONS_PER_ACCEPTOR_MAX) return undefined;
    this.open++;
    this.#add(Counter.Connections, 1);
    this.#add(Counter.TotalConnections, 1);
    const connection = new Connection(this, slot, transport, undefined, gate);
    connection.peer = peer;
    connection.listener = listener;
    this.#connections[slot] = connection;
    return connection;
  }

  get jobsMove(): boolean {
    return this.#control.isSet(ControlWord.JobsMove);
  }

  noteMove(): void {
    if (this.shards > 1) this.#control.set(ControlWord.JobsMove);
  }

  /**
   * The connection takes no more commands: every shard that knows it gives back what it holds and forgets it. Called in
   * the turn in which its end is decided or read, so that the Close is in the rings before what others send afterwards.
   */
  close(connection: Closing): void {
    for (let shard = 0; shard < this.shards; shard++) {
      if (!connection.touched.has(shard)) continue;
      connection.closesLeft++;
      const close = connection.message(RequestOp.Close);
      if (!connection.isDeaf) close.flags = RequestFlag.Orderly;
      connection.post(shard, close);
    }
    // The Closed is awaited like an answer: the client may wait for its end.
    this.expected.expect(connection);
  }

  /** The socket moves no more bytes. Its descriptor is closed when every shard has forgotten the connection. */
  disconnect(connection: Connection): void {
    if (connection.dead) return;
    connection.onClosed();
    this.open--;
    if (connection.closesLeft === 0) this.#release(connection);
  }

  /** Nobody knows the connection any more: its slot may be used again. */
  #release(connection: Connection): void {
    this.#connections[connection.slot] = undefined;
    this.#freeSlots.push(connection.slot);
    connection.destroyTransport();
  }

  /** A connection leaves for another acceptor. Its slot stays taken: shards may still know it. */
  depart(slot: number): void {
    const connection = this.#connections[slot]!;
    connection.dead = true;
    this.expected.forget(connection);
    this.open--;
    this.#add(Counter.MovedOut, 1);
  }

  /** No shard knows the slot of one that has left any more. */
  vacate(slot: number): void {
    this.#connections[slot] = undefined;
    this.#freeSlots.push(slot);
  }

  /** A connection has come from another acceptor: it is as it was there. */
  land({ number, state }: MovedConnection, transport: Transport): Connection {
    const slot = this.#freeSlots.pop() ?? this.#connections.length;
    assert(slot < SESSIONS_PER_ACCEPTOR_MAX, "connections move only to where half of the slots are free");
    this.open++;
    this.#add(Counter.MovedIn, 1);
    for (const shard of state.touched) {
      const adopt = this.message(RequestOp.Adopt);
      adopt.slot = slot;
      adopt.id = number;
      this.post(shard, adopt);
    }
    const connection = new Connection(this, slot, transport, state);
    this.#connections[slot] = connection;
    if (this.#stopping) connection.endWhenIdle("stop");
    return connection;
  }

  /** What there is to tell of all open connections. */
  connectionFacts(): ConnectionFacts[] {
    return this.#connections.flatMap((each) => (each === undefined || each.dead ? [] : [each.facts]));
  }

  /** Ends one connection once what it has under way is answered; false if it is gone. */
  endOne(slot: number, serial: number): boolean {
    const connection = this.#connections[slot];
    if (connection === undefined || connection.dead || connection.serial !== serial) return false;
    connection.endWhenIdle("admin");
    return true;
  }

  /** Ends every connection once what it has under way is answered; also of those that move here later. */
  endAll(): void {
    this.#stopping = true;
    this.moves?.stop();
    for (const connection of this.#connections)
      if (connection !== undefined && !connection.dead) connection.endWhenIdle("stop");
  }

  producerCount(change: number): void {
    this.#add(Counter.Producers, change);
  }

  workerCount(change: number): void {
    this.#add(Counter.Workers, change);
  }

  /** Counts a command that no shard counts. */
  count(op: number): void {
    this.#add(commandCounter(op), 1);
  }

  #add(counter: number, change: number): void {
    this.counters[counter] = this.counters[counter]! + change;
  }

  tubeRef(bytes: Uint8Array, start: number, end: number): TubeRef {
    return new TubeRef(latin1(bytes, start, end), this.shards);
  }

  /** Takes the next job id, for a job on `shard`. */
  takeJobId(shard: number): number {
    const id = this.#ids.take();
    this.#directory?.set(id, shard);
    return id;
  }

  takeSequence(): number {
    return this.#sequences.take();
  }

  /** The shard of a job, or UNKNOWN_SHARD when all have to be asked. */
  shardOfJob(id: number): number {
    return this.#directory === undefined ? 0 : id === 0 ? UNKNOWN_SHARD : this.#directory.find(id);
  }

  jobEntry(id: number): number {
    return this.#directory?.entry(id) ?? 0;
  }

  // --- messages out -----------------------------------------------------------------------------------------------

  get requests(): readonly RingWriter[] {
    return this.#links.requests;
  }

  get responses(): readonly RingReader[] {
    return this.#links.responses;
  }

  get payloadBytesMax(): number {
    return this.#links.payloadBytesMax;
  }

  /** The shard lives in this thread: large bodies go right to its arena, and come right from there. */
  addLocalShard(shard: number, arena: BodyArena): void {
    this.#arenas[shard] = arena;
  }

  arenaOf(shard: number): BodyArena | undefined {
    return this.#arenas[shard];
  }

  message(op: number): Request {
    return this.#message.begin(op);
  }

  write(shard: number, message: Request): boolean {
    return this.#links.write(shard, message);
  }

  post(shard: number, message: Request): void {
    this.#links.post(shard, message);
  }

  noteFull(shard: number): void {
    this.#links.noteFull(shard);
  }

  /** Connections whose answer may come any moment: see PendingReplies. */
  get expecting(): number {
    return this.expected.expecting;
  }

  /** Connections that have sent a command since the thread last gave up polling. */
  get asking(): number {
    return this.expected.asking;
  }

  /** All who expect an answer now are taken to wait for a job. */
  stopExpecting(): void {
    this.expected.giveUp();
  }

  /** The thread has read what its sockets had: after two such readings whoever asked is told, behind the Closes of them. */
  haveRead(): void {
    if (this.#looks.length === 0) return;
    for (const look of this.#looks) {
      if (--look.readingsLeft > 0) continue;
      const looked = this.message(RequestOp.BarrierAck);
      looked.slot = 0;
      looked.id = look.number;
      this.post(look.shard, looked);
    }
    this.#looks = this.#looks.filter((look) => look.readingsLeft > 0);
  }

  // --- a turn -----------------------------------------------------------------------------------------------------

  /** Takes answers and lets connections go on. Returns how many answers were taken. */
  takeAnswers(onWriterWaits: (shard: number) => void): number {
    let taken = 0;
    this.#turnAtMs = 0;
    this.arrivals?.take();
    for (let shard = 0; shard < this.shards; shard++) {
      const ring = this.#links.responses[shard]!;
      for (let i = 0; i < BATCH_MESSAGES; i++) {
        const offset = ring.next();
        if (offset === EMPTY) break;
        this.#receive(ring, offset, shard);
        taken++;
      }
      if (ring.release()) onWriterWaits(shard);
    }
    if (taken > 0 && this.#hasMetrics) this.sampler.turned();
    this.#links.drainPosted();
    if (this.#courier.hasHeld && !this.#control.isSet(ControlWord.BinlogEnded)) this.#courier.turn();
    if (this.agenda.hasWaitingForRoom) {
      this.#links.forgetFull();
      this.agenda.retryRoom();
    }
    this.agenda.letProceed();
    this.listReplies.turn();
    return taken;
  }

  get turnAtMs(): number {
    if (this.#turnAtMs === 0) this.#turnAtMs = this.nowMs();
    return this.#turnAtMs;
  }

  /** Whether record `number` of a shard is as far in the log as replies wait for. */
  isDurable(shard: number, number: number): boolean {
    if (this.#replicated !== undefined && !this.#replicated.reached(shard, number)) return false;
    return this.#logged === undefined || this.#logged.reached(shard, number);
  }

  /** Whether the log has come further since those were asked last who wait for it: hundreds may, in each turn. */
  #logHasMoved(): boolean {
    if (!this.agenda.hasHeld) return false;
    if (this.#logged?.differFrom(this.#loggedThen)) return true;
    return this.#replicated?.differFrom(this.#replicatedThen) ?? false;
  }

  /** Whether the log has written record `number` of a shard. */
  isWritten(shard: number, number: number): boolean {
    if (this.#written === undefined || this.#written.reached(shard, number)) return true;
    // The shared log may have it before the log's thread has told that it is written.
    return this.#replicated?.reached(shard, number) ?? false;
  }

  /** Whether replies wait for the log, or what shards say to each other. */
  get hasHeld(): boolean {
    return this.agenda.hasHeld || this.#courier.hasHeld;
  }

  /** Whether what has waited for the log may leave: nothing any more once it has ended, durable or not. */
  get hasDurable(): boolean {
    if (this.#control.isSet(ControlWord.BinlogEnded)) return false;
    return (this.#logHasMoved() && this.agenda.hasDurable) || this.#courier.mayGoOn;
  }

  /**
   * Sends what connections have gathered; nothing any more once the log has failed, because a reply may tell of a change
   * that will not be there after the restart.
   */
  flush(): void {
    if (this.#control.isSet(ControlWord.BinlogEnded)) {
      this.agenda.dropOutput();
      return;
    }
    const moved = this.#logHasMoved();
    if (moved) {
      // Before anybody is asked: what comes meanwhile is another move.
      this.#logged?.copyTo(this.#loggedThen);
      this.#replicated?.copyTo(this.#replicatedThen);
    }
    this.agenda.flush(moved);
  }

  /** Makes requests visible; `onPublished` is called for each shard with new ones. */
  publish(onPublished: (shard: number) => void): void {
    // Its own thread may be taken off the core by whom it wakes: that one should find the connection and all that shards have to know.
    if (this.moves?.hasUnpublished) this.#publishMoves(onPublished);
    else this.#links.publish(onPublished);
  }

  #publishMoves(onPublished: (shard: number) => void): void {
    const shards: number[] = [];
    this.#links.publish((shard) => shards.push(shard));
    this.moves!.publish();
    for (const shard of shards) onPublished(shard);
  }

  /** Whether there is something to do that no ring or socket will tell of. */
  get hasWork(): boolean {
    return (
      this.#looks.length > 0 ||
      this.agenda.hasWork ||
      this.listReplies.hasWork ||
      this.#links.hasUnpublished ||
      this.moves?.hasUnpublished === true ||
      this.#links.hasRoomAgain
    );
  }

  /** Whether a ring that something waits for has room: see ShardLinks. */
  get hasRoomAgain(): boolean {
    return this.#links.hasRoomAgain;
  }

  /** Asks the shards to ring when they have made room, where something waits for it. */
  wantRoom(): void {
    this.#links.wantRoom();
  }

  /** Whether a shard has answered, or a connection has come. */
  get hasAnswers(): boolean {
    return this.#links.hasAnswers || this.arrivals?.hasSome === true;
  }

  #receive(ring: RingReader, offset: number, shard: number): void {
    const word = offset >> 2;
    const first = ring.uint32[word + 1]!;
    const kind = first & 0xff;
    const flags = first >>> 16;
    const slot = ring.int32[word + 2]!;
    const value = ring.float64[(offset >> 3) + 2]!;
    const at = offset + RESPONSE_HEADER_BYTES;
    if (kind === ResponseKind.Look) {
      this.#looks.push({ shard, number: value, readingsLeft: READINGS_PER_LOOK });
      return;
    }
    if (kind === ResponseKind.Control) {
      const { control } = this;
      assert(control !== undefined, "only who asks by Control is answered so");
      const payload = ring.bytes.subarray(at, at + ring.uint32[word + 3]!);
      control.onAnswer({ shard, flags, number: value, recordNumber: ring.uint32[word + 7]!, payload });
      return;
    }
    if (kind === ResponseKind.Carry) {
      const message = this.#courier.message(shard, slot, ring.uint32[word + 6]!);
      message.body.set(ring.bytes, at, at + ring.uint32[word + 3]!);
      const durable = (flags & ResponseFlag.Durable) !== 0;
      this.#courier.carry(shard, value, message, durable, ring.uint32[word + 7]!);
      return;
    }
    const connection = this.#connections[slot];
    assert(
      connection !== undefined,
      "a slot is used again only when all shards have forgotten its connection",
    );
    if (kind === ResponseKind.Detached) {
      this.moves?.onDetached(slot);
      return;
    }
    if (kind === ResponseKind.Closed) {
      this.#forgotten(connection);
      return;
    }
    const payload = this.#payload;
    payload.set(ring.bytes, at, at + ring.uint32[word + 3]!);
    if (kind === ResponseKind.Stored) {
      this.#receiveStored(connection, ring, offset, shard);
      return;
    }
    // The client may be gone.
    if (connection.isDeaf) return;
    if (kind === ResponseKind.Reply) {
      connection.onReply(shard, flags, ring.uint32[word + 7]!, payload);
    } else if (kind === ResponseKind.Tubes) {
      connection.onTubes(shard, payload);
    } else if (kind === ResponseKind.Gathered) {
      connection.onGathered(shard, flags, payload);
    } else {
      const signal = this.#signal;
      signal.shard = shard;
      signal.kind = kind;
      signal.flags = flags;
      signal.value = value;
      signal.pri = ring.uint32[word + 6]!;
      signal.recordNumber = ring.uint32[word + 7]!;
      signal.soonestMs = ring.float64[at >> 3]!;
      connection.onSignal(signal);
    }
  }

  /** A reply with a part of a body, which is pinned until now. */
  #receiveStored(connection: Connection, ring: RingReader, offset: number, shard: number): void {
    const arena = this.#arenas[shard];
    assert(arena !== undefined, "only a shard of this thread tells of bodies in its arena");
    const word = offset >> 2;
    const handle = ring.float64[(offset >> 3) + 2]!;
    if (!connection.isDeaf) {
      const head = this.#payload;
      const length = ring.uint32[head.start >> 2]!;
      const isLast = ring.uint32[(head.start >> 2) + 1] === 1;
      head.set(head.bytes, head.start + STORED_HEADER_BYTES, head.end);
      const part = this.#part;
      part.arena = arena;
      part.handle = handle;
      part.offset = ring.uint32[word + 6]!;
      part.length = length;
      part.isLast = isLast;
      connection.onReply(shard, ring.uint32[word + 1]! >>> 16, ring.uint32[word + 7]!, head, part);
    }
    arena.unpin(handle);
  }

  /** One more shard has given back what the connection held. */
  #forgotten(connection: Connection): void {
    assert(connection.closesLeft > 0, "a shard answers Closed once");
    if (--connection.closesLeft > 0) return;
    this.expected.expectNothing(connection);
    this.#add(Counter.Connections, -1);
    connection.onForgotten();
    if (connection.dead) this.#release(connection);
    else this.agenda.markDirty(connection);
  }
}
