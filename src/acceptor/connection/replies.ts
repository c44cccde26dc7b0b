// The replies of one connection: their order, the log that they wait for, and their way out. A
// command is sent to its shard as soon as the order of its reply allows. A redirected command
// becomes one of several messages.
//
// Ordering: all commands in flight belong to one shard, which answers them in order. A command for
// another shard, or one that takes several messages (a Conversation), waits until everything before
// it is answered. A put takes its id only when no earlier reserve can still be waiting for a job.
// The bytes of a command that has to wait stay in the line reader.

import { CR } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { RequestFlag, RequestOp } from "../../message/request.ts";
import {
  DELETED_HEADER_BYTES,
  REDIRECTED_HEADER_BYTES,
  RedirectedView,
  ReplacedView,
  ReplyCredit,
  ResponseFlag,
  ResponseKind,
} from "../../message/response.ts";
import { Counter } from "../../message/topology.ts";
import { MOVES_JOBS, Op } from "../../protocol/commands.ts";
import { Reply, textReply } from "../../protocol/reply.ts";
import { Request, type Span } from "../../protocol/request.ts";
import type { Conversation, ConversationHost, Signal } from "../fanout/conversation.ts";
import { type BegunBatch, DeleteBatch } from "../fanout/delete-batch.ts";
import { FindJob } from "../fanout/find-job.ts";
import { type ClientState, ShardSet } from "../migration/client-state.ts";
import type { CommandByHand } from "../state/manual-changes.ts";
import type { PendingReply, RunQueueEntry } from "../state/run-queues.ts";
import type { LineReader } from "../stream/line-reader.ts";
import { type BodyPart, type CommandSample, Output } from "../stream/output.ts";
import type { Transport } from "../stream/transport.ts";
import type { AcceptorState } from "./acceptor-state.ts";

// Rebuilds a redirected command from the shard's message.

/** Returns the command, with its own copies of all bytes. */
function redirectedRequest(signal: Signal): Request {
  const { payload } = signal;
  const { bytes, start } = payload;
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  const word = view.getUint32(8, true);
  const request = new Request().begin(word & 0xff);
  request.id = RedirectedView.id(signal);
  request.pri = RedirectedView.pri(signal);
  request.delaySeconds = view.getUint32(12, true);
  const optionsAt = start + REDIRECTED_HEADER_BYTES;
  const optionsEnd = optionsAt + (word >>> 8);
  request.options.set(bytes.slice(optionsAt, optionsEnd), 0, optionsEnd - optionsAt);
  if (request.op === Op.DeleteBatch) {
    const idsAt = optionsEnd + DELETED_HEADER_BYTES + view.getUint32(optionsEnd - start + 4, true);
    request.ids.set(bytes.slice(idsAt, payload.end), 0, payload.end - idsAt);
  } else request.body.set(bytes.slice(optionsEnd, payload.end), 0, payload.end - optionsEnd);
  return request;
}

/** Returns the part of a delete-batch that the shard has already done. */
function begunBatch({ shard, payload }: Signal): BegunBatch {
  const { bytes, start } = payload;
  const at = start + REDIRECTED_HEADER_BYTES;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at);
  const resultsAt = at + DELETED_HEADER_BYTES;
  const results = bytes.slice(resultsAt, resultsAt + view.getUint32(4, true));
  return { shard, recordNumber: view.getUint32(0, true), results };
}

const NOWHERE = -1;

// The -VV log lines about replies, in beanstalkd's words.

/** Logs a reply that begins at `bytes[at]`, with a second line if it has a body. */
function traceReply(
  trace: (line: string) => void,
  descriptor: number,
  bytes: Uint8Array,
  at: number,
  length: number,
): void {
  let end = at;
  while (end < at + length && bytes[end] !== CR) end++;
  const line = latin1(bytes, at, end);
  trace(`>${descriptor} reply ${line}`);
  if (line.startsWith("OK ")) trace(`>${descriptor} job 0`);
  else if (line.startsWith("FOUND ") || line.startsWith("RESERVED "))
    trace(`>${descriptor} job ${line.split(" ")[1]}`);
}

