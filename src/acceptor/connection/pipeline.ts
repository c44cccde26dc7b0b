// The commands of one connection in flight: sends each to its shard as soon as ordering allows, and
// takes the replies.
//
// Ordering: all commands in flight belong to one shard, which answers them in order. A command for
// another shard, or one that takes several messages (a Conversation), waits until everything before
// it is answered. A put takes its id only when no earlier reserve can still be waiting for a job.
// The bytes of a command that has to wait stay in the line reader.

import { ReplyCredit } from "../../message/reply-credit.ts";
import { RequestFlag, RequestOp } from "../../message/request.ts";
import { ResponseFlag } from "../../message/response.ts";
import { Counter } from "../../message/topology.ts";
import { MOVES_JOBS } from "../../protocol/command-columns.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { Conversation } from "../fanout/conversation.ts";
import type { LineReader } from "../input/line-reader.ts";
import type { ClientState } from "../migration/client-state.ts";
import type { CommandSample } from "../replies/command-sampler.ts";
import { type BodyPart, Outbox } from "../replies/outbox.ts";
import { traceReply } from "../replies/reply-trace.ts";
import type { Transport } from "../replies/transport.ts";
import { InFlight, type PendingReply, ShardAffinity } from "../state/in-flight.ts";
import type { CommandByHand } from "../state/manual-changes.ts";
import type { RunQueueEntry } from "../state/run-queues.ts";
import { ShardSet } from "../state/shard-set.ts";
import type { AcceptorParts } from "./acceptor-parts.ts";

export class Pipeline implements PendingReply {
  readonly slot: number;
  readonly inFlight: InFlight = new InFlight();
  readonly outbox: Outbox;
  /** Tracks which shard its commands go to. */
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
  readonly #acceptor: AcceptorParts;
  readonly #client: ClientState;
  readonly #transport: Transport;
  readonly #reader: LineReader;
  /** The connection, as the queues of the acceptor see it. */
  readonly #connection: RunQueueEntry;
  /** The shard of the last reply. In a conversation, only this shard sends bytes to the client. */
  #replyShard = 0;

  constructor(
    acceptor: AcceptorParts,
    slot: number,
    client: ClientState,
    transport: Transport,
    reader: LineReader,
    connection: RunQueueEntry,
  ) {
    this.#acceptor = acceptor;
    this.slot = slot;
    this.#client = client;
    this.#transport = transport;
    this.#reader = reader;
    this.#connection = connection;
    this.outbox = new Outbox(transport, acceptor.log, acceptor.topology.inPlaceBytesMin);
    this.answeredAtMs = acceptor.nowMs();
  }

  /** Whether nothing is in flight. */
  get isIdle(): boolean {
    return this.inFlight.underWay === 0 && this.conversation === undefined;
  }

  /** Whether a command is in progress that may wait for a job. */
  get waits(): boolean {
    return this.inFlight.reservesUnderWay > 0 || this.conversation !== undefined;
  }

