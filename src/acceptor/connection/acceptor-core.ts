// The core of an acceptor, as plain code: connections in slots, rings to and from every shard. It
// has no thread, no socket and no clock.
//
// Sockets call `connect` and pass incoming bytes to the connection's methods. `turn` publishes the
// connections' requests, takes the shards' answers, resumes waiting connections and sends each
// connection's replies with one write.

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
import type { ConnectionFilter } from "../admission/filtered-connection.ts";
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

/** Reads before an acknowledgement: the end of a stream may be read one pass after its bytes. */
const READINGS_PER_LOOK = 2;
/** Answers taken from one shard before the other shards get their turn. */
const BATCH_MESSAGES = 1024;

export interface AcceptorOptions {
  topology: Topology;
  acceptor: number;
  nowMs: () => number;
  /** Returns the text of `stats`, after every shard has updated its counters. */
  statsText: () => string;
  /** Receives a line for each command and reply (-VV). */
  trace?: ((line: string) => void) | undefined;
  /** Whether this acceptor accepts the extended commands. Default: the topology's protocol. */
  extended?: boolean;
  /** Slots below this number are not given to connections. */
  firstSlot?: number;
  /** Records closed connections. If undefined, none are recorded. */
  closed?: ClosedConnections | undefined;
}

/** Part of an answer to a Control request. */
export interface ControlAnswer {
  readonly shard: number;
  /** A set of ResponseFlag bits. */
  readonly flags: number;
  /** The number of the request. */
  readonly number: number;
  /** If the answer is Durable: the shard's record that it waits for. */
  readonly recordNumber: number;
  /** Valid only during the call. */
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
  readonly runQueues: RunQueues = new RunQueues();
  readonly pendingReplies: PendingReplies = new PendingReplies();
  readonly waitingInput: WaitingInput = new WaitingInput(this.runQueues);
  readonly listReplies: ListReplies = new ListReplies();
  readonly tubeListings: TubeListings;
  readonly #relay: ShardRelay = new ShardRelay(this);
  readonly gatherBudget: GatherBudget = new GatherBudget();
  readonly listQueue: SerialQueue = new SerialQueue();
  readonly storedBytesMin: number;
  readonly inPlaceBytesMin: number;
  /** The arenas of shards that run in this thread. */
  readonly #arenas: (BodyArena | undefined)[] = [];
  /** Receives the answers to Control requests, if this thread sends any. */
  control: ControlAnswers | undefined;
  /** The number of open connections. */
  open = 0;
  /** Moves connections to other acceptors, if migration is on. */
  moves: ConnectionMigrator | undefined;
  /** Receives connections from other acceptors, if migration is on. */
  arrivals: MigrationReceiver | undefined;
  #stopping = false;
  /** Whether a metrics reader may ask for the counters that only metrics use. */
  readonly #hasMetrics: boolean;
  /** The time of the current turn, read on first use; 0 until then. */
  #turnAtMs = 0;
  readonly #links: ShardLinks;
  readonly #ids: JobIds;
  /** Sequence numbers of tubes and of changes to tube settings. */
  readonly #sequences: JobIds;
  readonly #directory: JobDirectory | undefined;
  readonly #connections: (Connection | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  /** Read barriers in progress: see shard/read-barrier.ts. */
  #looks: { readonly shard: number; readonly number: number; readingsLeft: number }[] = [];
  /** How far the log has reached the state that replies wait for. */
  readonly #logged: LogWords | undefined;
  /** How far the log is written. */
  readonly #written: LogWords | undefined;
  /** In a group: how far the shared log is. */
  readonly #replicated: LogWords | undefined;
  /** The progress of both logs when the held replies were last checked. */
  readonly #loggedThen: Int32Array;
  readonly #replicatedThen: Int32Array;
  readonly #control: ControlWords;
  readonly #topology: Topology;
  /** Overrides whether the extended commands are accepted; undefined: as the topology says. */
  readonly #extended: boolean | undefined;
  /** Reused for every outgoing message and every answer. */
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
    // Whatever the shared log contains is written, so this wait is implied by the other.
    const isImplied = binlog?.group?.repliesWait === true && binlog.repliesWaitFor === LogWord.Written;
    this.#logged =
      binlog === undefined || isImplied ? undefined : new LogWords(binlog.progress, binlog.repliesWaitFor);
    this.#written = binlog === undefined ? undefined : new LogWords(binlog.progress, LogWord.Written);
    const group = binlog?.group;
    this.#replicated = group?.repliesWait ? new LogWords(group.progress, LogWord.Written) : undefined;
    this.#loggedThen = new Int32Array(topology.shards);
    this.#replicatedThen = new Int32Array(topology.shards);
  }

  /** Returns a parser that accepts `further` commands besides the server's own. */
  parserWith(further: readonly Command[]): CommandParser {
    const { jobBytesMax, protocol } = this.#topology;
    const extended = this.#extended ?? protocol === "extended";
    const commands = COMMANDS.filter(({ extension }) => !extension || extended);
    return new CommandParser(jobBytesMax, [...commands, ...further]);
  }

  // --- connections -------------------------------------------------------------------------------

  /** Opens a connection. Returns undefined if all slots are taken. */
  connect(
    transport: Transport,
    filter?: ConnectionFilter,
    peer?: string,
    listener?: number,
  ): Connection | undefined {
    const slot = this.#freeSlots.pop() ?? this.#connections.length;
    if (slot >= SESSIONS_PER_ACCEPTOR_MAX) return undefined;
    this.open++;
    this.#add(Counter.Connections, 1);
    this.#add(Counter.TotalConnections, 1);
    const connection = new Connection(this, slot, transport, undefined, filter);
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
   * Stops a connection's commands: every shard that knows it releases what it holds and forgets it.
   * Called in the turn in which the end is read, so that the Close precedes what other clients send
   * afterwards.
   */
  close(connection: Closing): void {
    for (let shard = 0; shard < this.shards; shard++) {
      if (!connection.touched.has(shard)) continue;
      connection.closesLeft++;
      const close = connection.message(RequestOp.Close);
      if (!connection.isDeaf) close.flags = RequestFlag.Orderly;
      connection.post(shard, close);
    }
    // Closed counts as an expected answer: the client may be waiting for the end of the connection.
    this.pendingReplies.expect(connection);
  }

  /** Handles a closed socket. Its descriptor is freed once every shard has forgotten it. */
  disconnect(connection: Connection): void {
    if (connection.dead) return;
    connection.onClosed();
    this.open--;
    if (connection.closesLeft === 0) this.#release(connection);
  }

  /** Frees the slot of a connection that nothing refers to any more. */
  #release(connection: Connection): void {
    this.#connections[connection.slot] = undefined;
    this.#freeSlots.push(connection.slot);
    connection.destroyTransport();
  }

  /** Hands a connection to another acceptor. Its slot stays taken: shards may still know it. */
  depart(slot: number): void {
    const connection = this.#connections[slot]!;
    connection.dead = true;
    this.pendingReplies.forget(connection);
    this.open--;
    this.#add(Counter.MovedOut, 1);
  }

  /** Frees the slot of a departed connection once no shard knows it. */
  vacate(slot: number): void {
    this.#connections[slot] = undefined;
    this.#freeSlots.push(slot);
  }

  /** Accepts a connection from another acceptor, with the state it had there. */
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

  /** Returns a description of every open connection. */
  connectionFacts(): ConnectionFacts[] {
    return this.#connections.flatMap((each) => (each === undefined || each.dead ? [] : [each.facts]));
  }

  /** Ends one connection after its commands in flight are answered. Returns false if it is gone. */
  endOne(slot: number, serial: number): boolean {
    const connection = this.#connections[slot];
    if (connection === undefined || connection.dead || connection.serial !== serial) return false;
    connection.endWhenIdle("admin");
    return true;
  }

  /** Ends all connections after their commands in flight, including those that arrive later. */
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

  /** Returns the shard of a job, or UNKNOWN_SHARD if every shard has to be asked. */
  shardOfJob(id: number): number {
    return this.#directory === undefined ? 0 : id === 0 ? UNKNOWN_SHARD : this.#directory.find(id);
  }

  jobEntry(id: number): number {
    return this.#directory?.entry(id) ?? 0;
  }

  // --- messages out ------------------------------------------------------------------------------

  get requests(): readonly RingWriter[] {
    return this.#links.requests;
  }

  get responses(): readonly RingReader[] {
    return this.#links.responses;
  }

  get payloadBytesMax(): number {
    return this.#links.payloadBytesMax;
  }

  /** Registers a shard of this thread: large bodies bypass the ring to it. */
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

  /** The number of connections whose answer may come at any moment: see PendingReplies. */
  get expecting(): number {
    return this.pendingReplies.expecting;
  }

  /** The number of connections that have sent a command since the thread last gave up polling. */
  get asking(): number {
    return this.pendingReplies.asking;
  }

  /** Treats every connection that expects an answer as one that waits for a job. */
  stopExpecting(): void {
    this.pendingReplies.giveUp();
  }

  /** After two reads of the sockets a barrier is acknowledged, behind the Closes they caused. */
  haveRead(): void {
    if (this.#looks.length === 0) return;
    for (const look of this.#looks) {
      if (--look.readingsLeft === 0) this.#tellLooked(look.shard, look.number);
    }
    this.#looks = this.#looks.filter((look) => look.readingsLeft > 0);
  }

  #tellLooked(shard: number, number: number): void {
    const looked = this.message(RequestOp.BarrierAck);
    looked.slot = 0;
    looked.id = number;
    this.post(shard, looked);
  }

  // --- a turn ------------------------------------------------------------------------------------

  /** Takes answers and resumes connections. Returns the number of answers taken. */
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
    if (this.#relay.hasHeld && !this.#control.isSet(ControlWord.BinlogEnded)) this.#relay.turn();
    if (this.runQueues.hasWaitingForRoom) {
      this.#links.forgetFull();
      this.runQueues.retryRoom();
    }
    this.runQueues.letProceed();
    this.listReplies.turn();
    return taken;
  }

  get turnAtMs(): number {
    if (this.#turnAtMs === 0) this.#turnAtMs = this.nowMs();
    return this.#turnAtMs;
  }

  /** Returns whether record `number` of a shard is as far in the log as replies require. */
  isDurable(shard: number, number: number): boolean {
    if (this.#replicated !== undefined && !this.#replicated.reached(shard, number)) return false;
    return this.#logged === undefined || this.#logged.reached(shard, number);
  }

  /** Whether the log has advanced since the held replies, perhaps hundreds, were last checked. */
  #logHasMoved(): boolean {
    if (!this.runQueues.hasHeld) return false;
    if (this.#logged?.differFrom(this.#loggedThen)) return true;
    return this.#replicated?.differFrom(this.#replicatedThen) ?? false;
  }

  /** Returns whether the log has written record `number` of a shard. */
  isWritten(shard: number, number: number): boolean {
    if (this.#written === undefined || this.#written.reached(shard, number)) return true;
    // The shared log may contain the record before the log thread reports it as written.
    return this.#replicated?.reached(shard, number) ?? false;
  }

  /** Whether replies or messages between shards wait for the log. */
  get hasHeld(): boolean {
    return this.runQueues.hasHeld || this.#relay.hasHeld;
  }

  /** Whether something that waited for the log may be sent; nothing may after the log has ended. */
  get hasDurable(): boolean {
    if (this.#control.isSet(ControlWord.BinlogEnded)) return false;
    return (this.#logHasMoved() && this.runQueues.hasDurable) || this.#relay.mayGoOn;
  }

  /** Sends the gathered replies, unless the log has failed: they could report lost changes. */
  flush(): void {
    if (this.#control.isSet(ControlWord.BinlogEnded)) {
      this.runQueues.dropOutput();
      return;
    }
    const moved = this.#logHasMoved();
    if (moved) {
      // Taken before the check: any progress during the check counts as new.
      this.#logged?.copyTo(this.#loggedThen);
      this.#replicated?.copyTo(this.#replicatedThen);
    }
    this.runQueues.flush(moved);
  }

  /** Makes requests visible and calls `onPublished` for each shard that has new ones. */
  publish(onPublished: (shard: number) => void): void {
    // Waking a thread may preempt this one, so publish the connection and all requests first.
    if (this.moves?.hasUnpublished) this.#publishMoves(onPublished);
    else this.#links.publish(onPublished);
  }

  #publishMoves(onPublished: (shard: number) => void): void {
    const shards: number[] = [];
    this.#links.publish((shard) => shards.push(shard));
    this.moves!.publish();
    for (const shard of shards) onPublished(shard);
  }

  /** Whether there is work that no ring or socket will announce. */
  get hasWork(): boolean {
    return (
      this.#looks.length > 0 ||
      this.runQueues.hasWork ||
      this.listReplies.hasWork ||
      this.#links.hasUnpublished ||
      this.moves?.hasUnpublished === true ||
      this.#links.hasRoomAgain
    );
  }

  /** Whether a ring that a message waits for has room again: see ShardLinks. */
  get hasRoomAgain(): boolean {
    return this.#links.hasRoomAgain;
  }

  /** Asks the shards that block a message to signal when they have made room. */
  wantRoom(): void {
    this.#links.wantRoom();
  }

  /** Whether a shard has answered or a connection has arrived. */
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
      if ((flags & ResponseFlag.HaveRead) !== 0) this.#tellLooked(shard, value);
      else this.#looks.push({ shard, number: value, readingsLeft: READINGS_PER_LOOK });
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
      const message = this.#relay.message(shard, slot, ring.uint32[word + 6]!);
      message.body.set(ring.bytes, at, at + ring.uint32[word + 3]!);
      const durable = (flags & ResponseFlag.Durable) !== 0;
      this.#relay.carry(shard, value, message, durable, ring.uint32[word + 7]!);
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

  /** Handles a reply with part of a stored body. The body is pinned until this returns. */
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

  /** Handles a Closed: one more shard has released what the connection held. */
  #forgotten(connection: Connection): void {
    assert(connection.closesLeft > 0, "a shard answers Closed once");
    if (--connection.closesLeft > 0) return;
    this.pendingReplies.expectNothing(connection);
    this.#add(Counter.Connections, -1);
    connection.onForgotten();
    if (connection.dead) this.#release(connection);
    else this.runQueues.markDirty(connection);
  }
}