/**
 * Maximum number of commands in flight. Each may have to wait in the shard, where it takes about 80
 * bytes.
 */
const WINDOW_COMMANDS = 256;
/** The limit while a reserve is in flight, which may wait for any length of time. */
const WINDOW_COMMANDS_RESERVING = 128;
/**
 * Limit on the bodies of puts in flight: with n commands in flight, a put is sent only if n times
 * its size is within the limit. That bounds the total to a few times this number, without a sum to
 * maintain.
 */
const PUT_BYTES_MAX = 128 * 1024;

/** The longest streak: an affinity that a few commands to other shards do not end. */
const SETTLED = 64;
/** How many commands of the streak a command to another shard cancels. */
const OTHERS_COUNT = 8;

/** Detects whether nearly all recent commands of a connection went to one shard. */
export class ShardAffinity {
  /** The shard that most commands went to. */
  shard = -1;
  /** Commands to that shard, minus those that commands to others cancelled; at most SETTLED. */
  streak = 0;

  note(shard: number): void {
    if (shard === this.shard) {
      if (this.streak < SETTLED) this.streak++;
      return;
    }
    this.streak -= OTHERS_COUNT;
    if (this.streak > 0) return;
    this.shard = shard;
    this.streak = 1;
  }

  /** Restarts the count. */
  forget(): void {
    this.streak = 0;
  }
}

export class Replies extends Output implements PendingReply, ConversationHost {
  readonly slot: number;
  /** The shard of the commands in flight or else of the last command; -1 before the first. */
  shard = -1;
  /** Commands sent and not answered. They all belong to one shard, which answers them in order. */
  underWay = 0;
  /** The reserves among them. The count may be too high until all are answered. */
  reservesUnderWay = 0;
  /**
   * Whether a reserve-job is in flight or has been since the last time that nothing was. Its job
   * may be on another shard.
   */
  mayHoldElsewhere = false;
  /** Tracks which shard its commands go to, if connections migrate. */
  readonly affinity: ShardAffinity = new ShardAffinity();
  /** Shards on which this connection may hold jobs. */
  readonly holding: ShardSet = new ShardSet();
  /** The command in progress that takes several messages. */
  conversation: Conversation | undefined;
  /** The number of the batch that the client's next byte aborts, or 0. */
  abortable = 0;
  /**
   * The command in progress that changes something by hand: nothing else was in flight before it.
   */
  byHand: CommandByHand | undefined;
  /** The client sends no more. */
  isHalfClosed = false;
  /** No more input is accepted, and the shards have been told to forget the connection. */
  isEnding = false;
  /** No more replies reach the client. */
  isDeaf = false;
  /** Part of the current reply is in the output and more follows. */
  isInReply = false;
  /** The command that is being timed. */
  sample: CommandSample | undefined;
  /** When the client was last sent bytes or, before that, when it arrived; in monotonic ms. */
  answeredAtMs: number;
  expectsSince = -1;
  askedSince = -1;
  readonly #acceptor: AcceptorState;
  readonly #client: ClientState;
  readonly #transport: Transport;
  readonly #reader: LineReader;
  /** The connection, as the queues of the acceptor see it. */
  readonly #connection: RunQueueEntry;
  /** The shard of the last reply. In a conversation, only this shard sends bytes to the client. */
  #replyShard = 0;
  /**
   * The reply bytes that the connection received for its commands in flight, and how many of them
   * the shard knows the client has read. All counts wrap at 2^32; only differences matter. See
   * message/response.ts.
   */
  #receivedBytes = 0;
  #toldBytes = 0;
  #waitNumber = 0;
  /** The shard that waits until another shard has executed a redirected command. */
  #redirected = NOWHERE;