  /** Whether the client has read enough to be sent more. */
  get mayTakeMore(): boolean {
    return !this.isDeaf && this.outbox.bytes < ReplyCredit.UnreadBytesMax;
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
  send(shard: number, request: Request): boolean {
    const inFlight = this.inFlight;
    if (!inFlight.maySend(shard)) return false;
    const { meter, bytes: unreadBytes } = this.outbox;
    const first = inFlight.underWay === 0;
    request.meterBytes = first ? unreadBytes : meter.read(unreadBytes);
    request.flags =
      (request.flags & ~RequestFlag.First) | RequestFlag.Metered | (first ? RequestFlag.First : 0);
    if (!this.write(shard, request)) return false;
    if (first) meter.begin(unreadBytes);
    else meter.reported(request.meterBytes);
    this.noteSent(shard);
    const { sampler } = this.#acceptor;
    if (first && sampler.isDue) this.sample = sampler.begin(request.op);
    return true;
  }

  /** Notes that a command is with its shard, which will answer it. */
  noteSent(shard: number): void {
    if (shard !== this.inFlight.shard) this.#client.touched.add(shard);
    this.inFlight.sent(shard);
    this.affinity.note(shard);
    this.#acceptor.pendingReplies.expect(this);
  }

  /** Writes a message. False if the ring is full; the connection resumes when there is room. */
  write(shard: number, message: Request): boolean {
    message.slot = this.slot;
    const { links } = this.#acceptor;
    if (links.write(shard, message)) return true;
    links.noteFull(shard);
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
    if (this.inFlight.underWay > 0) {
      const echo = this.message(RequestOp.Echo);
      echo.counted = counted;
      echo.body.set(reply, 0, reply.length);
      return this.send(this.inFlight.shard, echo);
    }
    if (counted !== 0) this.count(counted);
    this.append(reply, 0, reply.length);
    return true;
  }

  /** Counts a command that no shard counts. */
  count(op: number): void {
    this.add(Counter.Commands + op, 1);
  }

  /** Adds `change` to a counter of the thread. */
  add(counter: number, change: number): void {
    const { counters } = this.#acceptor;
    counters[counter] = counters[counter]! + change;
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
  append(bytes: Uint8Array, at: number, length: number, begins = true): void {
    const { trace, runQueues } = this.#acceptor;
    if (begins && this.byHand !== undefined) this.noteByHand(bytes, at, length);
    if (trace !== undefined && begins) traceReply(trace, this.#transport.descriptor, bytes, at, length);
    this.outbox.append(bytes, at, length);
    runQueues.markDirty(this.#connection);
  }

  /** Records the command that changes something by hand, now that its reply is there. */
  noteByHand(bytes: Uint8Array, at: number, length: number): void {
    if (this.byHand !== undefined) this.#acceptor.changes?.answered(this.byHand, bytes, at, length);
    this.byHand = undefined;
  }

  /** Records such a command whose reply never came, at the end of the connection. */
  endByHand(): void {
    if (this.byHand !== undefined) this.#acceptor.changes?.unanswered(this.byHand);
    this.byHand = undefined;
  }

  /** Takes a reply, or part of one. It reports changes up to record `recordNumber` of the shard. */
  // put 9/10
  onReply(shard: number, flags: number, recordNumber: number, reply: Span, part?: BodyPart): void {
    const durable = (flags & ResponseFlag.Durable) !== 0;
    if (durable) this.holdFor(shard, recordNumber);
    this.append(reply.bytes, reply.start, reply.length, !this.isInReply);
    const partBytes = part === undefined ? 0 : this.outbox.appendPart(part);
    if ((flags & ResponseFlag.HoldsJob) !== 0 || !this.holding.empty) this.noteHolding(shard, flags);
    if ((flags & ResponseFlag.Worker) !== 0) this.becomeWorker();
    this.outbox.meter.received(reply.length + partBytes);
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
    if (this.inFlight.answered()) {
      this.outbox.meter.begin(0);
      this.abortable = 0;
      if (!this.isEnding) this.#acceptor.pendingReplies.expectNothing(this);
    }
    this.goOn();
  }

  #noteAnswer(sample: CommandSample, shard: number, recordNumber: number): void {
    const { sampler, pendingReplies } = this.#acceptor;
    this.sample = sampler.answered(sample, pendingReplies.hasGivenUp(this), shard, recordNumber);
  }

  /** Holds output from here on until the shard's record is as far in the log as replies require. */
  holdFor(shard: number, recordNumber: number): void {
    if (this.outbox.holdFor(shard, recordNumber)) this.#acceptor.runQueues.waitForLog(this.#connection);
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

  /**
   * Hands the output that may leave to the transport. Output behind large bodies follows only if
   * `all` is set.
   */
  handOver(all: boolean): void {
    const { outbox } = this;
    const before = outbox.gatheredBytes;
    outbox.flush(all);
    const sent = before - outbox.gatheredBytes;
    if (sent === 0) return;
    const { sample } = this;
    const acceptor = this.#acceptor;
    this.add(Counter.BytesOut, sent);
    if (acceptor.closed !== undefined) this.answeredAtMs = acceptor.turnAtMs;
    if (sample !== undefined && acceptor.sampler.flushed(sample, acceptor.log)) this.sample = undefined;
  }

  /**
   * Tells the shard of the commands in flight how much the client has read. Replies that wait for
   * the log count as unread.
   */
  grantCredit(): void {
    const { meter, bytes } = this.outbox;
    const readBytes = meter.read(bytes);
    if (!meter.isDue(readBytes)) return;
    const credit = this.message(RequestOp.Credit);
    credit.meterBytes = readBytes;
    const isOrderly = this.inFlight.underWay > 0 && this.conversation === undefined;
    this.post(isOrderly ? this.inFlight.shard : this.#replyShard, credit);
    meter.reported(readBytes);
  }
}
