// One client connection: takes the bytes of its socket, passes the commands to their routes, and
// sends the replies.
//
// The body of a put is gathered and sent whole, sent in pieces, or written to the arena of a shard
// in the same thread. Refused bodies are dropped.

import { assert } from "../../base/assert.ts";
import { shardOfTube } from "../../base/bytes.ts";
import { type BodyPlace, EMPTY_BODY } from "../../engine/jobs/body-arena.ts";
import { END_REASONS, type EndReason } from "../../message/acceptor-counts.ts";
import { HandleBytes, RequestFlag, RequestOp } from "../../message/request.ts";
import { ReplyCredit } from "../../message/response.ts";
import { Counter, SESSIONS_PER_ACCEPTOR_MAX } from "../../message/topology.ts";
import { Syntax } from "../../protocol/command-parser.ts";
import { BY_HAND, ROUTE_OF, Route, wordOf } from "../../protocol/commands.ts";
import { Reply } from "../../protocol/reply.ts";
import { Request } from "../../protocol/request.ts";
import type { WorkerNames } from "../../ring/connection-words.ts";
import type { ConnectionFilter, FilteredConnection } from "../admission/line-filter.ts";
import { ClientState, type ConnectionState } from "../migration/client-state.ts";
import type { ConnectionMigrator, Movable } from "../migration/connection-migrator.ts";
import { type ConnectionFacts, NAMED_TUBES_MAX } from "../state/connection-facts.ts";
import { InputLimit } from "../state/input-limit.ts";
import { isByHand } from "../state/manual-changes.ts";
import type { RunQueueEntry } from "../state/run-queues.ts";
import type { TubeRef } from "../state/watch-list.ts";
import { type LineHandler, LineReader } from "../stream/line-reader.ts";
import type { Departure, Transport } from "../stream/transport.ts";
import type { AcceptorState } from "./acceptor-state.ts";
import { Replies } from "./replies.ts";
import { abortBatch, ROUTES, type RoutedConnection, refuse } from "./routes.ts";
import { StoredBody } from "./stored-body.ts";

/** A connection, as the filter of its lines sees it. */
class FilteredClient implements FilteredConnection {
  /** The next line waits for a decision of the filter. */
  isWaiting = false;
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  belongsTo(owner: string | undefined, seesTexts: boolean): void {
    const { client } = this.#connection;
    client.owner = owner;
    client.seesTexts = seesTexts;
  }

  get usedTube(): string {
    return this.#connection.client.used.name;
  }

  get watchedTubes(): readonly TubeRef[] {
    return this.#connection.client.watched.tubes;
  }

  get isQuiet(): boolean {
    const { isIdle, holding } = this.#connection.replies;
    return isIdle && holding.empty && !this.isWaiting;
  }

  get isAnswered(): boolean {
    const { isIdle, gatheredBytes } = this.#connection.replies;
    return isIdle && gatheredBytes === 0;
  }