  constructor(
    acceptor: AcceptorState,
    slot: number,
    client: ClientState,
    transport: Transport,
    reader: LineReader,
    connection: RunQueueEntry,
  ) {
    super(transport, acceptor.log, acceptor.topology.inPlaceBytesMin);
    this.#acceptor = acceptor;
    this.slot = slot;
    this.#client = client;
    this.#transport = transport;
    this.#reader = reader;
    this.#connection = connection;
    this.answeredAtMs = acceptor.nowMs();
  }

  /** Whether nothing is in flight. */
  get isIdle(): boolean {
    return this.underWay === 0 && this.conversation === undefined;
  }

  /** Whether a command is in progress that may wait for a job. */
  get waits(): boolean {
    return this.reservesUnderWay > 0 || this.conversation !== undefined;
  }

  /** Whether the client has read enough to be sent more. */
  get mayTakeMore(): boolean {
    return !this.isDeaf && this.unsentBytes < ReplyCredit.UnreadBytesMax;
  }

  // --- the order of commands ---------------------------------------------------------------------

  /** Returns whether a command for `shard` may be sent behind those in flight. */
  maySend(shard: number): boolean {
    if (this.underWay === 0) return true;
    const window = this.reservesUnderWay > 0 ? WINDOW_COMMANDS_RESERVING : WINDOW_COMMANDS;
    return this.shard === shard && this.underWay < window;
  }

  /**
   * Returns whether a put for `shard` may take its id now. It must not while a reserve in flight
   * may wait for a job.
   */
  mayPut(shard: number, bodyBytes: number): boolean {
    return this.underWay === 0 || (this.reservesUnderWay === 0 && this.mayCarry(shard, bodyBytes));
  }

  /**
   * Returns whether a command with this many bytes may be sent to `shard` now. The bytes may have
   * to wait there.
   */
  mayCarry(shard: number, bytes: number): boolean {
    return this.maySend(shard) && this.underWay * bytes <= PUT_BYTES_MAX;
  }

  // --- messages out ------------------------------------------------------------------------------

  /** Returns the only message object, reset. Send it before asking for the next one. */
  message(op: number): Request {
    return this.#acceptor.links.message(op);
  }

  /** Sends a command that its shard counts. */
  sendCounted(shard: number, request: Request): boolean {
    const { op } = request;
    if (MOVES_JOBS[op] === 1) this.#acceptor.places.noteMove();
    request.counted = op;
    return this.send(shard, request);
  }

