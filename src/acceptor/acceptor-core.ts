// One acceptor as plain code: connections in slots, rings to and from every shard. No thread, no socket, no clock.
//
// Sockets call `connect` and the connection's methods as bytes come; `turn` publishes what they sent, takes the shards'
// answers, lets connections go on, and sends each connection's replies with one write.

import { asciiBytes, copyBytes, latin1 } from "../base/bytes.ts";
import { RequestFlag, RequestOp, RequestWriter } from "../message/request.ts";
import { RESPONSE_HEADER_BYTES, ResponseKind } from "../message/response.ts";
import {
  acceptorThread,
  ControlWord,
  Counter,
  countersOf,
  SESSIONS_PER_ACCEPTOR_MAX,
  type Topology,
} from "../message/topology.ts";
import { CommandParser } from "../protocol/command-parser.ts";
import { ClaimWords } from "../ring/claim-word.ts";
import { ControlWords } from "../ring/control-words.ts";
import { JobDirectory, UNKNOWN_SHARD } from "../ring/job-directory.ts";
import { JobIds } from "../ring/job-ids.ts";
import { LogWords } from "../ring/log-words.ts";
import { EMPTY, RingReader } from "../ring/ring-reader.ts";
import { FULL, RingWriter } from "../ring/ring-writer.ts";
import { Connection } from "./connection.ts";
import { ListReplies } from "./list-replies.ts";
import type { Transport } from "./transport.ts";
import { TubeListings } from "./tube-listings.ts";
import { TubeRef } from "./tube-ref.ts";

/** An end right behind bytes may be read one reading later than they are. */
const READINGS_PER_LOOK = 2;
/** What all clients of an acceptor together may send behind their waits, beyond what is read of everybody. */
const WAITING_INPUT_BYTES_MAX = 32 * 1024 * 1024;
const NO_NUMBERS: PostedNumbers = { a: 0, b: 0, c: 0, d: 0, id: 0, time: 0 };
/** Answers taken from one shard before the others have their turn. */
const BATCH_MESSAGES = 1024;

/** Numbers of a posted message. */
export interface PostedNumbers {
  a: number;
  b: number;
  c: number;
  d: number;
  id: number;
  time: number;
}

interface Posted extends PostedNumbers {
  slot: number;
  op: number;
  flags: number;
  counted: number;
  payload: Uint8Array | undefined;
}

export interface AcceptorOptions {
  topology: Topology;
  acceptor: number;
  nowMs: () => number;
  /** The text of `stats`, made after every shard has updated its counters. */
  statsText: () => string;
  /** Takes a line for each command and reply (-VV). */
  trace?: ((line: string) => void) | undefined;
}

export class AcceptorCore {
  readonly shards: number;
  readonly acceptors: number;
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly claims: ClaimWords;
  readonly nowMs: () => number;
  readonly statsText: () => string;
  readonly trace: ((line: string) => void) | undefined;
  readonly counters: Float64Array;
  /** Largest payload of one message to a shard. */
  readonly payloadBytesMax: number;
  readonly requests: readonly RequestWriter[];
  readonly responses: readonly RingReader[];
  readonly listReplies: ListReplies = new ListReplies();
  readonly tubeListings: TubeListings;
  readonly #ids: JobIds;
  readonly #directory: JobDirectory | undefined;
  /** For each shard, messages that found its ring full. */
  readonly #posted: Posted[][];
  readonly #connections: (Connection | undefined)[] = [];
  readonly #freeSlots: number[] = [];
  #dirty: Connection[] = [];
  #waitingForRoom: Connection[] = [];
  /** 1 for each shard whose ring had no room for one of them. */
  readonly #full: Uint8Array;
  #toProceed: Connection[] = [];
  /** Shards that want to know when the sockets have been read: see shard/looks.ts. */
  #looks: { readonly shard: number; readonly number: number; readingsLeft: number }[] = [];
  #held: Connection[] = [];
  /** How far the log has come with what replies wait for. */
  readonly #logged: LogWords | undefined;
  readonly #control: ControlWords;
  /** Open connections. */
  open = 0;
  /** Bytes that clients have sent behind a wait, beyond what is read of every client. */
  #waitingInputBytes = 0;
  /** Waiting clients that are not read because all of them together have sent so much. */
  readonly pausedForOthers = new Set<Connection>();
  /**
   * Connections with a command under way that was sent since the thread last gave up polling for answers: those may be
   * answered any moment. The others wait for a job, and their answer rings the doorbell.
   */
  expecting = 0;
  /** Connections that have sent a command since the thread last gave up polling. */
  asking = 0;
  /** Counts up whenever the thread gives up polling. */
  #pollEpoch = 0;

