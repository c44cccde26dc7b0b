// One client: cuts its bytes into commands, sends each to its shard, and lets the next one go when order allows it.
//
// Order: all commands under way belong to one shard, which answers them in order. A command for another shard, or one
// that takes several messages (a Conversation), waits until everything before it is answered. A put does not take its
// id while a reserve before it may still be waiting for a job. What can't go on keeps its bytes in the input buffer.

import { assert } from "../base/assert.ts";
import { asciiBytes, latin1 } from "../base/bytes.ts";
import { shardOfTube } from "../base/tube-hash.ts";
import { ReplyCredit } from "../message/reply-credit.ts";
import { RequestFlag, RequestOp } from "../message/request.ts";
import { ResponseFlag } from "../message/response.ts";
import { type CommandParser, Syntax } from "../protocol/command-parser.ts";
import { LINE_BYTES_MAX } from "../protocol/limits.ts";
import { LAST_COUNTED_OP, OP_NAMES, Op } from "../protocol/op.ts";
import { Reply, ReplyWord } from "../protocol/reply.ts";
import { UNKNOWN_SHARD } from "../ring/job-directory.ts";
import type { AcceptorCore } from "./acceptor-core.ts";
import { AskAll } from "./ask-all.ts";
import type { Conversation } from "./conversation.ts";
import { GatherStats } from "./gather-stats.ts";
import { Holds } from "./holds.ts";
import { InputBuffer } from "./input-buffer.ts";
import { ListTubes } from "./list-tubes.ts";
import { ListWatched } from "./list-watched.ts";
import { MoveUse } from "./move-use.ts";
import { Output } from "./output.ts";
import { ReplyMeter } from "./reply-meter.ts";
import { ShardSet } from "./shard-set.ts";
import { SharedReserve, type SharedReserveHost } from "./shared-reserve.ts";
import type { Transport } from "./transport.ts";
import type { TubeRef } from "./tube-ref.ts";
import { WatchList } from "./watch-list.ts";

const CR = 0x0d;
const LF = 0x0a;

/** Commands under way at most: each may have to wait in the shard, in some 60 bytes. */
const WINDOW_COMMANDS = 256;
/** The same with a reserve among them, which may wait for any time. */
const WINDOW_COMMANDS_RESERVING = 128;
/**
 * The bodies of puts under way: one is sent with n commands before it only if n times its size is no more than this.
 * So all of them together are a few times as much, without a sum that replies would have to be subtracted from.
 */
const PUT_BYTES_MAX = 128 * 1024;
/** Lines that a connection may have executed before the others have their turn. */
const TURN_LINES = 256;
/** Reply bytes that wait for the client before its next command is looked at. */
const OUTPUT_BYTES_MAX = ReplyCredit.UnreadBytesMax;
/** Unused input at which reading pauses. */
const INPUT_BYTES_MAX = 64 * 1024;
/** The same while the client waits for a job, as long as all waiting clients together have sent no more than the next. */
const WAITING_INPUT_BYTES_MAX = 512 * 1024;
/** Bodies up to this size are gathered here and sent whole; larger ones go to their shard in pieces. */
const GATHERED_BODY_BYTES_MAX = 64 * 1024;
/** Bytes of a large body in one message. */
const PIECE_BYTES_MAX = 32 * 1024;

/** What the next bytes are. */
const Expect = {
  Line: 0,
  /** The rest of an overlong line. */
  OverlongLine: 1,
  /** A body to be sent whole. */
  WholeBody: 2,
  /** A body that is sent as it comes. */
  PiecedBody: 3,
  /** A body that is too big, dropped as it comes. */
  DroppedBody: 4,
  /** Nothing: the server stops. */
  Stopped: 5,
} as const;
type Expect = (typeof Expect)[keyof typeof Expect];

/** Optional parts of a message. */
export interface MessageParts {
  payload?: Uint8Array;
  a?: number;
  c?: number;
  id?: number;
  time?: number;
}

export class Connection implements SharedReserveHost {
  readonly slot: number;
  readonly output: Output = new Output();
  /** Shards that know this connection and must hear of its end. */
  readonly touched: ShardSet = new ShardSet();
  /** Set once the socket moves no more bytes; the slot lives on until all shards have forgotten it. */
  dead = false;
  /** Closed messages still to come; counted from the moment in which the connection ends. */
  closesLeft = 0;
  /** In the core's lists of connections with output, waiting for room in a ring, or to go on with their input. */
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  /** In the core's list of connections whose output waits for the log. */
  held = false;
  /** The core's poll epoch in which an answer was last expected, or -1. */
  expectsSince = -1;
  /** The core's epoch of polling in which it last sent a command. */
  askedSince = -1;