  refuse(reply: Uint8Array): boolean {
    abortBatch(this.#connection);
    return this.#connection.replies.answer(0, reply);
  }

  refuseBody(bodyBytes: number, reply: Uint8Array): void {
    abortBatch(this.#connection);
    this.#connection.dropBody(bodyBytes, reply);
  }

  refuseAndEnd(reply: Uint8Array): boolean {
    abortBatch(this.#connection);
    const { replies } = this.#connection;
    if (!replies.isIdle) return false;
    replies.say(reply, 0, reply.length);
    return this.#connection.end("auth");
  }

  cut(reply: Uint8Array): void {
    this.#connection.cut(reply);
  }

  holdOn(): void {
    this.isWaiting = true;
  }

  goOn(): void {
    this.isWaiting = false;
    this.#connection.acceptor.runQueues.proceedLater(this.#connection);
  }

  endWhenIdle(reason: EndReason): void {
    this.#connection.endWhenIdle(reason);
  }
}

/** Unread reply bytes at which the connection stops executing commands. */
const OUTPUT_BYTES_MAX = ReplyCredit.UnreadBytesMax;

/** Bodies up to this size are gathered and sent whole; larger ones go to their shard in pieces. */
const GATHERED_BODY_BYTES_MAX = 64 * 1024;
/** Bytes of a large body in one message. */
const PIECE_BYTES_MAX = 32 * 1024;

const handleBytes = new HandleBytes();

export class Connection implements RunQueueEntry, LineHandler, RoutedConnection, Movable {
  readonly slot: number;
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  waitsForLog = false;
  readonly acceptor: AcceptorState;
  readonly transport: Transport;
  readonly reader: LineReader;
  readonly inputLimit: InputLimit;
  readonly client: ClientState;
  readonly replies: Replies;
  readonly #filtered: FilteredClient | undefined;
  /** The put whose body is awaited; executed when it is complete. The object is reused. */
  #put: Request | undefined;
  /** The shard that stores the job. */
  #putShard = 0;
  /** Its body, if that is written to the arena directly. */
  #stored: StoredBody | undefined;
  /** The reply to a command whose body is dropped. */
  #afterDrop = Reply.jobTooBig;
  /** Set once the socket moves no more bytes. The slot lives until every shard has forgotten it. */
  isDead = false;
  /** Closed messages still to come. */
  closesLeft = 0;
  /** Why the connection ends. */
  #reason: EndReason | undefined;
  /** The connection ends without answering its commands in flight. */
  #isCut = false;
  /** The transport has been told to close. */
  #isFinished = false;
  /** The connection is about to migrate: it takes no input and does not end. */
  #isLeaving = false;
  /** Set if the connection was told to end in the meantime. */
  #endsAfterLeaving: EndReason | undefined;

  /** `moved` is the state from another acceptor, `filter` the filter of the listener, if any. */
  constructor(
    acceptor: AcceptorState,
    slot: number,
    transport: Transport,
    moved?: ConnectionState,
    filter?: ConnectionFilter,
  ) {
    this.acceptor = acceptor;
    this.slot = slot;
    this.transport = transport;
    const reader = new LineReader(this, acceptor.runQueues.lines);
    const client = new ClientState(acceptor.shards, acceptor.defaultTube, acceptor.nowMs(), moved);
    const replies = new Replies(acceptor, slot, client, transport, reader, this);
    this.reader = reader;
    this.inputLimit = new InputLimit(acceptor.waitingInput, transport, this);
    this.client = client;
    this.replies = replies;
    this.#filtered = filter === undefined ? undefined : new FilteredClient(this);
    if (filter !== undefined) reader.handler = filter.guard(this.#filtered!, this);
    if (moved === undefined) replies.post(acceptor.defaultTube.shard, replies.message(RequestOp.Attach));
  }

  /** Facts for monitoring. */
  get facts(): ConnectionFacts {
    const { client, replies } = this;
    const { tubes } = client.watched;
    return {
      slot: this.slot,
      serial: this.serial,
      descriptor: this.transport.descriptor,
      peer: client.peer,
      name: client.name,
      listener: client.listener,
      openedAtMs: client.openedAtMs,
      answeredAtMs: replies.answeredAtMs,
      uses: client.used.name,
      watches: tubes.slice(0, NAMED_TUBES_MAX).map(({ name }) => name),
      watchCount: tubes.length,
      isProducer: client.isProducer,
      isWorker: client.isWorker,
      waits: replies.waits,
      bytesIn: this.reader.bufferedBytes,
      bytesOut: replies.unsentBytes,
    };
  }

  /** Distinguishes this connection from others that used the same slot. */
  get serial(): number {
    return Math.floor(this.client.openedAtMs * 1000);
  }

  // --- bytes in ----------------------------------------------------------------------------------

  /** Takes bytes from the socket. They are valid only during the call. */
  onBytes(bytes: Uint8Array, length: number): void {
    const { replies, reader } = this;
    if (replies.isEnding) return;
    this.acceptor.counters[Counter.BytesIn]! += length;
    if (replies.abortable > 0) abortBatch(this);
    reader.take(bytes, length);
    if (replies.abortable > 0 && reader.bufferedBytes > 0) abortBatch(this);
    if (reader.bufferedBytes > 0 || this.inputLimit.isInUse || replies.isHalfClosed) this.#settle();
  }

  /** Handles the end of the client's stream. */
  onEnd(): void {
    if (this.replies.isEnding) return;
    this.#halfClose();
    this.proceed();
  }

  /** Resumes processing of input that had to wait. */
  proceed(): void {
    const { replies, reader } = this;
    if (replies.isEnding) return;
    reader.proceed();
    if (replies.abortable > 0 && reader.bufferedBytes > 0) abortBatch(this);
    this.#settle();
  }

  /** Pauses or resumes reading, and closes the connection when everything is done. */
  #settle(): void {
    const { replies, reader } = this;
    if (replies.isEnding) return;
    const { inputLimit } = this;
    if (reader.bufferedBytes > 0 || inputLimit.isInUse)
      inputLimit.settle(reader.bufferedBytes - reader.awaitedBytes, replies.waits);
    if (!replies.isHalfClosed || this.waitsForRoom || this.proceedsLater) return;
    const goesOn = this.#filtered?.isWaiting === true || replies.unsentBytes >= OUTPUT_BYTES_MAX;
    if (!goesOn && this.#mayFollow) this.end();
  }

  // --- lines and bodies --------------------------------------------------------------------------

  get mayTakeLine(): boolean {
    const { replies } = this;
    return replies.conversation === undefined && replies.unsentBytes < OUTPUT_BYTES_MAX;
  }

  onTurnOver(): void {
    this.acceptor.runQueues.proceedLater(this);
  }

  lineBytesMax(bytes: Uint8Array, start: number, end: number): number {
    abortBatch(this);
    return this.acceptor.parser.lineBytesMax(bytes, start, end);
  }

  onBadLine(): boolean {
    abortBatch(this);
    return this.replies.answer(0, Reply.badFormat);
  }

  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    if (this.replies.abortable > 0) abortBatch(this);
    const { parser, trace } = this.acceptor;
    const syntax = parser.parse(bytes, start, end);
    const { request } = parser;
    const { op } = request;
    if (trace !== undefined && !again) trace(`<${this.transport.descriptor} command ${wordOf(op)}`);
    if (syntax !== Syntax.Ok) return refuse(this, syntax, request);
    if (BY_HAND[op] !== 0 && isByHand(op, !this.replies.holding.empty))
      return this.#changeByHand(request, bytes, start, end);
    const route = ROUTE_OF[op]!;
    return route === Route.Put ? this.beginPut(request) : ROUTES[route]!(this, request);
  }

  /**
   * Executes a command that changes something by hand. It goes alone, so that the next reply is its
   * own.
   */
  #changeByHand(request: Request, bytes: Uint8Array, start: number, end: number): boolean {
    const { replies, client } = this;
    const { changes } = this.acceptor;
    const { op } = request;
    const route = ROUTES[ROUTE_OF[op]!]!;
    if (changes === undefined) return route(this, request);
    if (!changes.hasRoom) {
      const isTaken = route(this, request);
      if (isTaken) changes.drop();
      return isTaken;
    }
    if (!replies.isIdle) return false;
    replies.byHand = changes.begin(op, client, bytes, start, end);
    const isTaken = route(this, request);
    if (isTaken) return true;
    replies.byHand = undefined;
    changes.cancel();
    return false;
  }

  // --- the body of a put ------------------------------------------------------------------------

  /** Takes the line of a put. Returns false if it has to wait its turn. */
  // put 3/18
  beginPut(request: Request): boolean {
    const { acceptor, client, replies, reader } = this;
    const { tube, options, bodyBytes } = request;
    const tubeBytes = tube.end - tube.start;
    const shard =
      tubeBytes === 0 ? client.used.shard : shardOfTube(tube.bytes, tube.start, tube.end, acceptor.shards);
    const wholeBytesMax = Math.min(
      GATHERED_BODY_BYTES_MAX,
      acceptor.links.payloadBytesMax - tubeBytes - (options.end - options.start),
    );
    const pieced = bodyBytes > wholeBytesMax;
    if (!replies.mayPut(shard, bodyBytes) || (pieced && replies.underWay > 0)) return false;
    if (!client.isProducer) replies.becomeProducer();
    request.atMs = acceptor.nowMs();
    request.id = acceptor.places.takeJobId(shard);
    acceptor.counters[Counter.Commands + request.op]! += 1;
    this.#putShard = shard;
    const isStored = bodyBytes >= acceptor.topology.storedBytesMin && this.#beginStored(shard, bodyBytes);
    if (pieced && !isStored) {
      replies.shard = shard;
      request.op = RequestOp.PutOpen;
      request.slot = replies.slot;
      acceptor.links.post(shard, request);
      client.touched.add(shard);
      reader.expectPieces(bodyBytes);
    } else {
      this.#put ??= new Request();
      this.#put.beginPut(request);
      if (isStored) reader.expectPieces(bodyBytes);
      else reader.expectBody(bodyBytes);
    }
    return true;
  }

  /** Starts a body in the shard's arena, if the shard is local and has memory. */
  #beginStored(shard: number, bodyBytes: number): boolean {
    const arena = this.acceptor.arenas[shard];
    if (arena === undefined) return false;
    this.#stored ??= new StoredBody();
    return this.#stored.begin(arena, bodyBytes);
  }

  // put 4/18
  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean {
    if (!endsWell) return this.replies.answer(0, Reply.expectedCrlf);
    const put = this.#put;
    assert(put !== undefined, "a body belongs to a put");
    put.body.set(bytes, start, end);
    const sent = this.replies.send(this.#putShard, put);
    put.body.clear();
    return sent;
  }

  onPiece(bytes: Uint8Array, start: number, end: number): number {
    if (this.#stored?.active === true) {
      this.#stored.write(bytes, start, end - start);
      return end - start;
    }
    const length = Math.min(end - start, PIECE_BYTES_MAX, this.acceptor.links.payloadBytesMax);
    const piece = this.replies.message(RequestOp.PutData);
    piece.body.set(bytes, start, start + length);
    return this.replies.write(this.replies.shard, piece) ? length : 0;
  }

  onLastPiece(endsWell: boolean): boolean {
    if (this.#stored?.active === true) return this.#endStored(this.#stored, endsWell);
    const { replies } = this;
    const { shard } = replies;
    const last = replies.message(RequestOp.PutEnd);
    if (!endsWell) last.flags = RequestFlag.BadBody;
    if (!replies.write(shard, last)) return false;
    replies.noteSent(shard);
    return true;
  }

  #endStored(stored: StoredBody, endsWell: boolean): boolean {
    const put = this.#put;
    assert(put !== undefined, "a body belongs to a put");
    // Without options, it can't be the duplicate of another, which needs no room.
    if (!endsWell || (stored.failed && put.options.length === 0)) {
      if (!this.replies.answer(0, endsWell ? Reply.outOfMemory : Reply.expectedCrlf)) return false;
      stored.abandon();
      return true;
    }
    put.op = RequestOp.PutStored;
    if (stored.failed) put.flags = RequestFlag.NoRoom;
    handleBytes.put(stored.failed ? EMPTY_BODY : stored.handle, put.body);
    if (!this.replies.send(this.#putShard, put)) return false;
    stored.handOver();
    return true;
  }

  /** Drops the body that follows and answers with `reply`. */
  dropBody(bodyBytes: number, reply: Uint8Array): void {
    this.#afterDrop = reply;
    this.reader.dropBody(bodyBytes);
  }

  onDropped(): boolean {
    return this.replies.answer(0, this.#afterDrop);
  }

  // --- bodies that a socket receives into the arena ----------------------------------------------

  /**
   * Whether a body that is partly in an arena of this thread lacks enough bytes to be received
   * there directly.
   */
  get awaitsBody(): boolean {
    if (this.#stored?.active !== true || !this.#stored.hasBegun || this.#filtered !== undefined) return false;
    return this.reader.pieceBytesLeft >= this.acceptor.topology.inPlaceBytesMin;
  }

  /**
   * Finds room for these bytes in the arena; `onStored` reports their arrival. Returns false
   * without memory.
   */
  findBodyRoom(place: BodyPlace): boolean {
    return this.#stored!.findRoom(this.reader.pieceBytesLeft, place);
  }

  /** Returns whether the body ends after `length` more bytes. */
  bodyEndsAfter(length: number): boolean {
    return this.reader.pieceBytesLeft === length;
  }

  /** Notes that `length` bytes were written into that room. */
  onBodyStored(length: number): void {
    if (this.replies.isEnding || this.#stored?.active !== true) return;
    this.replies.add(Counter.BytesIn, length);
    this.#stored.filled(length);
    this.reader.pieceCame(length);
  }

  // --- bytes out ---------------------------------------------------------------------------------

  /**
   * Sends the gathered replies with one write. While the previous write is unread, replies keep
   * gathering: separate writes would each occupy a page for a few bytes. `onDrain` resumes.
   */
  // put 18/18
  flush(): void {
    const { replies, transport } = this;
    const { migrator } = this.acceptor;
    if (this.isDead) {
      replies.clear();
      return;
    }
    // After the last Closed everything is handed over, so that the end of the stream can follow.
    const isLast = replies.isEnding && this.closesLeft === 0;
    if (transport.pendingBytes > 0 && !isLast) return;
    replies.flush(isLast);
    if (replies.waitsForLog) this.acceptor.runQueues.waitForLog(this);
    if (!this.isDead && !replies.isIdle) replies.grantCredit();
    if (replies.isEnding) {
      this.#finish();
      return;
    }
    replies.conversation?.onRoom?.();
    if (!replies.goOn() && transport.pendingBytes === 0 && migrator !== undefined)
      this.#considerMove(migrator);
  }

  get isDurable(): boolean {
    return this.replies.isDurable;
  }

  /** Whether input or output resumes once the client has read everything handed over. */
  get waitsForDrain(): boolean {
    const { replies } = this;
    return replies.gatheredBytes > 0 || this.reader.bufferedBytes > 0 || !replies.isIdle;
  }

  /** Handles a client that has read everything handed over. */
  onDrain(): void {
    const { replies } = this;
    const { migrator } = this.acceptor;
    if (replies.unsentBytes > 0) this.acceptor.runQueues.markDirty(this);
    if (!this.isDead && !replies.isIdle) replies.grantCredit();
    replies.conversation?.onRoom?.();
    if (this.reader.bufferedBytes > 0 || this.inputLimit.isInUse || replies.isHalfClosed) this.proceed();
    if (migrator !== undefined) this.#considerMove(migrator);
  }

  // --- the end -----------------------------------------------------------------------------------
  //
  // A client that sees the end may rely on its effects on every acceptor. So the end is sent only
  // after the shards have released what the connection held and no gauge counts it. Commands in
  // flight are answered first, since the client may only have half-closed. Once it is ending, only
  // Credit and Close may be posted: a shard would take anything else for a new connection.

  /** Ends gracefully: takes no more input, answers what is in flight, ends any wait. */
  endWhenIdle(reason: EndReason): void {
    if (this.#isLeaving) {
      this.#endsAfterLeaving = reason;
      return;
    }
    this.#reason ??= reason;
    this.reader.stop();
    if (this.#filtered !== undefined) this.#filtered.isWaiting = false;
    this.onEnd();
  }

  /** Handles the end of the client's stream. */
  #halfClose(): void {
    const { replies } = this;
    if (replies.isHalfClosed) return;
    replies.isHalfClosed = true;
    this.#reason ??= "client";
    const { reservesUnderWay, shard } = replies;
    if (reservesUnderWay > 0) replies.post(shard, replies.message(RequestOp.HalfClose));
    replies.conversation?.onHalfClose?.();
  }

  /**
   * Returns whether all commands of a half-closed client are with their shard, so that the Close
   * may follow. It has to wait while jobs move: a command may follow its job to a shard that would
   * see the Close first, or never.
   */
  get #mayFollow(): boolean {
    const { acceptor, replies, reader } = this;
    if (replies.conversation !== undefined) return false;
    return replies.underWay === 0 || (reader.bufferedBytes === 0 && !acceptor.places.jobsMove);
  }

  /** Ends the connection: it takes no more commands. */
  end(reason: EndReason = "error"): true {
    const { acceptor, replies, reader, inputLimit } = this;
    if (replies.isEnding) return true;
    replies.isEnding = true;
    if (!replies.isDeaf) this.#dropUnsent();
    const why = this.#reason ?? reason;
    replies.add(Counter.Closed + END_REASONS.indexOf(why), 1);
    acceptor.closed?.note(this.facts, why, acceptor.nowMs());
    reader.stop();
    this.#stored?.abandon();
    inputLimit.end();
    if (replies.gatheredBytes > 0) acceptor.runQueues.markDirty(this);
    this.#postCloses();
    return true;
  }

  /**
   * Tells every shard that knows the connection to release what it holds and to forget it. This
   * happens in the turn in which the end is read, so that the Close precedes what other clients
   * send afterwards.
   */
  #postCloses(): void {
    const { acceptor, client, replies } = this;
    for (let shard = 0; shard < acceptor.shards; shard++) {
      if (!client.touched.has(shard)) continue;
      this.closesLeft++;
      this.#postClose(shard, !replies.isDeaf);
    }
    // Closed counts as an expected answer: the client may be waiting for the end of the connection.
    acceptor.pendingReplies.expect(replies);
  }

  #postClose(shard: number, isOrderly: boolean): void {
    const { replies } = this;
    const close = replies.message(RequestOp.Close);
    close.flags =
      (isOrderly ? RequestFlag.Orderly : 0) | (this.#reason === "stop" ? RequestFlag.Stopping : 0);
    replies.post(shard, close);
  }

  /**
   * Stops counting the connection: all shards have released what it held, so its end may be sent.
   */
  onForgotten(): void {
    const { client, replies } = this;
    if (client.isProducer) replies.add(Counter.Producers, -1);
    if (client.isWorker) replies.add(Counter.Workers, -1);
  }

  /** Closes the transport once the shards have forgotten it and all output is handed over. */
  #finish(): void {
    const { replies, transport } = this;
    if (this.#isFinished || this.isDead || this.closesLeft > 0 || replies.waitsForLog) return;
    this.#isFinished = true;
    transport.end();
  }

  /** Handles a socket that moves no more bytes: no client is left to answer. */
  onClosed(): void {
    this.depart();
    this.replies.clear();
    this.#dropUnderWay();
    this.end();
  }

  /** Notes that this acceptor has no socket for the connection any more. */
  depart(): void {
    this.isDead = true;
    this.replies.isDeaf = true;
    this.#dropUnsent();
  }

  /** Ends the connection at once: see FilteredConnection. */
  cut(reply: Uint8Array): void {
    if (this.isDead || this.#isCut) return;
    const { replies } = this;
    this.#isCut = true;
    replies.isDeaf = true;
    this.#dropUnsent();
    this.#dropUnderWay();
    if (replies.isEnding) return;
    if (!replies.isInReply) replies.say(reply, 0, reply.length);
    this.end("auth");
  }

  /** Abandons the commands in flight: nothing more is reported about them. */
  #dropUnderWay(): void {
    const { replies } = this;
    replies.abandon();
    // A Close that waits behind a long reply would wait forever.
    const { underWay, shard } = replies;
    if (replies.isEnding && underWay > 0) this.#postClose(shard, false);
  }

  /** Forgets a change by hand that no shard has: its body is incomplete. */
  #dropUnsent(): void {
    const { replies } = this;
    if (replies.isIdle) replies.byHand = undefined;
  }

  // --- a move to another acceptor: see connection-migrator.ts ------------------------------------

  /** Considers a migration. Called whenever the client has received all replies. */
  #considerMove(migrator: ConnectionMigrator): void {
    const { affinity } = this.replies;
    if (this.#filtered !== undefined) return;
    if (affinity.streak < migrator.commands || !this.#mayMigrate()) return;
    const { shard } = affinity;
    affinity.forget();
    migrator.consider(this, shard);
  }

  /** Returns whether it may move: nothing is in flight, unlogged, unsent or scheduled. */
  #mayMigrate(): boolean {
    const { replies } = this;
    const isListed = this.dirty || this.waitsForRoom || this.proceedsLater || this.waitsForLog;
    const isEnding = this.isDead || replies.isEnding || replies.isHalfClosed;
    const isBusy = !replies.isIdle || !replies.holding.empty || !this.reader.isBetweenLines;
    return !isListed && !isEnding && !isBusy && !this.inputLimit.isPaused && replies.unsentBytes === 0;
  }

  get departure(): Departure | undefined {
    return this.transport.departure;
  }

  leave(): void {
    this.#isLeaving = true;
  }

  get isToEnd(): boolean {
    return this.#endsAfterLeaving !== undefined;
  }

  stay(): void {
    this.#isLeaving = false;
    if (this.#endsAfterLeaving !== undefined) this.endWhenIdle(this.#endsAfterLeaving);
  }
}

// The open connections of one acceptor, by slot. A slot is taken until every shard has forgotten
// its connection and the socket is gone.

export class ConnectionSlots {
  readonly connections: (Connection | undefined)[] = [];
  readonly #free: number[] = [];
  /** The names by which shards know the workers, by slot. */
  readonly #names: WorkerNames;

  /** Slots below `first` are not given to connections. */
  constructor(first: number, names: WorkerNames) {
    this.#names = names;
    for (let slot = 0; slot < first; slot++) this.connections.push(undefined);
  }

  /**
   * Returns a free slot, or undefined if all are taken. The caller fills it before it takes
   * another. A worker without a name is named after its slot.
   */
  take(name = ""): number | undefined {
    const slot = this.#free.pop() ?? this.connections.length;
    if (slot >= SESSIONS_PER_ACCEPTOR_MAX) return undefined;
    this.#names.set(slot, name);
    return slot;
  }

  /** Frees the slot of a connection that no shard knows any more. */
  vacate(slot: number): void {
    this.connections[slot] = undefined;
    this.#free.push(slot);
  }

  facts(): ConnectionFacts[] {
    return this.#open().map(({ facts }) => facts);
  }

  /** Ends one connection after its commands in flight are answered. Returns false if it is gone. */
  endOne(slot: number, serial: number): boolean {
    const connection = this.connections[slot];
    if (connection === undefined || connection.isDead || connection.serial !== serial) return false;
    connection.endWhenIdle("admin");
    return true;
  }

  /** Ends all connections after their commands in flight. */
  endAll(): void {
    for (const connection of this.#open()) connection.endWhenIdle("stop");
  }

  #open(): Connection[] {
    return this.connections.filter((each) => each !== undefined && !each.isDead) as Connection[];
  }
}
