// One client connection: sends each command to the shard that executes it, as soon as ordering
// allows, and writes the replies.
//
// Ordering: all commands in flight belong to one shard, which answers them in order. A command for
// another shard, or one that takes several messages (a Conversation), waits until everything before
// it is answered. A put takes its id only when no earlier reserve can still be waiting for a job.
// The bytes of a command that has to wait stay in the line reader.

import { ASTERISK } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { shardOfTube } from "../../base/tube-hash.ts";
import type { BodyArena, BodyPlace } from "../../engine/jobs/body-arena.ts";
import { END_REASONS, type EndReason } from "../../message/end-reason.ts";
import { ReplyCredit } from "../../message/reply-credit.ts";
import { HandleBytes, RequestFlag, RequestOp } from "../../message/request.ts";
import { ResponseFlag, ResponseKind } from "../../message/response.ts";
import { Counter } from "../../message/topology.ts";
import { Syntax } from "../../protocol/command-parser.ts";
import { Op, ROUTE_OF, Route, wordOf } from "../../protocol/commands.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import {
  Reply,
  touchedAllReply,
  unknownOptionReply,
  usingReply,
  watchingReply,
} from "../../protocol/reply.ts";
import { Request, type Span } from "../../protocol/request.ts";
import { isEveryTube } from "../../protocol/tube-name.ts";
import { UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import type { ConnectionFilter, FilteredConnection } from "../admission/filtered-connection.ts";
import { PickBatch } from "../fanout/batch/pick-batch.ts";
import type { Conversation, Signal } from "../fanout/conversation.ts";
import type { ConversationHost } from "../fanout/conversation-host.ts";
import { DeleteBatch, onlyShardOf } from "../fanout/delete-batch.ts";
import { FindJob } from "../fanout/find-job.ts";
import { GatherStats } from "../fanout/gather-stats.ts";
import { ListAllJobs } from "../fanout/lists/list-all-jobs.ts";
import { ListTubes } from "../fanout/lists/list-tubes.ts";
import { ListWatched } from "../fanout/lists/list-watched.ts";
import { MoveUse } from "../fanout/move-use.ts";
import { begunBatch, redirectedRequest } from "../fanout/redirected-request.ts";
import { PickOne } from "../fanout/reserve/pick-one.ts";
import { SharedReserve } from "../fanout/reserve/shared-reserve.ts";
import { SetPattern } from "../fanout/set-pattern.ts";
import { TouchHeld } from "../fanout/touch-held.ts";
import { type LineHandler, LineReader } from "../input/line-reader.ts";
import type { ConnectionState, Movable, MoveHistory } from "../migration/moved-connection.ts";
import type { CommandSample } from "../replies/command-sampler.ts";
import { InPlaceBody } from "../replies/in-place-body.ts";
import { Outbox } from "../replies/outbox.ts";
import { traceReply } from "../replies/reply-trace.ts";
import type { Departure, Transport } from "../replies/transport.ts";
import { readBatchOptions } from "../state/batch-request.ts";
import { type ConnectionFacts, NAMED_TUBES_MAX } from "../state/connection-facts.ts";
import { Lane } from "../state/lane.ts";
import type { PendingReply } from "../state/pending-replies.ts";
import type { RunQueueEntry } from "../state/run-queues.ts";
import { ShardAffinity } from "../state/shard-affinity.ts";
import { ShardSet } from "../state/shard-set.ts";
import { TubeRef } from "../state/tube-ref.ts";
import { WatchList } from "../state/watch-list.ts";
import type { Closing, ConnectionHost } from "./connection-host.ts";

/** Unread reply bytes at which the connection stops executing commands. */
const OUTPUT_BYTES_MAX = ReplyCredit.UnreadBytesMax;
/** Unprocessed input at which reading pauses. */
const INPUT_BYTES_MAX = 64 * 1024;
/** The same limit while the client waits for a job and all such clients are within budget. */
const WAITING_INPUT_BYTES_MAX = 512 * 1024;
/** Bodies up to this size are gathered and sent whole; larger ones go to their shard in pieces. */
const GATHERED_BODY_BYTES_MAX = 64 * 1024;
/** Bytes of a large body in one message. */
const PIECE_BYTES_MAX = 32 * 1024;

const CR_LF = asciiBytes("\r\n");
const handleBytes = new HandleBytes();
const NOWHERE = -1;
/** Bytes of a redirected delete-batch besides the ids and one byte for each. */
const DELETE_BATCH_ROOM = 64;

/** Part of a body in the arena of a shard of this thread. Valid only during the call. */
export interface BodyPart {
  arena: BodyArena | undefined;
  handle: number;
  offset: number;
  length: number;
  /** Whether CR LF follows. */
  isLast: boolean;
}

export class Connection
  implements RunQueueEntry, PendingReply, Closing, LineHandler, ConversationHost, Movable, FilteredConnection
{
  readonly slot: number;
  readonly openedAtMs: number;
  /** When the client was last sent bytes or, before that, when it arrived; in monotonic ms. */
  #answeredAtMs: number;
  /** The command that is being timed. */
  #sample: CommandSample | undefined;
  readonly touched: ShardSet = new ShardSet();
  /** Set once the socket moves no more bytes. The slot lives until every shard has forgotten it. */
  dead = false;
  closesLeft = 0;
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  held = false;
  expectsSince = -1;
  askedSince = -1;

  readonly #host: ConnectionHost;
  readonly #transport: Transport;
  readonly #reader: LineReader;
  readonly outbox: Outbox;
  readonly #lane = new Lane();
  #used: TubeRef;
  readonly #watched: WatchList;
  /** Shards on which this connection may hold jobs. */
  readonly #holding = new ShardSet();
  /** The put whose body is awaited; executed when it is complete. The object is reused. */
  #put: Request | undefined;
  /** The shard that stores the job. */
  #putShard = 0;
  /** Its body, if that is written to the arena directly. */
  #stored: InPlaceBody | undefined;
  /** The reply to a command whose body is dropped. */
  #afterDrop = Reply.jobTooBig;
  #conversation: Conversation | undefined;
  #waitNumber = 0;
  #paused = false;
  /** How much of the input exceeds INPUT_BYTES_MAX, as counted for all waiting clients. */
  #waitingInputBytes = 0;
  #halfClosed = false;
  /** No more input is accepted, and the shards have been told to forget the connection. */
  #ending = false;
  #endReason: EndReason | undefined;
  /** Address and port of the client: see Serving. */
  peer: string | undefined;
  /** Index of its listener: see Serving. */
  listener: number | undefined;
  /** The connection ends without answering its commands in flight. */
  #isCut = false;
  /** The transport has been told to close. */
  #finished = false;
  #isProducer = false;
  #isWorker = false;
  /** The number of the batch that the client's next byte aborts, or 0; and the next number. */
  #abortable = 0;
  #nextBatchNumber = 1;
  /** The shard of the last reply. In a conversation, only this shard sends bytes to the client. */
  #replyShard = 0;
  /** Part of the current reply is in the output and more follows. */
  #inReply = false;
  /** The shard that waits until another shard has executed a redirected command. */
  #redirected = NOWHERE;
  /** Tracks which shard its commands go to. */
  readonly #affinity = new ShardAffinity();
  history: MoveHistory = { moves: 0, mayMoveAtMs: 0 };
  /** The connection is about to migrate: it takes no input and does not end. */
  #leaving = false;
  /** Set if the connection was told to end in the meantime. */
  #endsAfterLeaving: EndReason | undefined;
  readonly #isFiltered: boolean;
  /** The next line waits for a decision of the filter. */
  #waitsForFilter = false;

  /** `moved` is the state from another acceptor, `filter` the filter of the listener, if any. */
  constructor(
    host: ConnectionHost,
    slot: number,
    transport: Transport,
    moved?: ConnectionState,
    filter?: ConnectionFilter,
  ) {
    this.#host = host;
    this.slot = slot;
    this.openedAtMs = moved?.openedAtMs ?? host.nowMs();
    this.#answeredAtMs = moved === undefined ? this.openedAtMs : host.nowMs();
    this.#isFiltered = filter !== undefined;
    this.#transport = transport;
    this.#reader = new LineReader(filter?.guard(this) ?? this);
    this.outbox = new Outbox(transport, host, host.inPlaceBytesMin);
    this.#used = host.defaultTube;
    this.#watched = new WatchList(host.shards);
    if (moved !== undefined) {
      this.#goOn(moved);
      return;
    }
    this.#watched.add(host.defaultTube);
    this.post(host.defaultTube.shard, this.message(RequestOp.Attach));
  }

  /** Restores the state from another acceptor. */
  #goOn(state: ConnectionState): void {
    const { used, watched, touched, isProducer, isWorker, history, nextBatchNumber } = state;
    const { shards } = this.#host;
    this.#used = new TubeRef(used, shards);
    for (const name of watched) this.#watched.add(new TubeRef(name, shards));
    for (const shard of touched) this.touched.add(shard);
    this.#isProducer = isProducer;
    this.#isWorker = isWorker;
    this.#nextBatchNumber = nextBatchNumber;
    this.history = history;
    this.peer = state.peer;
    this.listener = state.listener;
  }

  /** Facts for monitoring. */
  get facts(): ConnectionFacts {
    const { tubes } = this.#watched;
    return {
      slot: this.slot,
      serial: this.serial,
      descriptor: this.descriptor,
      peer: this.peer,
      listener: this.listener,
      openedAtMs: this.openedAtMs,
      answeredAtMs: this.#answeredAtMs,
      uses: this.#used.name,
      watches: tubes.slice(0, NAMED_TUBES_MAX).map(({ name }) => name),
      watchCount: tubes.length,
      isProducer: this.#isProducer,
      isWorker: this.#isWorker,
      waits: this.#lane.reservesUnderWay > 0 || this.#conversation !== undefined,
      bytesIn: this.#reader.bufferedBytes,
      bytesOut: this.outbox.bytes,
    };
  }

  /** Distinguishes this connection from others that used the same slot. */
  get serial(): number {
    return Math.floor(this.openedAtMs * 1000);
  }

  get descriptor(): number {
    return this.#transport.descriptor;
  }

  // --- bytes in ----------------------------------------------------------------------------------

  /** Takes bytes from the socket. They are valid only during the call. */
  onBytes(bytes: Uint8Array, length: number): void {
    if (this.#ending) return;
    const { counters } = this.#host;
    counters[Counter.BytesIn] = counters[Counter.BytesIn]! + length;
    this.#abortBatch();
    this.#reader.take(bytes, length);
    if (this.#reader.bufferedBytes > 0) this.#abortBatch();
    this.#settle();
  }

  /** Whether enough bytes are missing of a body that is partly in an arena of this thread. */
  get awaitsBody(): boolean {
    if (this.#stored?.active !== true || !this.#stored.hasBegun || this.#isFiltered) return false;
    return this.#reader.pieceBytesLeft >= this.#host.inPlaceBytesMin;
  }

  /** Finds room for them in the arena, to be reported with `onStored`. False without memory. */
  findBodyRoom(place: BodyPlace): boolean {
    return this.#stored!.findRoom(this.#reader.pieceBytesLeft, place);
  }

  /** Returns whether the body ends after `length` more bytes. */
  endsBody(length: number): boolean {
    return this.#reader.pieceBytesLeft === length;
  }

  /** Notes that `length` bytes were written into that room. */
  onStored(length: number): void {
    if (this.#ending || this.#stored?.active !== true) return;
    const { counters } = this.#host;
    counters[Counter.BytesIn] = counters[Counter.BytesIn]! + length;
    this.#stored.filled(length);
    this.#reader.pieceCame(length);
  }

  /** Handles the end of the client's stream. */
  onEnd(): void {
    if (this.#ending) return;
    if (!this.#halfClosed) {
      this.#halfClosed = true;
      this.#endReason ??= "client";
      const { reservesUnderWay, shard } = this.#lane;
      if (reservesUnderWay > 0) this.post(shard, this.message(RequestOp.HalfClose));
      this.#conversation?.onHalfClose?.();
    }
    this.proceed();
  }

  /** Resumes processing of input that had to wait. */
  proceed(): void {
    if (this.#ending) return;
    this.#reader.proceed();
    if (this.#reader.bufferedBytes > 0) this.#abortBatch();
    this.#settle();
  }

  /** Pauses or resumes reading, and ends the connection when everything is done. */
  #settle(): void {
    if (this.#ending) return;
    // Keep reading from a waiting client: only a read reveals a disconnect.
    const waits = this.#lane.reservesUnderWay > 0 || this.#conversation !== undefined;
    const inputBytes = this.#reader.bufferedBytes - this.#reader.awaitedBytes;
    const { waitingInput } = this.#host;
    this.#countWaitingInput(waits ? inputBytes - INPUT_BYTES_MAX : 0);
    const readsOn = waits && !waitingInput.isFull;
    const tooMuch = inputBytes >= (readsOn ? WAITING_INPUT_BYTES_MAX : INPUT_BYTES_MAX);
    if (tooMuch && waits && inputBytes < WAITING_INPUT_BYTES_MAX) waitingInput.pause(this);
    if (tooMuch !== this.#paused) {
      this.#paused = tooMuch;
      if (tooMuch) this.#transport.pause();
      else this.#transport.resume();
    }
    const isListed = this.waitsForRoom || this.proceedsLater;
    const goesOn = isListed || this.#waitsForFilter || this.outbox.bytes >= OUTPUT_BYTES_MAX;
    if (this.#halfClosed && this.#mayEnd() && !goesOn) this.#end();
  }

  #countWaitingInput(bytes: number): void {
    const counted = Math.max(0, bytes);
    if (counted === this.#waitingInputBytes) return;
    const change = counted - this.#waitingInputBytes;
    this.#waitingInputBytes = counted;
    this.#host.waitingInput.count(change);
  }

  /**
   * Returns whether all commands of a half-closed client are with their shard, so that the Close
   * may follow. It has to wait while jobs move: a command may follow its job to a shard that would
   * see the Close first, or never.
   */
  #mayEnd(): boolean {
    return (
      this.#conversation === undefined &&
      (this.#lane.underWay === 0 || (this.#reader.bufferedBytes === 0 && !this.#host.jobsMove))
    );
  }

  #idle(): boolean {
    return this.#lane.underWay === 0 && this.#conversation === undefined;
  }

  // --- lines and bodies --------------------------------------------------------------------------

  get mayTakeLine(): boolean {
    return this.#conversation === undefined && this.outbox.bytes < OUTPUT_BYTES_MAX;
  }

  onTurnOver(): void {
    this.#host.runQueues.proceedLater(this);
  }

  lineBytesMax(bytes: Uint8Array, start: number, end: number): number {
    this.#abortBatch();
    return this.#host.parser.lineBytesMax(bytes, start, end);
  }

  onBadLine(): boolean {
    this.#abortBatch();
    return this.#answer(0, Reply.badFormat);
  }

  onLine(bytes: Uint8Array, start: number, end: number, again: boolean): boolean {
    this.#abortBatch();
    const { parser, trace } = this.#host;
    const syntax = parser.parse(bytes, start, end);
    const { request } = parser;
    if (trace !== undefined && !again) trace(`<${this.descriptor} command ${wordOf(request.op)}`);
    return syntax === Syntax.Ok ? this.#execute(request) : this.#refuse(syntax, request);
  }

  #refuse(syntax: Syntax, request: Request): boolean {
    if (syntax === Syntax.Unknown) return this.#answer(0, Reply.unknownCommand);
    if (syntax === Syntax.BadFormat) return this.#answer(0, Reply.badFormat);
    if (syntax === Syntax.BadFormatCounted) return this.#answer(request.op, Reply.badFormat);
    const reply = this.#refusal(syntax);
    if (ROUTE_OF[request.op] !== Route.Put) return this.#answer(0, reply);
    this.#host.count(request.op);
    this.#afterDrop = reply;
    this.#reader.dropBody(request.bodyBytes);
    return true;
  }

  /** Returns the reply to a refused line. If a body follows the line, it is dropped first. */
  #refusal(syntax: Syntax): Uint8Array {
    if (syntax === Syntax.TooBig) return Reply.jobTooBig;
    if (syntax === Syntax.BadOption) return Reply.badFormat;
    return unknownOptionReply(this.#host.parser.unknownOption);
  }

  onDropped(): boolean {
    return this.#answer(0, this.#afterDrop);
  }

  onBody(bytes: Uint8Array, start: number, end: number, endsWell: boolean): boolean {
    if (!endsWell) return this.#answer(0, Reply.expectedCrlf);
    const put = this.#put;
    assert(put !== undefined, "a body belongs to a put");
    put.body.set(bytes, start, end);
    const sent = this.#send(this.#putShard, put);
    put.body.clear();
    return sent;
  }

  onPiece(bytes: Uint8Array, start: number, end: number): number {
    if (this.#stored?.active === true) {
      this.#stored.write(bytes, start, end - start);
      return end - start;
    }
    const length = Math.min(end - start, PIECE_BYTES_MAX, this.#host.payloadBytesMax);
    const piece = this.message(RequestOp.PutData);
    piece.body.set(bytes, start, start + length);
    return this.#write(this.#lane.shard, piece) ? length : 0;
  }

  onLastPiece(endsWell: boolean): boolean {
    if (this.#stored?.active === true) return this.#endStored(this.#stored, endsWell);
    const { shard } = this.#lane;
    const last = this.message(RequestOp.PutEnd);
    if (!endsWell) last.flags = RequestFlag.BadBody;
    if (!this.#write(shard, last)) return false;
    this.#lane.sent(shard);
    this.#host.pendingReplies.expect(this);
    return true;
  }

  #endStored(stored: InPlaceBody, endsWell: boolean): boolean {
    if (!endsWell || stored.failed) {
      if (!this.#answer(0, endsWell ? Reply.outOfMemory : Reply.expectedCrlf)) return false;
      stored.abandon();
      return true;
    }
    const put = this.#put;
    assert(put !== undefined, "a body belongs to a put");
    put.op = RequestOp.PutStored;
    handleBytes.put(stored.handle, put.body);
    if (!this.#send(this.#putShard, put)) return false;
    stored.handOver();
    return true;
  }

  // --- the interface of a filter -----------------------------------------------------------------

  get usedTube(): string {
    return this.#used.name;
  }

  get watchedTubes(): readonly TubeRef[] {
    return this.#watched.tubes;
  }

  /** Whether the connection waits for nothing and holds no job. */
  get isQuiet(): boolean {
    return this.#idle() && this.#holding.empty && !this.#waitsForFilter;
  }

  get isAnswered(): boolean {
    return this.#idle() && this.outbox.gatheredBytes === 0;
  }

  refuse(reply: Uint8Array): boolean {
    this.#abortBatch();
    return this.#answer(0, reply);
  }

  refuseBody(bodyBytes: number, reply: Uint8Array): void {
    this.#abortBatch();
    this.#afterDrop = reply;
    this.#reader.dropBody(bodyBytes);
  }

  refuseAndEnd(reply: Uint8Array): boolean {
    this.#abortBatch();
    if (!this.#idle()) return false;
    this.#append(reply, 0, reply.length);
    this.#endReason ??= "auth";
    this.#end();
    return true;
  }

  cut(reply: Uint8Array): void {
    if (this.dead || this.#isCut) return;
    this.#isCut = true;
    this.#dropUnderWay();
    if (this.#ending) return;
    if (!this.#inReply) this.#append(reply, 0, reply.length);
    this.#endReason ??= "auth";
    this.#end();
  }

  holdOn(): void {
    this.#waitsForFilter = true;
  }

  goOn(): void {
    this.#waitsForFilter = false;
    this.#host.runQueues.proceedLater(this);
  }

  // --- commands ----------------------------------------------------------------------------------

  /** Dispatches a command. Returns false if it has to wait its turn. */
  #execute(request: Request): boolean {
    switch (ROUTE_OF[request.op]) {
      case Route.Put:
        return this.#takePut(request);
      case Route.Reserve:
        return this.#reserve(request);
      case Route.Job:
        return this.#byId(request);
      case Route.UsedTube:
        return this.#sendCounted(this.#used.shard, request);
      case Route.NamedTube: {
        const { bytes, start, end } = request.tube;
        return this.#sendCounted(shardOfTube(bytes, start, end, this.#host.shards), request);
      }
      case Route.NamedTubes:
        return this.#listJobs(request);
      case Route.TubeSet:
        return this.#changeTubes(request);
      case Route.Report:
        return this.#report(request.op);
      case Route.Pattern:
        return this.#setTubes(request);
      case Route.Jobs:
        return this.#deleteBatch(request);
      case Route.Held:
        return this.#touchAll(request);
      default:
        assert(request.op === Op.Quit, "every command has a route");
        if (!this.#idle()) return false;
        this.#endReason ??= "quit";
        this.#end();
        return true;
    }
  }

  // put 3/10
  #takePut(request: Request): boolean {
    const host = this.#host;
    const { tube, options } = request;
    const shard =
      tube.length === 0 ? this.#used.shard : shardOfTube(tube.bytes, tube.start, tube.end, host.shards);
    const wholeBytesMax = Math.min(
      GATHERED_BODY_BYTES_MAX,
      host.payloadBytesMax - tube.length - options.length,
    );
    const pieced = request.bodyBytes > wholeBytesMax;
    if (!this.#lane.mayPut(shard, request.bodyBytes) || (pieced && this.#lane.underWay > 0)) return false;
    if (!this.#isProducer) {
      this.#isProducer = true;
      host.producerCount(1);
    }
    request.atMs = host.nowMs();
    request.id = host.takeJobId(shard);
    host.count(request.op);
    this.#putShard = shard;
    if (this.#beginStored(shard, request.bodyBytes)) {
      this.#keepPut(request);
      this.#reader.expectPieces(request.bodyBytes);
    } else if (pieced) {
      this.#lane.shard = shard;
      request.op = RequestOp.PutOpen;
      request.slot = this.slot;
      host.post(shard, request);
      this.touched.add(shard);
      this.#reader.expectPieces(request.bodyBytes);
    } else {
      this.#keepPut(request);
      this.#reader.expectBody(request.bodyBytes);
    }
    return true;
  }

  #keepPut(request: Request): void {
    this.#put ??= new Request();
    this.#put.beginPut(request);
  }

  /** Starts a body in the shard's arena, if the shard is local, has memory and it pays off. */
  #beginStored(shard: number, bodyBytes: number): boolean {
    if (bodyBytes < this.#host.storedBytesMin) return false;
    const arena = this.#host.arenaOf(shard);
    if (arena === undefined) return false;
    this.#stored ??= new InPlaceBody();
    return this.#stored.begin(arena, bodyBytes);
  }

  #reserve(request: Request): boolean {
    if (request.op === Op.Reserve) request.timeoutMs = Number.POSITIVE_INFINITY;
    // A batch with timeout 0 has no wait to abort, whether or not the next bytes are there.
    const mayAbort = request.op === Op.ReserveBatch && readBatchOptions(request) && request.timeoutMs > 0;
    const shard = this.#watched.onlyShard;
    // A shard would answer at once, before it learns that bytes after the batch abort it.
    const endsHere = mayAbort && this.#halfClosed;
    const alone =
      !endsHere &&
      this.#watched.shardCount === 1 &&
      this.#holding.within(shard) &&
      !this.#lane.mayHoldElsewhere;
    if (mayAbort && alone) request.waitNumber = this.#nextBatchNumber;
    const taken = alone ? this.#reserveAlone(shard, request) : this.#reserveShared(request);
    if (!taken) return false;
    this.#becomeWorker();
    if (mayAbort) {
      this.#abortable = this.#nextBatchNumber;
      this.#nextBatchNumber = (this.#nextBatchNumber % U32_MAX) + 1;
    }
    return true;
  }

  /** Sends a reserve whose watched tubes and held jobs are all on one shard. */
  #reserveAlone(shard: number, request: Request): boolean {
    request.counted = request.op;
    if (request.op !== Op.ReserveBatch) request.op = Op.Reserve;
    if (this.#halfClosed) request.flags |= RequestFlag.NoWait;
    if (!this.#send(shard, request)) return false;
    this.#lane.reservesUnderWay++;
    return true;
  }

  #reserveShared(request: Request): boolean {
    if (!this.#idle()) return false;
    const { op, timeoutMs } = request;
    this.#host.count(op);
    const shards: number[] = [];
    for (let shard = 0; shard < this.#host.shards; shard++) {
      if (this.#watched.watches(shard) || this.#holding.has(shard)) shards.push(shard);
    }
    const picker = op === Op.ReserveBatch ? this.#batchPicker(request) : new PickOne(this);
    return this.#begin(new SharedReserve(this, shards, this.#halfClosed ? 0 : timeoutMs, picker));
  }

  #batchPicker({ count, bodyBytes, flags }: Request): PickBatch {
    const withTubes = (flags & RequestFlag.Tubes) !== 0;
    const { listReplies, gatherBudget } = this.#host;
    return new PickBatch(this, { jobsMax: count, bytesMax: bodyBytes, withTubes }, listReplies, gatherBudget);
  }

  /** Aborts the wait of an abortable batch, because the client has sent more bytes. */
  #abortBatch(): void {
    if (this.#abortable === 0) return;
    const number = this.#abortable;
    this.#abortable = 0;
    // An earlier command may be redirected while the batch waits on the lane.
    if (this.#conversation === undefined || this.#redirected !== NOWHERE) {
      const abort = this.message(RequestOp.Abort);
      abort.waitNumber = number;
      this.post(this.#lane.shard, abort);
      this.#host.pendingReplies.expect(this);
    } else this.#conversation.onInput?.();
  }

  #deleteBatch(request: Request): boolean {
    const host = this.#host;
    const { op, body } = request;
    // If the shard lacks some of the jobs, the batch comes back with one byte for each id.
    if (body.length + request.count + DELETE_BATCH_ROOM <= host.payloadBytesMax) {
      const shard = onlyShardOf(body, host);
      if (shard !== UNKNOWN_SHARD)
        return this.#lane.mayCarry(shard, body.length) && this.#sendCounted(shard, request);
    }
    if (!this.#idle()) return false;
    host.count(op);
    const conversation = new DeleteBatch(this, host, body);
    this.#begin(conversation);
    conversation.begin();
    return true;
  }

  #touchAll(request: Request): boolean {
    const { underWay, shard: busyShard } = this.#lane;
    const held = this.#holding.list(this.#host.shards);
    if (this.#lane.mayHoldElsewhere) return false;
    // Commands in flight may bring more jobs of that shard.
    const shard = underWay > 0 ? busyShard : (held[0] ?? -1);
    if (shard < 0) return this.#answer(request.op, touchedAllReply(0));
    if (this.#holding.within(shard)) return this.#sendCounted(shard, request);
    if (!this.#idle()) return false;
    this.#host.count(request.op);
    return this.#begin(new TouchHeld(this, held));
  }

  /** Starts a command that takes several messages. */
  #begin(conversation: Conversation): true {
    this.#conversation = conversation;
    this.#host.pendingReplies.expect(this);
    return true;
  }

  #becomeWorker(): void {
    if (this.#isWorker) return;
    this.#isWorker = true;
    this.#host.workerCount(1);
  }

  #byId(request: Request): boolean {
    const host = this.#host;
    const { op, id } = request;
    const shard = host.shardOfJob(id);
    if (shard !== UNKNOWN_SHARD) {
      if (!this.#sendCounted(shard, request)) return false;
      if (op === Op.ReserveJob && host.shards > 1) this.#lane.mayHoldElsewhere = true;
      return true;
    }
    if (!this.#idle()) return false;
    host.count(op);
    this.#find(request.clone());
    return true;
  }

  /** Finds the job of a command and executes the command on the job's shard. */
  #find(request: Request): void {
    const conversation = new FindJob(this, this.#host, request);
    this.#begin(conversation);
    conversation.begin();
  }

  /**
   * Handles a redirect: the shard no longer has the job of the oldest command in flight and holds
   * back the commands after it. A conversation finds the job and answers the command.
   */
  #follow(signal: Signal): void {
    this.#redirected = signal.shard;
    this.#sample = undefined;
    this.outbox.meter.begin(0);
    const request = redirectedRequest(signal);
    if (request.op !== Op.DeleteBatch) {
      this.#find(request);
      return;
    }
    const conversation = new DeleteBatch(this, this.#host, request.body, begunBatch(signal));
    this.#begin(conversation);
    conversation.begin();
  }

  /** Ends a redirect: its shard may continue with the commands that it holds back. */
  #endRedirect(shard: number): void {
    this.#redirected = NOWHERE;
    const unreadBytes = this.outbox.bytes;
    const goOn = this.message(RequestOp.GoOn);
    goOn.readBytes = unreadBytes;
    this.outbox.meter.begin(unreadBytes);
    this.post(shard, goOn);
    if (this.#lane.answered()) {
      this.#abortable = 0;
      this.#host.pendingReplies.expectNothing(this);
    } else this.#host.pendingReplies.expect(this);
  }

  #changeTubes(request: Request): boolean {
    if (request.op === Op.Use) return this.#use(request);
    if (request.op === Op.Watch) return this.#watch(request);
    return this.#ignore(request);
  }

  #use(request: Request): boolean {
    const { bytes, start, end } = request.tube;
    if (this.#used.is(bytes, start, end)) return this.#answer(Op.Use, usingReply(this.#used.name));
    const tube = this.#host.tubeRef(bytes, start, end);
    if (tube.shard === this.#used.shard) {
      if (!this.#sendCounted(tube.shard, request)) return false;
    } else {
      if (!this.#idle()) return false;
      this.#begin(new MoveUse(this, this.#used, tube));
    }
    this.#used = tube;
    return true;
  }

  #watch(request: Request): boolean {
    const watched = this.#watched;
    const { bytes, start, end } = request.tube;
    if (watched.find(bytes, start, end) >= 0) return this.#answer(Op.Watch, watchingReply(watched.size));
    const tube = this.#host.tubeRef(bytes, start, end);
    request.count = watched.size + 1;
    if (!this.#sendCounted(tube.shard, request)) return false;
    watched.add(tube);
    return true;
  }

  #ignore(request: Request): boolean {
    const watched = this.#watched;
    const { bytes, start, end } = request.tube;
    const position = watched.find(bytes, start, end);
    if (position < 0) return this.#answer(Op.Ignore, watchingReply(watched.size));
    if (watched.size === 1) return this.#answer(Op.Ignore, Reply.notIgnored);
    request.count = watched.size - 1;
    if (!this.#sendCounted(watched.tubes[position]!.shard, request)) return false;
    watched.removeAt(position);
    return true;
  }

  /** Routes a setting. A plain name concerns only its own shard, a pattern concerns all of them. */
  #setTubes(request: Request): boolean {
    const { bytes, start, end } = request.tube;
    const { shards } = this.#host;
    const shard = shardOfTube(bytes, start, end, shards);
    if (shards === 1 || bytes[end - 1] !== ASTERISK) return this.#sendCounted(shard, request);
    if (!this.#idle()) return false;
    this.#host.count(request.op);
    return this.#begin(new SetPattern(this, shards, shard, request, this.#host.takeSequence()));
  }

  /** Lists the jobs of one tube, or of all tubes on all shards. */
  #listJobs(request: Request): boolean {
    const { bytes, start, end } = request.tube;
    const { shards, listQueue } = this.#host;
    if (shards === 1 || !isEveryTube(request.tube))
      return this.#sendCounted(shardOfTube(bytes, start, end, shards), request);
    if (!this.#idle()) return false;
    this.#host.count(request.op);
    this.#host.pendingReplies.expect(this);
    const conversation = new ListAllJobs(this, shards, request, listQueue);
    this.#conversation = conversation;
    listQueue.enter(conversation);
    return true;
  }

  #report(op: number): boolean {
    if (op === Op.ListTubeUsed) return this.#answer(op, usingReply(this.#used.name));
    if (!this.#idle()) return false;
    const { shards, tubeListings, listReplies, statsText, extensionsText } = this.#host;
    this.#host.count(op);
    if (op === Op.Stats || op === Op.Extensions) {
      this.#conversation = new GatherStats(this, shards, op === Op.Stats ? statsText : extensionsText);
      for (let shard = 0; shard < shards; shard++) this.post(shard, this.message(Op.Stats));
    } else if (op === Op.ListTubes) {
      const conversation = new ListTubes(this, tubeListings, listReplies);
      this.#conversation = conversation;
      tubeListings.ask(conversation);
    } else {
      assert(op === Op.ListTubesWatched, "every report is made by somebody");
      this.#conversation = new ListWatched(this, this.#watched, listReplies);
    }
    return true;
  }

  // --- messages out ------------------------------------------------------------------------------

  message(op: number): Request {
    return this.#host.message(op);
  }

  #sendCounted(shard: number, request: Request): boolean {
    const { op } = request;
    if (op === Op.UpdateJob || op === Op.MoveJobs) this.#host.noteMove();
    request.counted = op;
    return this.#send(shard, request);
  }

  /** Sends a command to be answered. False if ordering, the window or the ring forbids it. */
  #send(shard: number, request: Request): boolean {
    const lane = this.#lane;
    if (!lane.maySend(shard)) return false;
    const { meter, bytes: unreadBytes } = this.outbox;
    const first = lane.underWay === 0;
    const readBytes = first ? unreadBytes : meter.read(unreadBytes);
    request.readBytes = readBytes;
    request.flags =
      (request.flags & ~RequestFlag.First) | RequestFlag.Metered | (first ? RequestFlag.First : 0);
    if (!this.#write(shard, request)) return false;
    if (first) meter.begin(unreadBytes);
    else meter.told(readBytes);
    lane.sent(shard);
    const { sampler } = this.#host;
    if (first && sampler.isDue) this.#sample = sampler.begin(request.op);
    this.#affinity.note(shard);
    this.#host.pendingReplies.expect(this);
    this.touched.add(shard);
    return true;
  }

  /** Writes a message. False if the ring is full; the connection resumes when there is room. */
  #write(shard: number, message: Request): boolean {
    message.slot = this.slot;
    if (this.#host.write(shard, message)) return true;
    this.#host.noteFull(shard);
    this.#host.runQueues.waitForRoom(this);
    return false;
  }

  /** Posts a message, however full the ring is. Each connection posts only a few. */
  post(shard: number, message: Request): void {
    this.touched.add(shard);
    if (this.#conversation !== undefined) this.#host.pendingReplies.expect(this);
    message.slot = this.slot;
    this.#host.post(shard, message);
  }

  /** Answers without a shard: at once or, behind commands in flight, as an echo. */
  #answer(counted: number, reply: Uint8Array): boolean {
    if (this.#lane.underWay > 0) {
      const echo = this.message(RequestOp.Echo);
      echo.counted = counted;
      echo.body.set(reply, 0, reply.length);
      return this.#send(this.#lane.shard, echo);
    }
    if (counted !== 0) this.#host.count(counted);
    this.#append(reply, 0, reply.length);
    return true;
  }

  /** Adds a reply, or part of one, to the output. `begins` marks a start, which -VV logs. */
  #append(bytes: Uint8Array, at: number, length: number, begins = true): void {
    const { trace } = this.#host;
    if (trace !== undefined && begins) traceReply(trace, this.descriptor, bytes, at, length);
    this.outbox.append(bytes, at, length);
    this.#host.runQueues.markDirty(this);
  }

  get mayTakeMore(): boolean {
    return !this.isDeaf && this.outbox.bytes < OUTPUT_BYTES_MAX;
  }

  appendPiece(bytes: Uint8Array, length: number, first: boolean): void {
    this.#append(bytes, 0, length, first);
    this.#inReply = true;
  }

  // --- answers in --------------------------------------------------------------------------------

  /** Takes a reply, or part of one. It reports changes up to record `recordNumber` of the shard. */
  // put 9/10
  onReply(shard: number, flags: number, recordNumber: number, reply: Span, part?: BodyPart): void {
    const durable = (flags & ResponseFlag.Durable) !== 0;
    if (durable && this.outbox.holdFor(shard, recordNumber)) this.#host.runQueues.holdBack(this);
    this.#append(reply.bytes, reply.start, reply.length, !this.#inReply);
    const partBytes = part === undefined ? 0 : this.#appendPart(part);
    this.#noteHolding(shard, flags);
    if ((flags & ResponseFlag.Worker) !== 0) this.#becomeWorker();
    this.outbox.meter.received(reply.length + partBytes);
    this.#replyShard = shard;
    this.#inReply = (flags & ResponseFlag.More) !== 0;
    if (this.#inReply) return;
    if (this.#conversation !== undefined) {
      this.#conversation.onReply(shard);
      return;
    }
    const sample = this.#sample;
    if (sample !== undefined && !sample.isAnswered)
      this.#noteAnswer(sample, shard, durable ? recordNumber : 0);
    if (this.#lane.answered()) {
      this.outbox.meter.begin(0);
      this.#abortable = 0;
      if (!this.#ending) this.#host.pendingReplies.expectNothing(this);
    }
    if (this.#reader.bufferedBytes > 0 || this.#halfClosed) this.#host.runQueues.proceedLater(this);
  }

  #noteAnswer(sample: CommandSample, shard: number, recordNumber: number): void {
    const { sampler, pendingReplies } = this.#host;
    this.#sample = sampler.answered(sample, pendingReplies.hasGivenUp(this), shard, recordNumber);
  }

  /** Appends a body part. Returns its length, including CR LF. */
  #appendPart({ arena, handle, offset, length, isLast }: BodyPart): number {
    this.outbox.appendBody(arena!, handle, offset, length);
    if (isLast) this.outbox.append(CR_LF, 0, CR_LF.length);
    return length + (isLast ? CR_LF.length : 0);
  }

  /** Takes an answer addressed to the acceptor itself. */
  onSignal(signal: Signal): void {
    this.#noteHolding(signal.shard, signal.flags);
    if (signal.kind === ResponseKind.Redirected) {
      if (this.#ending) this.#giveUp(signal.shard);
      else this.#follow(signal);
    } else this.#conversation?.onSignal(signal);
  }

  /**
   * Answers NOT_FOUND to a redirected command whose client has already ended. This happens only at
   * the first move, before it was known that jobs move. No shard may hear of the connection any
   * more.
   */
  #giveUp(shard: number): void {
    this.#redirected = shard;
    this.finishConversation(Reply.notFound);
  }

  onTubes(shard: number, names: Span): void {
    this.#conversation?.onTubes?.(shard, names);
  }

  onGathered(shard: number, flags: number, bytes: Span): void {
    this.#noteHolding(shard, flags);
    this.#conversation?.onGathered?.(shard, flags, bytes);
  }

  get payloadBytesMax(): number {
    return this.#host.payloadBytesMax;
  }

  holdFor(shard: number, recordNumber: number): void {
    if (this.outbox.holdFor(shard, recordNumber)) this.#host.runQueues.holdBack(this);
  }

  #noteHolding(shard: number, flags: number): void {
    if ((flags & ResponseFlag.HoldsJob) !== 0) this.#holding.add(shard);
    else this.#holding.delete(shard);
  }

  finishConversation(reply: Uint8Array | undefined): void {
    this.#conversation = undefined;
    this.#inReply = false;
    // An abortable batch may be in flight behind a redirected command.
    if (this.#redirected === NOWHERE) this.#abortable = 0;
    this.outbox.meter.begin(0);
    this.#host.pendingReplies.expectNothing(this);
    if (reply !== undefined) this.#append(reply, 0, reply.length);
    if (this.#redirected !== NOWHERE) this.#endRedirect(this.#redirected);
    this.#host.runQueues.proceedLater(this);
  }

  finishWithText(text: string): void {
    this.finishConversation(asciiBytes(`OK ${text.length}\r\n${text}\r\n`));
  }

  // --- bytes out, and the end --------------------------------------------------------------------

  /**
   * Sends the gathered replies with one write. While the previous write is unread, replies keep
   * gathering: separate writes would each occupy a page for a few bytes. `onDrain` resumes.
   */
  flush(): void {
    const outbox = this.outbox;
    if (this.dead) {
      outbox.clear();
      return;
    }
    // After the last Closed everything is handed over, so that the end of the stream can follow.
    const isLast = this.#ending && this.closesLeft === 0;
    if (this.#transport.pendingBytes > 0 && !isLast) return;
    this.#handOver(outbox, isLast);
    if (outbox.isHeld) this.#host.runQueues.holdBack(this);
    this.#grantCredit();
    if (this.#ending) {
      this.#finish();
      return;
    }
    this.#conversation?.onRoom?.();
    if (this.#reader.bufferedBytes > 0 || this.#halfClosed) this.#host.runQueues.proceedLater(this);
    else if (this.#transport.pendingBytes === 0) this.#considerMove();
  }

  #handOver(outbox: Outbox, all: boolean): void {
    const host = this.#host;
    const before = outbox.gatheredBytes;
    outbox.flush(all);
    const sent = before - outbox.gatheredBytes;
    if (sent === 0) return;
    host.counters[Counter.BytesOut] = host.counters[Counter.BytesOut]! + sent;
    if (host.closed !== undefined) this.#answeredAtMs = host.turnAtMs;
    if (this.#sample !== undefined && host.sampler.flushed(this.#sample, host)) this.#sample = undefined;
  }

  get mayFlushHeld(): boolean {
    return this.outbox.mayFlushHeld;
  }

  /** Whether input or output resumes once the client has read everything handed over. */
  get waitsForDrain(): boolean {
    return this.outbox.gatheredBytes > 0 || this.#reader.bufferedBytes > 0 || !this.#idle();
  }

  /** Handles a client that has read everything handed over. */
  onDrain(): void {
    if (this.outbox.gatheredBytes > 0) this.#host.runQueues.markDirty(this);
    this.#grantCredit();
    this.#conversation?.onRoom?.();
    this.proceed();
    this.#considerMove();
  }

  // --- a move to another acceptor: see connection-migrator.ts ------------------------------------

  /** Considers a migration. Called whenever the client has received all replies. */
  #considerMove(): void {
    const { moves } = this.#host;
    if (moves === undefined || this.#isFiltered || this.#affinity.streak < moves.commands || !this.#mayMove())
      return;
    const { shard } = this.#affinity;
    this.#affinity.forget();
    moves.consider(this, shard);
  }

  /** Whether it may move: nothing is in flight, held, unsent or scheduled. */
  #mayMove(): boolean {
    const isListed = this.dirty || this.waitsForRoom || this.proceedsLater || this.held;
    const isEnding = this.dead || this.#ending || this.#halfClosed;
    const isBusy = !this.#idle() || !this.#holding.empty || !this.#reader.isBetweenLines || this.#paused;
    return !isListed && !isEnding && !isBusy && this.outbox.bytes === 0;
  }

  get departure(): Departure | undefined {
    return this.#transport.departure;
  }

  leave(): void {
    this.#leaving = true;
  }

  get isToEnd(): boolean {
    return this.#endsAfterLeaving !== undefined;
  }

  stay(): void {
    this.#leaving = false;
    if (this.#endsAfterLeaving !== undefined) this.endWhenIdle(this.#endsAfterLeaving);
  }

  state(history: MoveHistory): ConnectionState {
    return {
      used: this.#used.name,
      watched: this.#watched.tubes.map(({ name }) => name),
      touched: this.touched.list(this.#host.shards),
      isProducer: this.#isProducer,
      isWorker: this.#isWorker,
      nextBatchNumber: this.#nextBatchNumber,
      openedAtMs: this.openedAtMs,
      peer: this.peer,
      listener: this.listener,
      history,
    };
  }

  /** Reports what the client has read. Replies that wait for the log count as unread. */
  #grantCredit(): void {
    if (this.dead || this.#idle()) return;
    const { meter, bytes } = this.outbox;
    const readBytes = meter.read(bytes);
    if (!meter.isDue(readBytes)) return;
    const credit = this.message(RequestOp.Credit);
    credit.readBytes = readBytes;
    const isOrderly = this.#lane.underWay > 0 && this.#conversation === undefined;
    this.post(isOrderly ? this.#lane.shard : this.#replyShard, credit);
    meter.told(readBytes);
  }

  /** Ends gracefully: takes no more input, answers what is in flight, ends any wait. */
  endWhenIdle(reason: EndReason): void {
    if (this.#leaving) {
      this.#endsAfterLeaving = reason;
      return;
    }
    this.#endReason ??= reason;
    this.#reader.stop();
    this.#waitsForFilter = false;
    this.onEnd();
  }

  /**
   * Ends the connection: it takes no more commands.
   *
   * A client that sees the end may rely on its effects on every acceptor. So the end is sent only
   * after the shards have released what the connection held and no gauge counts it. Commands in
   * flight are answered first, since the client may only have half-closed. From here on only Credit
   * and Close may be posted: a shard would take anything else for a new connection.
   */
  #end(): void {
    if (this.#ending) return;
    this.#ending = true;
    const { closed, counters, nowMs } = this.#host;
    const reason = this.#endReason ?? "error";
    const at = Counter.Closed + END_REASONS.indexOf(reason);
    counters[at] = counters[at]! + 1;
    closed?.note(this.facts, reason, nowMs());
    this.#reader.stop();
    this.#stored?.abandon();
    this.#countWaitingInput(0);
    this.#host.waitingInput.forget(this);
    if (this.outbox.gatheredBytes > 0) this.#host.runQueues.markDirty(this);
    this.#host.close(this);
  }

  /** Uncounts the connection: all shards have released what it held, so its end may be sent. */
  onForgotten(): void {
    if (this.#isProducer) this.#host.producerCount(-1);
    if (this.#isWorker) this.#host.workerCount(-1);
  }

  /** Closes the transport once the shards have forgotten it and all output is handed over. */
  #finish(): void {
    if (this.#finished || this.dead || this.closesLeft > 0 || this.outbox.isHeld) return;
    this.#finished = true;
    this.#transport.end();
  }

  /** Handles a socket that moves no more bytes: no client is left to answer. */
  onClosed(): void {
    this.dead = true;
    this.outbox.clear();
    this.#dropUnderWay();
    this.#end();
  }

  /** Abandons the commands in flight: nothing more is reported about them. */
  #dropUnderWay(): void {
    if (this.#waitNumber !== 0) this.claimWait(this.#waitNumber);
    const conversation = this.#conversation;
    this.#conversation = undefined;
    conversation?.onClosed?.();
    // A Close that waits behind a long reply would wait forever.
    const { underWay, shard } = this.#lane;
    if (this.#ending && underWay > 0) this.post(shard, this.message(RequestOp.Close));
  }

  get isDeaf(): boolean {
    return this.dead || this.#isCut;
  }

  /** Called when the socket moves no more bytes and all shards have forgotten the connection. */
  destroyTransport(): void {
    this.#transport.destroy();
  }

  // --- the interface of a shared reserve ---------------------------------------------------------

  get hasOtherAcceptors(): boolean {
    return this.#host.hasOtherAcceptors;
  }

  nowMs(): number {
    return this.#host.nowMs();
  }

  openWait(): number {
    this.#waitNumber = (this.#waitNumber + 1) & 0x7fffffff || 1;
    this.#host.claims.open(this.slot, this.#waitNumber);
    return this.#waitNumber;
  }

  claimWait(number: number): boolean {
    return this.#host.claims.claim(this.slot, number);
  }
}