  readonly #core: AcceptorCore;
  readonly #transport: Transport;
  readonly #parser: CommandParser;
  readonly #input = new InputBuffer();
  #used: TubeRef;
  readonly #watched: WatchList;
  /** Shards on which this connection may hold jobs. */
  readonly #holding = new ShardSet();
  #expect: Expect = Expect.Line;
  /** The next line has been looked at before and had to wait. */
  #retries = false;
  /** Position behind the command just executed. */
  #next = 0;
  /** Bytes of the present body still to come, with its CR LF. */
  #bodyLeft = 0;
  #bodyEndsInCr = false;
  #bodyEndsInCrLf = false;
  /** The put whose body is awaited: taken at its line, executed when the body is there. */
  #putId = 0;
  #putPri = 0;
  #putDelaySeconds = 0;
  #putTtrSeconds = 0;
  #putBodyBytes = 0;
  #putAtMs = 0;
  #underWay = 0;
  #reservesUnderWay = 0;
  #shard = 0;
  #conversation: Conversation | undefined;
  #waitNumber = 0;
  #paused = false;
  /** How much of the input is beyond INPUT_BYTES_MAX, as counted in the core. */
  #waitingInputBytes = 0;
  #halfClosed = false;
  /** Nothing is taken from the client any more, and the shards have been told to forget it. */
  #ending = false;
  /** The transport has been told to close. */
  #finished = false;
  #isProducer = false;
  #isWorker = false;
  readonly #meter = new ReplyMeter();
  /** The shard of the reply that came last: in a conversation the only one that sends the client something. */
  #replyShard = 0;
  readonly #holds = new Holds();

  constructor(core: AcceptorCore, slot: number, transport: Transport) {
    this.#core = core;
    this.slot = slot;
    this.#transport = transport;
    this.#parser = core.parser;
    this.#used = core.defaultTube;
    this.#watched = new WatchList(core.shards);
    this.#watched.add(core.defaultTube);
    this.post(core.defaultTube.shard, RequestOp.Attach, 0, 0);
  }

  get descriptor(): number {
    return this.#transport.descriptor;
  }

  // --- bytes in ---------------------------------------------------------------------------------------------------