  constructor(options: AcceptorOptions) {
    const { topology, acceptor } = options;
    this.shards = topology.shards;
    this.acceptors = topology.acceptors;
    this.tubeListings = new TubeListings(topology.shards);
    this.nowMs = options.nowMs;
    this.statsText = options.statsText;
    this.trace = options.trace;
    this.parser = new CommandParser(topology.jobBytesMax);
    const defaultName = asciiBytes("default");
    this.defaultTube = this.tubeRef(defaultName, 0, defaultName.length);
    this.claims = new ClaimWords(topology.claims[acceptor]!);
    this.counters = countersOf(topology, acceptorThread(topology, acceptor));
    this.requests = topology.requests[acceptor]!.map((ring) => new RequestWriter(new RingWriter(ring)));
    this.responses = topology.responses[acceptor]!.map((ring) => new RingReader(ring));
    this.payloadBytesMax = this.requests[0]!.payloadBytesMax;
    this.#control = new ControlWords(topology.control);
    this.#ids = new JobIds(new Int32Array(topology.control), ControlWord.JobIds);
    this.#directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
    this.#posted = this.requests.map(() => []);
    this.#full = new Uint8Array(topology.shards);
    const { binlog } = topology;
    this.#logged = binlog === undefined ? undefined : new LogWords(binlog.progress, binlog.repliesWaitFor);
  }

  // --- connections ------------------------------------------------------------------------------------------------

  /** A new connection, or undefined when all slots are taken. */
  connect(transport: Transport): Connection | undefined {
    const slot = this.#freeSlots.pop() ?? this.#connections.length;
    if (slot >= SESSIONS_PER_ACCEPTOR_MAX) return undefined;
    this.open++;
    this.#add(Counter.Connections, 1);
    this.#add(Counter.TotalConnections, 1);
    const connection = new Connection(this, slot, transport);
    this.#connections[slot] = connection;
    return connection;
  }