  /** Sends a command to be answered. False if ordering, the window or the ring forbids it. */
  // put 5/18
  send(shard: number, request: Request): boolean {
    const first = this.underWay === 0;
    if (!first && !this.maySend(shard)) return false;
    const unreadBytes = this.unsentBytes;
    request.meterBytes = first ? unreadBytes : this.#readBytes(unreadBytes);
    request.flags =
      (request.flags & ~RequestFlag.First) | RequestFlag.Metered | (first ? RequestFlag.First : 0);
    request.slot = this.slot;
    if (!this.#acceptor.links.write(shard, request)) return this.#waitForRoom(shard);
    if (first) {
      this.#receivedBytes = unreadBytes;
      this.#toldBytes = 0;
    } else this.#toldBytes = request.meterBytes;
    this.noteSent(shard);
    const { sampler } = this.#acceptor;
    if (first && sampler.isDue) this.sample = sampler.begin(request.op);
    return true;
  }

  /** Notes that a command is with its shard, which will answer it. */
  noteSent(shard: number): void {
    if (shard !== this.shard) this.#client.touched.add(shard);
    assert(this.underWay === 0 || shard === this.shard, "all commands in flight belong to one shard");
    this.shard = shard;
    this.underWay++;
    if (this.#acceptor.migrator !== undefined) this.affinity.note(shard);
    this.#acceptor.pendingReplies.expect(this);
  }

  /** Writes a message. False if the ring is full; the connection resumes when there is room. */
  write(shard: number, message: Request): boolean {
    message.slot = this.slot;
    return this.#acceptor.links.write(shard, message) || this.#waitForRoom(shard);
  }

  #waitForRoom(shard: number): false {
    this.#acceptor.links.noteFull(shard);
    this.#acceptor.runQueues.waitForRoom(this.#connection);
    return false;
  }

  /** Posts a message, however full the ring is. Each connection posts only a few. */
  post(shard: number, message: Request): void {
    this.#client.touched.add(shard);
    if (this.conversation !== undefined) this.#acceptor.pendingReplies.expect(this);
    message.slot = this.slot;
    this.#acceptor.links.post(shard, message);
  }

  /** Answers without a shard: at once or, if commands are in flight, as an echo behind them. */
  answer(counted: number, reply: Uint8Array): boolean {
    if (this.underWay > 0) {
      const echo = this.message(RequestOp.Echo);
      echo.counted = counted;
      echo.body.set(reply, 0, reply.length);
      return this.send(this.shard, echo);
    }
    if (counted !== 0) this.count(counted);
    this.say(reply, 0, reply.length);
    return true;
  }

  /** Counts a command that no shard counts. */
  count(op: number): void {
    this.#acceptor.counters[Counter.Commands + op]! += 1;
  }

  /** Adds `change` to a counter of the thread. */
  add(counter: number, change: number): void {
    this.#acceptor.counters[counter]! += change;
  }

  becomeProducer(): void {
    this.#client.isProducer = true;
    this.add(Counter.Producers, 1);
  }

  becomeWorker(): void {
    if (this.#client.isWorker) return;
    this.#client.isWorker = true;
    this.add(Counter.Workers, 1);
  }

  // --- replies -----------------------------------------------------------------------------------

  /** Adds a reply, or part of one, to the output. `begins` marks a start, which -VV logs. */
  say(bytes: Uint8Array, at: number, length: number, begins = true): void {
    const { trace, runQueues } = this.#acceptor;
    if (begins && this.byHand !== undefined) this.noteByHand(bytes, at, length);
    if (begins && trace !== undefined) traceReply(trace, this.#transport.descriptor, bytes, at, length);
    this.append(bytes, at, length);
    runQueues.markDirty(this.#connection);
  }

  /** Records the command that changes something by hand, now that its reply is there. */
  noteByHand(bytes: Uint8Array, at: number, length: number): void {
    if (this.byHand !== undefined) this.#acceptor.changes?.answered(this.byHand, bytes, at, length);
    this.byHand = undefined;
  }

  /** Notes the settings that such a command has changed, before its reply comes. */
  noteReplaced(payload: Span): void {
    if (this.byHand !== undefined)
      this.#acceptor.changes?.replaced(this.byHand, ReplacedView.settings(payload));
  }

  /** Does the same with a message of a shard that the client isn't there to read. */
  noteUnread(kind: number, payload: Span): void {
    if (kind === ResponseKind.Reply) this.noteByHand(payload.bytes, payload.start, payload.length);
    else if (kind === ResponseKind.Replaced) this.noteReplaced(payload);
  }

  /** Records such a command whose reply never came, at the end of the connection. */
  endByHand(): void {
    if (this.byHand !== undefined) this.#acceptor.changes?.unanswered(this.byHand);
    this.byHand = undefined;
  }

  /** Takes a reply, or part of one. It reports changes up to record `recordNumber` of the shard. */
  // put 16/18
  onReply(shard: number, flags: number, recordNumber: number, reply: Span, part?: BodyPart): void {
    const durable = (flags & ResponseFlag.Durable) !== 0;
    if (durable && this.hold(shard, recordNumber)) this.#acceptor.runQueues.waitForLog(this.#connection);
    const replyBytes = reply.end - reply.start;
    this.say(reply.bytes, reply.start, replyBytes, !this.isInReply);
    const partBytes = part === undefined ? 0 : this.appendPart(part);
    if ((flags & ResponseFlag.HoldsJob) !== 0 || !this.holding.empty) this.noteHolding(shard, flags);
    if ((flags & ResponseFlag.Worker) !== 0) this.becomeWorker();
    this.#receivedBytes = (this.#receivedBytes + replyBytes + partBytes) | 0;
    this.#replyShard = shard;
    this.isInReply = (flags & ResponseFlag.More) !== 0;
    if (this.isInReply) return;
    if (this.conversation !== undefined) {
      this.conversation.onReply(shard);
      return;
    }
    const { sample } = this;
    if (sample !== undefined && !sample.isAnswered)
      this.#noteAnswer(sample, shard, durable ? recordNumber : 0);
    if (this.noteAnswered()) {
      this.#receivedBytes = this.#toldBytes = 0;
      if (!this.isEnding) this.#acceptor.pendingReplies.expectNothing(this);
    }
    this.goOn();
  }

  /**
   * Notes that the oldest command in flight is answered. Returns whether nothing is in flight any
   * more.
   */
  noteAnswered(): boolean {
    assert(this.underWay > 0, "only a command in flight is answered");
    if (--this.underWay > 0) return false;
    this.reservesUnderWay = 0;
    this.mayHoldElsewhere = false;
    this.abortable = 0;
    return true;
  }

  #noteAnswer(sample: CommandSample, shard: number, recordNumber: number): void {
    const { sampler, pendingReplies } = this.#acceptor;
    this.sample = sampler.answered(sample, pendingReplies.hasGivenUp(this), shard, recordNumber);
  }

  /** Notes whether a shard still has jobs for the connection, as one of its messages says. */
  noteHolding(shard: number, flags: number): void {
    if ((flags & ResponseFlag.HoldsJob) !== 0) this.holding.add(shard);
    else this.holding.delete(shard);
  }

  /** Schedules input that had to wait, or the end of a half-closed connection. */
  goOn(): boolean {
    if (this.#reader.bufferedBytes === 0 && !this.isHalfClosed) return false;
    this.#acceptor.runQueues.proceedLater(this.#connection);
    return true;
  }

  /** Hands over the output that may leave, and counts it. */
  override flush(all: boolean): number {
    const sent = super.flush(all);
    if (sent === 0) return 0;
    const { sample } = this;
    const acceptor = this.#acceptor;
    acceptor.counters[Counter.BytesOut]! += sent;
    if (acceptor.closed !== undefined) this.answeredAtMs = acceptor.turnAtMs;
    if (sample !== undefined && acceptor.sampler.flushed(sample, acceptor.log)) this.sample = undefined;
    return sent;
  }

  /**
   * Starts counting at the first command in flight, with `unreadBytes` of output that the client
   * has not read.
   */
  beginMeter(unreadBytes: number): void {
    this.#receivedBytes = unreadBytes;
    this.#toldBytes = 0;
  }

  /** Returns how much the client has read, if `unreadBytes` of the output remain. */
  #readBytes(unreadBytes: number): number {
    return (this.#receivedBytes - unreadBytes) | 0;
  }

  /**
   * Tells the shard of the commands in flight how much the client has read. Replies that wait for
   * the log count as unread.
   */
  grantCredit(): void {
    const readBytes = this.#readBytes(this.unsentBytes);
    if (((readBytes - this.#toldBytes) | 0) < ReplyCredit.StepBytes) return;
    const credit = this.message(RequestOp.Credit);
    credit.meterBytes = readBytes;
    const isOrderly = this.underWay > 0 && this.conversation === undefined;
    this.post(isOrderly ? this.shard : this.#replyShard, credit);
    this.#toldBytes = readBytes;
  }

  // --- commands that take several messages -------------------------------------------------------

  /** Starts a command that takes several messages. */
  begin(conversation: Conversation): true {
    this.conversation = conversation;
    this.#acceptor.pendingReplies.expect(this);
    conversation.begin?.();
    return true;
  }

  /** Finds the job of a command and executes the command on the job's shard. */
  find(request: Request): true {
    return this.begin(new FindJob(this, this.#acceptor.places, request));
  }

  /** Takes an answer addressed to the acceptor itself. */
  onSignal(signal: Signal): void {
    this.noteHolding(signal.shard, signal.flags);
    if (signal.kind === ResponseKind.Redirected) {
      if (this.isEnding) this.#giveUp(signal.shard);
      else this.#follow(signal);
    } else if (signal.kind === ResponseKind.Replaced) this.noteReplaced(signal.payload);
    else this.conversation?.onSignal(signal);
  }

  onGathered(shard: number, flags: number, bytes: Span): void {
    this.noteHolding(shard, flags);
    this.conversation?.onGathered?.(shard, flags, bytes);
  }

  // --- redirected commands -----------------------------------------------------------------------

  /** Whether the conversation executes a redirected command. */
  get isRedirected(): boolean {
    return this.#redirected !== NOWHERE;
  }

  /**
   * Handles a redirect: the shard no longer has the job of the oldest command in flight and holds
   * back the commands after it. A conversation finds the job and answers the command.
   */
  #follow(signal: Signal): void {
    this.#redirected = signal.shard;
    this.sample = undefined;
    this.beginMeter(0);
    const request = redirectedRequest(signal);
    if (request.op !== Op.DeleteBatch) {
      this.find(request);
      return;
    }
    const { places } = this.#acceptor;
    this.begin(new DeleteBatch(this, places, request.body, begunBatch(signal)));
  }

  /**
   * Answers NOT_FOUND to a redirected command whose client has already ended. This happens only at
   * the first transfer, when acceptors did not know yet that jobs move. Shards must get no more
   * messages about the connection.
   */
  #giveUp(shard: number): void {
    this.#redirected = shard;
    this.finishConversation(Reply.notFound);
  }

  /** Ends a redirect: its shard may continue with the commands that it holds back. */
  #endRedirect(shard: number): void {
    this.#redirected = NOWHERE;
    const unreadBytes = this.unsentBytes;
    const goOn = this.message(RequestOp.GoOn);
    goOn.meterBytes = unreadBytes;
    this.beginMeter(unreadBytes);
    this.post(shard, goOn);
    if (this.noteAnswered()) {
      this.abortable = 0;
      this.#acceptor.pendingReplies.expectNothing(this);
    } else this.#acceptor.pendingReplies.expect(this);
  }

  // --- what a conversation does ------------------------------------------------------------------

  get payloadBytesMax(): number {
    return this.#acceptor.links.payloadBytesMax;
  }

  get barrierHelps(): boolean {
    return this.#acceptor.barrierHelps;
  }

  appendPiece(bytes: Uint8Array, length: number, first: boolean): void {
    this.say(bytes, 0, length, first);
    this.isInReply = true;
  }

  holdFor(shard: number, recordNumber: number): void {
    if (this.hold(shard, recordNumber)) this.#acceptor.runQueues.waitForLog(this.#connection);
  }

  finishConversation(reply: Uint8Array | undefined): void {
    this.conversation = undefined;
    this.isInReply = false;
    // An abortable batch may be in flight behind a redirected command.
    if (this.#redirected === NOWHERE) this.abortable = 0;
    this.beginMeter(0);
    this.#acceptor.pendingReplies.expectNothing(this);
    if (reply !== undefined) this.say(reply, 0, reply.length);
    if (this.#redirected !== NOWHERE) this.#endRedirect(this.#redirected);
    this.#acceptor.runQueues.proceedLater(this.#connection);
  }

  finishWithText(text: string): void {
    this.finishConversation(textReply(text));
  }

  nowMs(): number {
    return this.#acceptor.nowMs();
  }

  openWait(): number {
    this.#waitNumber = (this.#waitNumber + 1) & 0x7fffffff || 1;
    this.#acceptor.claims.open(this.slot, this.#waitNumber);
    return this.#waitNumber;
  }

  claimWait(number: number): boolean {
    return this.#acceptor.claims.claim(this.slot, number);
  }

  /** Drops the conversation without a reply, and ends its wait. */
  abandon(): void {
    if (this.#waitNumber !== 0) this.claimWait(this.#waitNumber);
    const { conversation } = this;
    this.conversation = undefined;
    conversation?.onClosed?.();
  }
}