  /** Bytes from the socket, valid during the call. */
  // put 1/10
  onBytes(bytes: Uint8Array, length: number): void {
    if (this.#ending) return;
    if (this.#input.length > 0) {
      this.#input.append(bytes, 0, length);
      this.proceed();
      return;
    }
    const used = this.#consume(bytes, 0, length);
    if (used < length) this.#input.append(bytes, used, length);
    this.#settle();
  }

  /** The client will send no more. */
  onEnd(): void {
    if (this.#ending) return;
    if (this.#halfClosed) {
      this.proceed();
      return;
    }
    this.#halfClosed = true;
    if (this.#reservesUnderWay > 0) this.post(this.#shard, RequestOp.HalfClose, 0, 0);
    this.#conversation?.onHalfClose?.();
    this.proceed();
  }

  /** Goes on with input that had to wait. */
  proceed(): void {
    if (this.#ending) return;
    const input = this.#input;
    if (input.length > 0) input.consumeTo(this.#consume(input.bytes, input.start, input.end));
    this.#settle();
  }

  /** Pauses or resumes reading, and ends the connection when all is done. */
  #settle(): void {
    if (this.#ending) return;
    const awaitedBytes = this.#expect === Expect.WholeBody ? this.#putBodyBytes + 2 : 0;
    // Keep reading a client that waits: only reading notices its end.
    const waits = this.#reservesUnderWay > 0 || this.#conversation !== undefined;
    const inputBytes = this.#input.length - awaitedBytes;
    this.#countWaitingInput(waits ? inputBytes - INPUT_BYTES_MAX : 0);
    const readsOn = waits && !this.#core.waitingInputIsFull;
    const tooMuch = inputBytes >= (readsOn ? WAITING_INPUT_BYTES_MAX : INPUT_BYTES_MAX);
    if (tooMuch && waits && inputBytes < WAITING_INPUT_BYTES_MAX) this.#core.pausedForOthers.add(this);
    if (tooMuch !== this.#paused) {
      this.#paused = tooMuch;
      if (tooMuch) this.#transport.pause();
      else this.#transport.resume();
    }
    const goesOn = this.waitsForRoom || this.proceedsLater || this.#outputBytes >= OUTPUT_BYTES_MAX;
    if (this.#halfClosed && this.#mayEnd && !goesOn) this.#end();
  }

  #countWaitingInput(bytes: number): void {
    const counted = Math.max(0, bytes);
    if (counted === this.#waitingInputBytes) return;
    this.#core.countWaitingInput(counted - this.#waitingInputBytes);
    this.#waitingInputBytes = counted;
  }

  /** Whether every command of a client that sends no more is with its shard: the end may follow them there. */
  get #mayEnd(): boolean {
    return this.#conversation === undefined && (this.#underWay === 0 || this.#input.length === 0);
  }

  get #idle(): boolean {
    return this.#underWay === 0 && this.#conversation === undefined;
  }

  get #outputBytes(): number {
    return this.output.length + this.#transport.pendingBytes;
  }

  /** Uses what it can of `bytes[at, end)`; returns the position behind what was used. */
  #consume(bytes: Uint8Array, at: number, end: number): number {
    let position = at;
    let lines = 0;
    while (position < end && !this.#ending) {
      let next: number;
      if (this.#expect === Expect.Line) {
        if (lines++ === TURN_LINES) {
          this.#core.proceedLater(this);
          break;
        }
        next = this.#line(bytes, position, end);
      } else if (this.#expect === Expect.WholeBody) next = this.#wholeBody(bytes, position, end);
      else if (this.#expect === Expect.PiecedBody) next = this.#piecedBody(bytes, position, end);
      else if (this.#expect === Expect.DroppedBody) next = this.#droppedBody(position, end);
      else if (this.#expect === Expect.Stopped) next = end;
      else next = this.#overlongLine(bytes, position, end);
      if (next === position) break;
      position = next;
    }
    return this.#ending ? end : position;
  }

  // put 2/10
  #line(bytes: Uint8Array, start: number, end: number): number {
    if (this.#conversation !== undefined || this.#outputBytes >= OUTPUT_BYTES_MAX) return start;
    const limit = Math.min(end, start + LINE_BYTES_MAX);
    let hasNul = false;
    let at = start;
    for (; at < limit; at++) {
      const byte = bytes[at]!;
      if (byte === LF && at > start && bytes[at - 1] === CR) break;
      if (byte === 0) hasNul = true;
    }
    if (at < limit) {
      this.#next = at + 1;
      const done = hasNul ? this.#answer(0, Reply.badFormat) : this.#command(bytes, start, at - 1);
      this.#retries = !done;
      return done ? this.#next : start;
    }
    if (at - start < LINE_BYTES_MAX) return start;
    this.#expect = Expect.OverlongLine;
    // The last byte may be the CR of the line's end.
    return bytes[at - 1] === CR ? at - 1 : at;
  }

  #overlongLine(bytes: Uint8Array, start: number, end: number): number {
    for (let at = start; at < end; at++) {
      if (bytes[at] !== LF || at === start || bytes[at - 1] !== CR) continue;
      if (!this.#answer(0, Reply.badFormat)) return start;
      this.#expect = Expect.Line;
      return at + 1;
    }
    return bytes[end - 1] === CR ? end - 1 : end;
  }

  // --- commands ---------------------------------------------------------------------------------------------------

  /** Executes the line `bytes[start, end)`, or returns false when it has to wait its turn. */
  #command(bytes: Uint8Array, start: number, end: number): boolean {
    const parser = this.#parser;
    const syntax = parser.parse(bytes, start, end);
    const op = parser.op;
    if (this.#core.trace !== undefined && !this.#retries) {
      this.#core.trace(`<${this.descriptor} command ${OP_NAMES[op]}`);
    }
    if (syntax !== Syntax.Ok) return this.#badCommand(syntax, op);
    switch (op) {
      case Op.Put:
        return this.#put();
      case Op.Reserve:
        return this.#reserve(Op.Reserve, Number.POSITIVE_INFINITY);
      case Op.ReserveWithTimeout:
        return this.#reserve(Op.ReserveWithTimeout, parser.timeoutSeconds * 1000);
      case Op.Delete:
      case Op.Touch:
      case Op.Peek:
      case Op.StatsJob:
      case Op.KickJob:
      case Op.ReserveJob:
        return this.#byId(op, 0, 0);
      case Op.Release:
        return this.#byId(op, parser.pri, parser.delaySeconds);
      case Op.Bury:
        return this.#byId(op, parser.pri, 0);
      case Op.PeekReady:
      case Op.PeekDelayed:
      case Op.PeekBuried:
        return this.#send(this.#used.shard, op, 0, bytes, 0, 0, 0, 0, 0, 0);
      case Op.Kick:
        return this.#send(this.#used.shard, op, 0, bytes, 0, 0, parser.bound, 0, 0, 0);
      case Op.Use:
        return this.#use(bytes, parser.nameStart, parser.nameEnd);
      case Op.Watch:
        return this.#watch(bytes, parser.nameStart, parser.nameEnd);
      case Op.Ignore:
        return this.#ignore(bytes, parser.nameStart, parser.nameEnd);
      case Op.StatsTube:
      case Op.PauseTube:
        return this.#byTube(op, bytes, parser.nameStart, parser.nameEnd);
      case Op.Stats:
        return this.#stats();
      case Op.ListTubes:
        return this.#listTubes();
      case Op.ListTubeUsed:
        return this.#answer(op, asciiBytes(`USING ${this.#used.name}\r\n`));
      case Op.ListTubesWatched:
        return this.#listWatched();
      default:
        assert(op === Op.Quit, "every command is executed");
        if (!this.#idle) return false;
        this.#end();
        return true;
    }
  }

  #badCommand(syntax: Syntax, op: Op): boolean {
    if (syntax === Syntax.Unknown) return this.#answer(0, Reply.unknownCommand);
    if (syntax === Syntax.BadFormat) return this.#answer(0, Reply.badFormat);
    if (syntax === Syntax.BadFormatCounted) return this.#answer(op, Reply.badFormat);
    this.#core.count(Op.Put);
    this.#bodyLeft = this.#parser.bodyBytes + 2;
    this.#expect = Expect.DroppedBody;
    return true;
  }

  #droppedBody(at: number, end: number): number {
    const dropped = Math.min(end - at, this.#bodyLeft);
    // The last byte goes with the reply, which may have to wait.
    if (dropped === this.#bodyLeft) {
      if (!this.#answer(0, Reply.jobTooBig)) {
        this.#bodyLeft = 1;
        return at + dropped - 1;
      }
      this.#expect = Expect.Line;
    }
    this.#bodyLeft -= dropped;
    return at + dropped;
  }

  // put 3/10
  #put(): boolean {
    const parser = this.#parser;
    const shard = this.#used.shard;
    const pieced = parser.bodyBytes > Math.min(GATHERED_BODY_BYTES_MAX, this.#core.payloadBytesMax);
    if (this.#reservesUnderWay > 0 || !this.#maySend(shard) || (pieced && this.#underWay > 0)) return false;
    if (this.#underWay * parser.bodyBytes > PUT_BYTES_MAX) return false;
    if (!this.#isProducer) {
      this.#isProducer = true;
      this.#core.producerCount(1);
    }
    this.#putPri = parser.pri;
    this.#putDelaySeconds = parser.delaySeconds;
    this.#putTtrSeconds = parser.ttrSeconds;
    this.#putBodyBytes = parser.bodyBytes;
    this.#putAtMs = this.nowMs();
    this.#putId = this.#core.takeJobId(shard);
    this.#bodyLeft = parser.bodyBytes + 2;
    this.#core.count(Op.Put);
    this.#expect = pieced ? Expect.PiecedBody : Expect.WholeBody;
    // No more than has been declared within the limit of a gathered body, which a client may hold anyway.
    this.#input.expect(pieced ? 0 : parser.bodyBytes + 2);
    if (pieced) {
      this.#bodyEndsInCr = false;
      this.#bodyEndsInCrLf = false;
      this.#shard = shard;
      this.#core.post(this.slot, shard, RequestOp.PutOpen, 0, 0, undefined, {
        a: this.#putPri,
        b: this.#putDelaySeconds,
        c: this.#putTtrSeconds,
        d: this.#putBodyBytes,
        id: this.#putId,
        time: this.#putAtMs,
      });
      this.touched.add(shard);
    }
    return true;
  }

  #wholeBody(bytes: Uint8Array, at: number, end: number): number {
    const bodyBytes = this.#putBodyBytes;
    if (end - at < bodyBytes + 2) return at;
    const shard = this.#used.shard;
    if (bytes[at + bodyBytes] !== CR || bytes[at + bodyBytes + 1] !== LF) {
      if (!this.#answer(0, Reply.expectedCrlf)) return at;
    } else if (
      !this.#sendRaw(
        shard,
        Op.Put,
        0,
        0,
        bytes,
        at,
        bodyBytes,
        this.#putPri,
        this.#putDelaySeconds,
        this.#putTtrSeconds,
        this.#putId,
        this.#putAtMs,
      )
    ) {
      return at;
    }
    this.#expect = Expect.Line;
    return at + bodyBytes + 2;
  }

  /** Passes the body on as it comes; its last two bytes only decide whether it is well formed. */
  #piecedBody(bytes: Uint8Array, at: number, end: number): number {
    const pieceBytesMax = Math.min(PIECE_BYTES_MAX, this.#core.payloadBytesMax);
    const bodyLeft = this.#bodyLeft - 2;
    if (bodyLeft > 0) {
      const pieceBytes = Math.min(end - at, bodyLeft, pieceBytesMax);
      if (!this.#sendPiece(RequestOp.PutData, 0, bytes, at, pieceBytes)) return at;
      this.#bodyLeft -= pieceBytes;
      return at + pieceBytes;
    }
    if (this.#bodyLeft === 2) {
      this.#bodyEndsInCr = bytes[at] === CR;
      this.#bodyLeft = 1;
      return at + 1;
    }
    this.#bodyEndsInCrLf = this.#bodyEndsInCr && bytes[at] === LF;
    const flags = this.#bodyEndsInCrLf ? 0 : RequestFlag.BadBody;
    if (!this.#sendPiece(RequestOp.PutEnd, flags, bytes, at, 0)) return at;
    this.#underWay++;
    this.#core.expectAnswer(this);
    this.#expect = Expect.Line;
    return at + 1;
  }

  #sendPiece(op: number, flags: number, bytes: Uint8Array, at: number, length: number): boolean {
    const shard = this.#shard;
    if (this.#core.write(this.slot, shard, op, flags, 0, bytes, at, length, 0, 0, 0, 0, 0, 0)) return true;
    this.#core.waitForRoom(this, shard);
    return false;
  }

  #reserve(op: Op, timeoutMs: number): boolean {
    const shard = this.#watched.onlyShard;
    const alone = this.#watched.shardCount === 1 && this.#holding.within(shard);
    if (alone) {
      const flags = this.#halfClosed ? RequestFlag.NoWait : 0;
      if (!this.#sendRaw(shard, Op.Reserve, flags, op, EMPTY_PAYLOAD, 0, 0, 0, 0, 0, 0, timeoutMs))
        return false;
      this.#reservesUnderWay++;
    } else {
      if (!this.#idle) return false;
      this.#core.count(op);
      const shards: number[] = [];
      for (let each = 0; each < this.#core.shards; each++) {
        if (this.#watched.watches(each) || this.#holding.has(each)) shards.push(each);
      }
      this.#conversation = new SharedReserve(this, this, shards, this.#halfClosed ? 0 : timeoutMs);
      this.#core.expectAnswer(this);
    }
    this.#becomeWorker();
    return true;
  }

  #becomeWorker(): void {
    if (this.#isWorker) return;
    this.#isWorker = true;
    this.#core.workerCount(1);
  }

  #byId(op: Op, a: number, b: number): boolean {
    const id = this.#parser.id;
    const shard = this.#core.shardOfJob(id);
    if (shard !== UNKNOWN_SHARD) return this.#send(shard, op, 0, EMPTY_PAYLOAD, 0, 0, a, b, 0, id);
    if (!this.#idle) return false;
    const shards = this.#core.shards;
    this.#conversation = new AskAll(this, shards);
    this.#core.expectAnswer(this);
    if (op <= LAST_COUNTED_OP) this.#core.count(op);
    for (let each = 0; each < shards; each++) {
      this.#core.post(this.slot, each, op, RequestFlag.Probe, 0, undefined, {
        a,
        b,
        c: 0,
        d: 0,
        id,
        time: 0,
      });
      this.touched.add(each);
    }
    return true;
  }

  #byTube(op: Op, bytes: Uint8Array, start: number, end: number): boolean {
    const shard = shardOfTube(bytes, start, end, this.#core.shards);
    return this.#send(shard, op, 0, bytes, start, end - start, 0, this.#parser.delaySeconds, 0, 0);
  }

  #use(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.#used.is(bytes, start, end))
      return this.#answer(Op.Use, asciiBytes(`USING ${this.#used.name}\r\n`));
    const tube = this.#core.tubeRef(bytes, start, end);
    if (tube.shard === this.#used.shard) {
      if (!this.#send(tube.shard, Op.Use, 0, bytes, start, end - start, 0, 0, 0, 0)) return false;
    } else {
      if (!this.#idle) return false;
      this.#conversation = new MoveUse(this, this.#used, tube);
      this.#core.expectAnswer(this);
    }
    this.#used = tube;
    return true;
  }

  #watch(bytes: Uint8Array, start: number, end: number): boolean {
    const watched = this.#watched;
    if (watched.find(bytes, start, end) >= 0) return this.#answer(Op.Watch, watchingReply(watched.size));
    const tube = this.#core.tubeRef(bytes, start, end);
    if (!this.#send(tube.shard, Op.Watch, 0, bytes, start, end - start, 0, 0, watched.size + 1, 0))
      return false;
    watched.add(tube);
    return true;
  }

  #ignore(bytes: Uint8Array, start: number, end: number): boolean {
    const watched = this.#watched;
    const position = watched.find(bytes, start, end);
    if (position < 0) return this.#answer(Op.Ignore, watchingReply(watched.size));
    if (watched.size === 1) return this.#answer(Op.Ignore, Reply.notIgnored);
    const shard = watched.tubes[position]!.shard;
    if (!this.#send(shard, Op.Ignore, 0, bytes, start, end - start, 0, 0, watched.size - 1, 0)) return false;
    watched.removeAt(position);
    return true;
  }

  #stats(): boolean {
    if (!this.#idle) return false;
    const shards = this.#core.shards;
    this.#core.count(Op.Stats);
    this.#conversation = new GatherStats(this, shards, () => this.#core.statsText());
    for (let shard = 0; shard < shards; shard++) this.post(shard, Op.Stats, 0, 0);
    return true;
  }

  #listTubes(): boolean {
    if (!this.#idle) return false;
    const { tubeListings, listReplies } = this.#core;
    this.#core.count(Op.ListTubes);
    const conversation = new ListTubes(this, tubeListings, listReplies);
    this.#conversation = conversation;
    tubeListings.ask(conversation);
    return true;
  }

  #listWatched(): boolean {
    if (!this.#idle) return false;
    this.#core.count(Op.ListTubesWatched);
    this.#conversation = new ListWatched(this, this.#watched, this.#core.listReplies);
    return true;
  }

  // --- messages out -----------------------------------------------------------------------------------------------

  #maySend(shard: number): boolean {
    if (this.#underWay === 0) return true;
    const window = this.#reservesUnderWay > 0 ? WINDOW_COMMANDS_RESERVING : WINDOW_COMMANDS;
    return this.#shard === shard && this.#underWay < window;
  }

  #send(
    shard: number,
    op: Op,
    flags: number,
    bytes: Uint8Array,
    start: number,
    length: number,
    a: number,
    b: number,
    c: number,
    id: number,
  ): boolean {
    const counted = op <= LAST_COUNTED_OP ? op : 0;
    return this.#sendRaw(shard, op, flags, counted, bytes, start, length, a, b, c, id, 0);
  }

  /** Sends a command that will be answered; false if order, the window or the ring forbids it now. */
  #sendRaw(
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
    id: number,
    time: number,
  ): boolean {
    if (!this.#maySend(shard)) return false;
    const first = this.#underWay === 0;
    const unreadBytes = this.#outputBytes;
    const d = first ? unreadBytes : this.#meter.read(unreadBytes);
    const metered = flags | RequestFlag.Metered | (first ? RequestFlag.First : 0);
    if (
      !this.#core.write(this.slot, shard, op, metered, counted, bytes, start, length, a, b, c, d, id, time)
    ) {
      this.#core.waitForRoom(this, shard);
      return false;
    }
    if (first) this.#meter.begin(unreadBytes);
    else this.#meter.told(d);
    this.#underWay++;
    this.#core.expectAnswer(this);
    this.#shard = shard;
    this.touched.add(shard);
    return true;
  }

  /** Sends a message that finds its way however full the ring is: at most a few for each connection. */
  post(shard: number, op: number, flags: number, counted: number, parts?: MessageParts): void {
    this.touched.add(shard);
    if (this.#conversation !== undefined) this.#core.expectAnswer(this);
    this.#core.post(this.slot, shard, op, flags, counted, parts?.payload, {
      a: parts?.a ?? 0,
      b: 0,
      c: parts?.c ?? 0,
      d: 0,
      id: parts?.id ?? 0,
      time: parts?.time ?? 0,
    });
  }

  /** A reply that needs no shard: sent at once, or around through the shard whose answers it must follow. */
  #answer(counted: number, reply: Uint8Array): boolean {
    if (this.#underWay > 0) {
      return this.#sendRaw(this.#shard, RequestOp.Echo, 0, counted, reply, 0, reply.length, 0, 0, 0, 0, 0);
    }
    if (counted !== 0) this.#core.count(counted);
    this.#appendOutput(reply, 0, reply.length);
    return true;
  }

  #appendOutput(bytes: Uint8Array, at: number, length: number): void {
    if (this.#core.trace !== undefined) this.#traceReply(bytes, at, length);
    this.output.append(bytes, at, length);
    this.#core.markDirty(this);
  }

  #traceReply(bytes: Uint8Array, at: number, length: number): void {
    let end = at;
    while (end < at + length && bytes[end] !== CR) end++;
    this.#core.trace!(`>${this.descriptor} reply ${latin1(bytes, at, end)}`);
    const word = latin1(bytes, at, Math.min(end, at + 9));
    if (word.startsWith("OK ")) this.#core.trace!(`>${this.descriptor} job 0`);
    else if (word.startsWith("FOUND ") || word.startsWith("RESERVED ")) {
      this.#core.trace!(`>${this.descriptor} job ${latin1(bytes, at, end).split(" ")[1]}`);
    }
  }

  /** Whether the client has read so much that a piece of a long list may follow. */
  get mayTakeMore(): boolean {
    return !this.dead && this.#outputBytes < OUTPUT_BYTES_MAX;
  }

  /** `bytes[0, length)` of a list. */
  appendPiece(bytes: Uint8Array, length: number, first: boolean): void {
    if (first) this.#appendOutput(bytes, 0, length);
    else {
      this.output.append(bytes, 0, length);
      this.#core.markDirty(this);
    }
  }

  // --- answers in -------------------------------------------------------------------------------------------------

  /** Bytes of a reply, or of a part of one. */
  // put 9/10
  onReply(
    shard: number,
    flags: number,
    recordNumber: number,
    bytes: Uint8Array,
    at: number,
    length: number,
  ): void {
    if ((flags & ResponseFlag.Durable) !== 0 && !this.#core.isDurable(shard, recordNumber)) {
      this.#holds.add(this.output.length, shard, recordNumber);
      this.#core.holdBack(this);
    }
    this.#appendOutput(bytes, at, length);
    this.#noteHolding(shard, flags);
    if ((flags & ResponseFlag.Worker) !== 0) this.#becomeWorker();
    this.#meter.received(length);
    this.#replyShard = shard;
    if ((flags & ResponseFlag.More) !== 0) return;
    if (this.#conversation !== undefined) {
      this.#conversation.onReply(shard);
      return;
    }
    this.#underWay--;
    if (this.#underWay === 0) {
      this.#reservesUnderWay = 0;
      this.#meter.begin(0);
      if (!this.#ending) this.#core.expectNothing(this);
    }
    if (this.#input.length > 0 || this.#halfClosed) this.#core.proceedLater(this);
  }

  onSignal(shard: number, kind: number, flags: number, value: number, pri: number, soonestMs: number): void {
    this.#noteHolding(shard, flags);
    this.#conversation?.onSignal(shard, kind, value, pri, soonestMs);
  }

  onTubes(shard: number, bytes: Uint8Array, at: number, length: number): void {
    this.#conversation?.onTubes?.(shard, bytes, at, length);
  }

  #noteHolding(shard: number, flags: number): void {
    if ((flags & ResponseFlag.Holds) !== 0) this.#holding.add(shard);
    else this.#holding.delete(shard);
  }

  /** Ends the present conversation, with a reply if its reply is not in the output already. */
  finishConversation(reply: Uint8Array | undefined): void {
    this.#conversation = undefined;
    this.#meter.begin(0);
    this.#core.expectNothing(this);
    if (reply !== undefined) this.#appendOutput(reply, 0, reply.length);
    this.#core.proceedLater(this);
  }

  finishWithText(text: string): void {
    this.finishConversation(asciiBytes(`OK ${text.length}\r\n${text}\r\n`));
  }

  // --- bytes out, and the end -------------------------------------------------------------------------------------

  /**
   * Sends what is gathered with one write. While the client has not read the last one, replies go on being gathered: each in
   * a buffer of its own they would take a page for every few bytes. `onDrain` comes back to it.
   */
  flush(): void {
    if (this.dead) {
      this.output.clear();
      return;
    }
    // With the last Closed everything is handed over, so that the end can follow it.
    const isLast = this.#ending && this.closesLeft === 0;
    if (this.#transport.pendingBytes > 0 && !isLast) return;
    if (this.#holds.empty) this.output.flush(this.#transport);
    else this.#flushDurable();
    this.#grantCredit();
    if (this.#ending) {
      this.#finish();
      return;
    }
    this.#conversation?.onRoom?.();
    if (this.#input.length > 0 || this.#halfClosed) this.#core.proceedLater(this);
  }

  /** Whether the first reply that waited for the log may leave now. */
  get mayFlushHeld(): boolean {
    const holds = this.#holds;
    return holds.empty || this.#core.isDurable(holds.shard, holds.number);
  }

  /** Sends the replies whose records are durable, and in order those between them that need none. */
  #flushDurable(): void {
    const holds = this.#holds;
    while (!holds.empty && this.mayFlushHeld) holds.shift();
    const limit = holds.empty ? this.output.length : holds.position;
    this.output.flush(this.#transport, limit);
    holds.moved(limit);
    if (!holds.empty) this.#core.holdBack(this);
  }

  /** The client has read everything that was handed over. */
  onDrain(): void {
    if (this.output.length > 0) this.#core.markDirty(this);
    this.#grantCredit();
    this.#conversation?.onRoom?.();
    this.proceed();
  }

  /** Tells the shard that replies were read, where it may wait for that. What waits for the log has not been read either. */
  #grantCredit(): void {
    if (this.dead || this.#idle) return;
    const readBytes = this.#meter.read(this.#outputBytes);
    if (!this.#meter.isDue(readBytes)) return;
    const shard = this.#underWay > 0 ? this.#shard : this.#replyShard;
    this.post(shard, RequestOp.Credit, 0, 0, { a: readBytes });
    this.#meter.told(readBytes);
  }

  /** The server stops: no more input is taken, what is under way is answered, a wait ends. */
  endWhenIdle(): void {
    this.#input.clear();
    this.#expect = Expect.Stopped;
    this.onEnd();
  }

  /**
   * Takes no more commands. Whoever sees the end may count on its effects, on any acceptor: so it leaves only when the
   * shards have given back what the connection held, and no gauge counts it. What is under way is answered
   * before; the client may have closed, or only half-closed. But for Credit and Close nothing may be posted from here on:
   * a shard would take it for a new connection.
   */
  #end(): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#input.clear();
    this.#countWaitingInput(0);
    this.#core.pausedForOthers.delete(this);
    if (this.output.length > 0) this.#core.markDirty(this);
    this.#core.close(this);
  }

  /** All shards have given back what the connection held, and it is counted nowhere any more. The end may leave. */
  onForgotten(): void {
    if (this.#isProducer) this.#core.producerCount(-1);
    if (this.#isWorker) this.#core.workerCount(-1);
  }

  /** Closes once all shards have forgotten the connection and everything that was answered is with the transport. */
  #finish(): void {
    if (this.#finished || this.dead || this.closesLeft > 0 || !this.#holds.empty) return;
    this.#finished = true;
    this.#transport.end();
  }

  /** The socket moves no more bytes: there is nobody left to answer. */
  onClosed(): void {
    this.dead = true;
    this.output.clear();
    this.#holds.clear();
    if (this.#waitNumber !== 0) this.claimWait(this.#waitNumber);
    const conversation = this.#conversation;
    this.#conversation = undefined;
    conversation?.onClosed?.();
    // A Close that waits for the end of a long reply would wait forever.
    if (this.#ending && this.#underWay > 0) this.post(this.#shard, RequestOp.Close, 0, 0);
    this.#end();
  }

  /** Called by the core when the socket moves no more bytes and all shards have forgotten the connection. */
  destroyTransport(): void {
    this.#transport.destroy();
  }

  // --- what a shared reserve needs --------------------------------------------------------------------------------

  get hasOtherAcceptors(): boolean {
    return this.#core.acceptors > 1;
  }

  nowMs(): number {
    return this.#core.nowMs();
  }

  openWait(): number {
    this.#waitNumber = (this.#waitNumber + 1) & 0x7fffffff || 1;
    this.#core.claims.open(this.slot, this.#waitNumber);
    return this.#waitNumber;
  }

  claimWait(number: number): boolean {
    return this.#core.claims.claim(this.slot, number);
  }
}

const EMPTY_PAYLOAD = new Uint8Array(0);

function watchingReply(count: number): Uint8Array {
  return asciiBytes(`${String.fromCharCode(...ReplyWord.watching)}${count}\r\n`);
}