  /**
   * The connection takes no more commands: every shard that knows it gives back what it holds and forgets it. Called in
   * the turn in which its end is decided or read, so that the Close is in the rings before what others send afterwards.
   */
  close(connection: Connection): void {
    for (let shard = 0; shard < this.shards; shard++) {
      if (!connection.touched.has(shard)) continue;
      connection.closesLeft++;
      connection.post(shard, RequestOp.Close, connection.dead ? 0 : RequestFlag.Orderly, 0);
    }
    // The Closed is awaited like an answer: the client may wait for its end.
    this.expectAnswer(connection);
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

  /** Ends every connection once what it has under way is answered. */
  endAll(): void {
    for (const connection of this.#connections)
      if (connection !== undefined && !connection.dead) connection.endWhenIdle();
  }

  producerCount(change: number): void {
    this.#add(Counter.Producers, change);
  }

  workerCount(change: number): void {
    this.#add(Counter.Workers, change);
  }

  /** A client has sent `change` bytes more behind its wait, or less. */
  countWaitingInput(change: number): void {
    this.#waitingInputBytes += change;
    if (this.waitingInputIsFull) return;
    for (const connection of this.pausedForOthers) this.proceedLater(connection);
    this.pausedForOthers.clear();
  }

  /** Whether no more is read of who waits than of anybody else. */
  get waitingInputIsFull(): boolean {
    return this.#waitingInputBytes >= WAITING_INPUT_BYTES_MAX;
  }

  /** Counts a command that no shard counts. */
  count(op: number): void {
    this.#add(op, 1);
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

  /** The shard of a job, or UNKNOWN_SHARD when all have to be asked. */
  shardOfJob(id: number): number {
    return this.#directory === undefined ? 0 : id === 0 ? UNKNOWN_SHARD : this.#directory.find(id);
  }

  // --- messages out -----------------------------------------------------------------------------------------------

  /** Writes a message if there is room and nothing posted has to go first. */
  write(
    slot: number,
    shard: number,
    op: number,
    flags: number,
    counted: number,
    bytes: Uint8Array,
    start: number,
    length: number,
    a: number,
    b: number,
    c: number,
    d: number,
    id: number,
    time: number,
  ): boolean {
    if (this.#posted[shard]!.length > 0) return false;
    const request = this.requests[shard]!;
    const at = request.write(op, flags, counted, slot, length, a, b, c, d, id, time);
    if (at === FULL) return false;
    copyBytes(request.ring.bytes, at, bytes, start, length);
    return true;
  }

  /** Writes a message now or, when the ring is full, before anything else later. */
  post(
    slot: number,
    shard: number,
    op: number,
    flags: number,
    counted: number,
    payload: Uint8Array | undefined,
    numbers: PostedNumbers,
  ): void {
    const message: Posted = { slot, op, flags, counted, payload, ...numbers };
    if (this.#posted[shard]!.length > 0 || !this.#writePosted(shard, message))
      this.#posted[shard]!.push(message);
  }

  #writePosted(shard: number, message: Posted): boolean {
    const { slot, op, flags, counted, payload, a, b, c, d, id, time } = message;
    const length = payload?.length ?? 0;
    const request = this.requests[shard]!;
    const at = request.write(op, flags, counted, slot, length, a, b, c, d, id, time);
    if (at === FULL) return false;
    if (payload !== undefined) request.ring.bytes.set(payload, at);
    return true;
  }

  #drainPosted(): void {
    for (let shard = 0; shard < this.shards; shard++) {
      const posted = this.#posted[shard]!;
      let done = 0;
      while (done < posted.length && this.#writePosted(shard, posted[done]!)) done++;
      if (done > 0) posted.splice(0, done);
    }
  }

  /** The connection has sent a command. */
  expectAnswer(connection: Connection): void {
    if (connection.expectsSince === this.#pollEpoch) return;
    connection.expectsSince = this.#pollEpoch;
    this.expecting++;
    if (connection.askedSince === this.#pollEpoch) return;
    connection.askedSince = this.#pollEpoch;
    this.asking++;
  }

  /** Nothing of the connection is under way any more. */
  expectNothing(connection: Connection): void {
    if (connection.expectsSince === this.#pollEpoch) this.expecting--;
    connection.expectsSince = -1;
  }

  /** All who expect an answer now are taken to wait for a job. */
  stopExpecting(): void {
    this.#pollEpoch++;
    this.expecting = 0;
    this.asking = 0;
  }

  /** The thread has read what its sockets had: after two such readings whoever asked is told, behind the Closes of them. */
  haveRead(): void {
    if (this.#looks.length === 0) return;
    for (const look of this.#looks) {
      if (--look.readingsLeft > 0) continue;
      this.post(0, look.shard, RequestOp.Looked, 0, 0, undefined, { ...NO_NUMBERS, id: look.number });
    }
    this.#looks = this.#looks.filter((look) => look.readingsLeft > 0);
  }

  // --- a turn -----------------------------------------------------------------------------------------------------

  markDirty(connection: Connection): void {
    if (connection.dirty) return;
    connection.dirty = true;
    this.#dirty.push(connection);
  }

  /** The ring to the shard has no room for the connection's next message. */
  waitForRoom(connection: Connection, shard: number): void {
    this.#full[shard] = 1;
    if (connection.waitsForRoom) return;
    connection.waitsForRoom = true;
    this.#waitingForRoom.push(connection);
  }

  proceedLater(connection: Connection): void {
    if (connection.proceedsLater) return;
    connection.proceedsLater = true;
    this.#toProceed.push(connection);
  }

  /** Takes answers and lets connections go on. Returns how many answers were taken. */
  takeAnswers(onWriterWaits: (shard: number) => void): number {
    let taken = 0;
    for (let shard = 0; shard < this.shards; shard++) {
      const ring = this.responses[shard]!;
      for (let i = 0; i < BATCH_MESSAGES; i++) {
        const offset = ring.next();
        if (offset === EMPTY) break;
        this.#receive(ring, offset, shard);
        taken++;
      }
      if (ring.release()) onWriterWaits(shard);
    }
    this.#drainPosted();
    this.#letProceed();
    this.listReplies.turn();
    return taken;
  }

  #letProceed(): void {
    const waiting = this.#waitingForRoom;
    if (waiting.length > 0) {
      this.#waitingForRoom = [];
      this.#full.fill(0);
      for (const connection of waiting) connection.waitsForRoom = false;
      for (const connection of waiting) connection.proceed();
    }
    const toProceed = this.#toProceed;
    if (toProceed.length === 0) return;
    this.#toProceed = [];
    for (const connection of toProceed) {
      connection.proceedsLater = false;
      connection.proceed();
    }
  }

  /** Whether record `number` of a shard is as far in the log as replies wait for. */
  isDurable(shard: number, number: number): boolean {
    return this.#logged === undefined || this.#logged.reached(shard, number);
  }

  /** The connection has replies that wait for the log. */
  holdBack(connection: Connection): void {
    if (connection.held) return;
    connection.held = true;
    this.#held.push(connection);
  }

  #releaseHeld(): void {
    const held = this.#held;
    this.#held = [];
    for (const connection of held) {
      connection.held = false;
      if (connection.mayFlushHeld) this.markDirty(connection);
      else this.holdBack(connection);
    }
  }

  /** Whether replies wait for the log. */
  get hasHeld(): boolean {
    return this.#held.length > 0;
  }

  /** Whether replies that waited for the log may leave. */
  get hasDurable(): boolean {
    // Once the log has ended nothing leaves any more, durable or not.
    if (this.#control.isSet(ControlWord.BinlogEnded)) return false;
    return this.#held.some((connection) => connection.mayFlushHeld);
  }

  /**
   * Sends what connections have gathered; nothing any more once the log has failed, because a reply may tell of a change
   * that will not be there after the restart.
   */
  flush(): void {
    if (this.#control.isSet(ControlWord.BinlogEnded)) {
      this.#dirty = [];
      return;
    }
    if (this.#held.length > 0) this.#releaseHeld();
    const dirty = this.#dirty;
    if (dirty.length > 0) {
      this.#dirty = [];
      for (const connection of dirty) {
        connection.dirty = false;
        connection.flush();
      }
    }
  }

  /** Makes requests visible; `onPublished` is called for each shard with new ones. */
  publish(onPublished: (shard: number) => void): void {
    for (let shard = 0; shard < this.shards; shard++)
      if (this.requests[shard]!.ring.publish()) onPublished(shard);
  }

  /** Whether there is something to do that no ring or socket will tell of. */
  get hasWork(): boolean {
    return (
      this.#looks.length > 0 ||
      this.#toProceed.length > 0 ||
      this.#dirty.length > 0 ||
      this.listReplies.hasWork ||
      this.hasRoomAgain
    );
  }

  /**
   * Whether a ring that something waits for has room for any message. If not, there are messages in it that its shard has
   * still to release, and it rings then if it was asked to: an empty ring has room for any message.
   */
  get hasRoomAgain(): boolean {
    for (let shard = 0; shard < this.shards; shard++) {
      const { ring } = this.requests[shard]!;
      if (this.#wantsRoom(shard) && ring.hasRoom(ring.messageBytesMax)) return true;
    }
    return false;
  }

  /** Asks the shards to ring when they have made room, where something waits for it. */
  wantRoom(): void {
    for (let shard = 0; shard < this.shards; shard++)
      if (this.#wantsRoom(shard)) this.requests[shard]!.ring.wantRoom();
  }

  #wantsRoom(shard: number): boolean {
    return this.#full[shard] === 1 || this.#posted[shard]!.length > 0;
  }

  /** Whether a shard has answered. */
  get hasAnswers(): boolean {
    return this.responses.some((ring) => ring.hasMessage);
  }

  #receive(ring: RingReader, offset: number, shard: number): void {
    const word = offset >> 2;
    const kind = ring.bytes[offset + 4]!;
    const flags = ring.bytes[offset + 5]!;
    const slot = ring.int32[word + 2]!;
    const length = ring.uint32[word + 3]!;
    const payload = offset + RESPONSE_HEADER_BYTES;
    if (kind === ResponseKind.Look) {
      this.#looks.push({ shard, number: ring.float64[(offset >> 3) + 2]!, readingsLeft: READINGS_PER_LOOK });
      return;
    }
    const connection = this.#connections[slot]!;
    if (kind === ResponseKind.Closed) {
      if (--connection.closesLeft > 0) return;
      this.expectNothing(connection);
      this.#add(Counter.Connections, -1);
      connection.onForgotten();
      if (connection.dead) this.#release(connection);
      else this.markDirty(connection);
    } else if (connection.dead) {
      // The client is gone.
    } else if (kind === ResponseKind.Reply) {
      connection.onReply(shard, flags, ring.uint32[word + 7]!, ring.bytes, payload, length);
    } else if (kind === ResponseKind.Tubes) {
      connection.onTubes(shard, ring.bytes, payload, length);
    } else {
      const value = ring.float64[(offset >> 3) + 2]!;
      connection.onSignal(shard, kind, flags, value, ring.uint32[word + 6]!, ring.float64[payload >> 3]!);
    }
  }
}
