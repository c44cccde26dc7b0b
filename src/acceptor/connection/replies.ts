// The replies of one connection: their order, the log that they wait for, and their way out. A
// command is sent to its shard as soon as the order of its reply allows.
//
// Ordering: all commands in flight belong to one shard, which answers them in order. A command for
// another shard, or one that takes several messages (a Conversation), waits until everything before
// it is answered. A put takes its id only when no earlier reserve can still be waiting for a job.
// The bytes of a command that has to wait stay in the line reader.

import { CR } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { BodyArena } from "../../engine/jobs/body-arena.ts";
import { RequestFlag, RequestOp } from "../../message/request.ts";
import { ReplacedView, ReplyCredit, ResponseFlag, ResponseKind } from "../../message/response.ts";
import { Counter, type Origin, type Topology } from "../../message/topology.ts";
import type { CommandParser } from "../../protocol/command-parser.ts";
import { MOVES_JOBS } from "../../protocol/commands.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { ClaimWords } from "../../ring/connection-words.ts";
import type { Conversation, SerialQueue } from "../fanout/conversation.ts";
import type { ListReplies } from "../fanout/list-reply.ts";
import type { TubeListings } from "../fanout/list-tubes.ts";
import type { GatherBudget } from "../fanout/pick-batch.ts";
import { type ClientState, ShardSet } from "../migration/client-state.ts";
import type { ConnectionMigrator } from "../migration/connection-migrator.ts";
import type { ClosedConnections } from "../state/connection-facts.ts";
import type { WaitingInput } from "../state/input-limit.ts";
import type { JobPlaces } from "../state/job-places.ts";
import type { CommandByHand, ManualChanges } from "../state/manual-changes.ts";
import type { RunQueueEntry, RunQueues } from "../state/run-queues.ts";
import type { LogProgress, ShardLinks } from "../state/shard-links.ts";
import type { TubeRef } from "../state/watch-list.ts";
import type { LineReader } from "../stream/line-reader.ts";
import { type BodyPart, type CommandSample, type CommandSampler, Output } from "../stream/output.ts";
import type { Transport } from "../stream/transport.ts";

// The parts of an acceptor that its connections use.

export interface AcceptorParts {
  readonly topology: Topology;
  readonly shards: number;
  /**
   * Whether an acceptor may know of the end of a connection that has not reached the shards, or
   * find one when it reads its sockets: another one, or this one if it reads ends late.
   */
  readonly barrierHelps: boolean;
  readonly links: ShardLinks;
  readonly places: JobPlaces;
  readonly log: LogProgress;
  /** Counters of this thread, indexed by Counter. */
  readonly counters: Float64Array;
  readonly runQueues: RunQueues;
  readonly pendingReplies: PendingReplies;
  readonly waitingInput: WaitingInput;
  readonly sampler: CommandSampler;
  readonly claims: ClaimWords;
  readonly slots: { nameWorker(slot: number, name: string): void };
  /** The arenas of shards that run in the acceptor's thread. */
  readonly arenas: readonly (BodyArena | undefined)[];
  readonly parser: CommandParser;
  readonly defaultTube: TubeRef;
  readonly listReplies: ListReplies;
  readonly tubeListings: TubeListings;
  readonly gatherBudget: GatherBudget;
  /** Serialises lists of jobs that span all shards. */
  readonly listQueue: SerialQueue;
  /** Moves connections to other acceptors, if migration is on. */
  readonly changes: ManualChanges | undefined;
  readonly migrator: ConnectionMigrator | undefined;
  /** Records closed connections, if something asks for them. */
  readonly closed: ClosedConnections | undefined;
  /** Receives a line for each command and reply (-VV). */
  readonly trace: ((line: string) => void) | undefined;
  readonly nowMs: () => number;
  /** The time of the current turn, in monotonic ms. */
  readonly turnAtMs: number;
  /** Returns the text of `stats`, after every shard has updated its counters. */
  readonly statsText: () => string;
  /** The servers whose job ids are valid here; known when the log is loaded, before any client. */
  readonly origins: readonly Origin[];
}

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

/** A connection, as PendingReplies sees it. */
interface PendingReply {
  /** The polling epoch in which an answer was last expected, or -1. */
  expectsSince: number;
  /** The polling epoch in which it last sent a command. */
  askedSince: number;
}

/**
 * Connections that expect an answer at any moment. While there are any, the acceptor's thread polls
 * its rings instead of sleeping.
 *
 * These are connections with a command in flight that was sent since the thread last gave up
 * polling. All others wait for a job, and their answer rings the doorbell.
 */
export class PendingReplies {
  /** Connections that expect an answer. */
  expecting = 0;
  /** Connections that have sent a command in this epoch. */
  asking = 0;
  /** Incremented whenever the thread gives up polling. */
  #epoch = 0;

  /** Notes that the connection has sent a command. */
  expect(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) return;
    connection.expectsSince = this.#epoch;
    this.expecting++;
    if (connection.askedSince === this.#epoch) return;
    connection.askedSince = this.#epoch;
    this.asking++;
  }

  /** Returns whether the thread has stopped polling for the connection's answer. */
  hasGivenUp(connection: PendingReply): boolean {
    return connection.expectsSince !== this.#epoch;
  }

  /** Notes that the connection has nothing in flight any more. */
  expectNothing(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) this.expecting--;
    connection.expectsSince = -1;
  }

  /** Forgets a connection that leaves for another thread. */
  forget(connection: PendingReply): void {
    this.expectNothing(connection);
    if (connection.askedSince === this.#epoch) this.asking--;
    connection.askedSince = -1;
  }

  /** Treats every connection that expects an answer as one that waits for a job. */
  giveUp(): void {
    this.#epoch++;
    this.expecting = 0;
    this.asking = 0;
  }
}

export class Replies extends Output implements PendingReply {
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
  /**
   * The reply bytes that the connection received for its commands in flight, and how many of them
   * the shard knows the client has read. All counts wrap at 2^32; only differences matter. See
   * message/response.ts.
   */
  #receivedBytes = 0;
  #toldBytes = 0;

  constructor(
    acceptor: AcceptorParts,
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
    if (!this.write(shard, request)) return false;
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
    if (durable && this.holdFor(shard, recordNumber)) this.#acceptor.runQueues.waitForLog(this.#connection);
    this.say(reply.bytes, reply.start, reply.length, !this.isInReply);
    const partBytes = part === undefined ? 0 : this.appendPart(part);
    if ((flags & ResponseFlag.HoldsJob) !== 0 || !this.holding.empty) this.noteHolding(shard, flags);
    if ((flags & ResponseFlag.Worker) !== 0) this.becomeWorker();
    this.#receivedBytes = (this.#receivedBytes + reply.length + partBytes) | 0;
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
}
