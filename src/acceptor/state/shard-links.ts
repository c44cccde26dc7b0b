// What an acceptor shares with the shards: where jobs are, how far the log is, and the rings, with
// the messages that found one full.

import { assert } from "../../base/assert.ts";
import {
  BarrierAckView,
  CarriedView,
  RequestOp,
  requestPayloadBytesMax,
  writeRequest,
} from "../../message/request.ts";
import { ControlWord, portBell, type Topology, threadOfShard } from "../../message/topology.ts";
import { Request } from "../../protocol/request.ts";
import { RingReader, RingWriter } from "../../ring/ring.ts";
import {
  ControlWords,
  JobDirectory,
  JobIds,
  LogWord,
  LogWords,
  UNKNOWN_SHARD,
} from "../../ring/shared-words.ts";

// The ids of jobs and the shards that have them, as all acceptors share them.

export class JobPlaces {
  readonly shards: number;
  readonly #control: ControlWords;
  readonly #ids: JobIds;
  /** Sequence numbers of tubes and of changes to tube settings. */
  readonly #sequences: JobIds;
  readonly #scheduleMoves: JobIds;
  readonly #jobMoves: JobIds;
  /** Undefined with one shard, which has all jobs. */
  readonly #directory: JobDirectory | undefined;

  constructor(topology: Topology) {
    this.shards = topology.shards;
    this.#control = new ControlWords(topology.control);
    this.#ids = new JobIds(this.#control.words, ControlWord.JobIds);
    this.#sequences = new JobIds(this.#control.words, ControlWord.TubeSequence);
    this.#scheduleMoves = new JobIds(this.#control.words, ControlWord.ScheduleMoves);
    this.#jobMoves = new JobIds(this.#control.words, ControlWord.JobMoves);
    this.#directory = topology.shards === 1 ? undefined : new JobDirectory(topology.directory);
  }

  /** Takes the next job id, for a job on `shard`. */
  takeJobId(shard: number): number {
    const id = this.#ids.take();
    this.#directory?.set(id, shard);
    return id;
  }

  /** Returns a number greater than all taken before it, on any acceptor. */
  takeSequence(): number {
    return this.#sequences.take();
  }

  /** A number that changes whenever a schedule moves to another shard. */
  get scheduleMoves(): number {
    return this.#scheduleMoves.next;
  }

  /** A number that changes whenever a job arrives on another shard. */
  get jobMoves(): number {
    return this.#jobMoves.next;
  }

  /** Returns the shard of a job, or UNKNOWN_SHARD if every shard has to be asked. */
  shardOfJob(id: number): number {
    return this.#directory === undefined ? 0 : id === 0 ? UNKNOWN_SHARD : this.#directory.find(id);
  }

  /** Returns the job's directory entry, which changes whenever the job arrives on a shard. */
  jobEntry(id: number): number {
    return this.#directory?.entry(id) ?? 0;
  }

  /** Whether a job may have moved to another shard, or may be about to. */
  get jobsMove(): boolean {
    return this.#control.isSet(ControlWord.JobsMove);
  }

  /** Records that a command arrived which may move a job. */
  noteMove(): void {
    if (this.shards > 1) this.#control.set(ControlWord.JobsMove);
  }
}

// The progress of the log, for replies and messages that wait for it: the log of this server and,
// in a group, the shared log.

export class LogProgress {
  /** Each shard's last record that is as far in the log as replies require. */
  readonly #logged: LogWords | undefined;
  /** Each shard's last record that is written. */
  readonly #written: LogWords | undefined;
  /** In a group: each shard's last record that is acknowledged in the shared log. */
  readonly #replicated: LogWords | undefined;
  /** The progress of both logs when the held replies were last checked. */
  readonly #loggedThen: Int32Array;
  readonly #replicatedThen: Int32Array;

  constructor({ binlog, shards }: Topology) {
    // Whatever the shared log contains is written, so this wait is implied by the other.
    const isImplied = binlog?.group?.repliesWait === true && binlog.repliesWaitFor === LogWord.Written;
    this.#logged =
      binlog === undefined || isImplied ? undefined : new LogWords(binlog.progress, binlog.repliesWaitFor);
    this.#written = binlog === undefined ? undefined : new LogWords(binlog.progress, LogWord.Written);
    const group = binlog?.group;
    this.#replicated = group?.repliesWait ? new LogWords(group.progress, LogWord.Written) : undefined;
    this.#loggedThen = new Int32Array(shards);
    this.#replicatedThen = new Int32Array(shards);
  }

  /** Returns whether record `number` of a shard is as far in the log as replies require. */
  isLogged(shard: number, number: number): boolean {
    if (this.#replicated !== undefined && !this.#replicated.reached(shard, number)) return false;
    return this.#logged === undefined || this.#logged.reached(shard, number);
  }

  isWritten(shard: number, number: number): boolean {
    if (this.#written === undefined || this.#written.reached(shard, number)) return true;
    // The shared log may contain the record before the log thread reports it as written.
    return this.#replicated?.reached(shard, number) ?? false;
  }

  /** Whether the log has advanced since `noteSeen`. */
  get hasMoved(): boolean {
    if (this.#logged?.differFrom(this.#loggedThen)) return true;
    return this.#replicated?.differFrom(this.#replicatedThen) ?? false;
  }

  /** Notes the current progress as seen. */
  noteSeen(): void {
    this.#logged?.copyTo(this.#loggedThen);
    this.#replicated?.copyTo(this.#replicatedThen);
  }
}

// Answers of shards to Control requests, on their way through an acceptor.

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

export class ShardLinks {
  readonly requests: readonly RingWriter[];
  readonly responses: readonly RingReader[];
  /** 0 for each shard in the acceptor's thread, 1 for the others. */
  readonly crossing: Uint8Array;
  /** The largest payload of one message. */
  readonly payloadBytesMax: number;
  /** For each shard, messages that found its ring full. */
  readonly #posted: Request[][];
  /** 1 for each shard whose ring had no room for a command. */
  readonly #full: Uint8Array;
  /** Whether a message waits for room in a ring. */
  isBlocked = false;
  /** Whether messages were written that their shards cannot see yet. */
  hasUnpublished = false;
  /** Reused for every outgoing message. */
  readonly #message = new Request();

  constructor(topology: Topology, acceptor: number) {
    this.requests = topology.requests[acceptor]!.map((ring) => new RingWriter(ring));
    this.responses = topology.responses[acceptor]!.map((ring) => new RingReader(ring));
    const bell = portBell(topology, acceptor);
    this.crossing = Uint8Array.from(this.requests, (_, s) => Number(threadOfShard(topology, s) !== bell));
    this.payloadBytesMax = requestPayloadBytesMax(this.requests[0]!);
    this.#posted = this.requests.map(() => []);
    this.#full = new Uint8Array(topology.shards);
  }

  /** Returns the only message object, reset. Send it before asking for the next one. */
  message(op: number): Request {
    return this.#message.begin(op);
  }

  /** Writes a message if the ring has room and no posted message has to go first. */
  write(shard: number, request: Request): boolean {
    if (this.#posted[shard]!.length > 0 || !writeRequest(this.requests[shard]!, request)) return false;
    this.hasUnpublished = true;
    return true;
  }

  /** Writes a message now or, if the ring is full, queues a copy ahead of everything else. */
  post(shard: number, request: Request): void {
    if (this.write(shard, request)) return;
    this.#posted[shard]!.push(request.clone());
    this.isBlocked = true;
  }

  /** Writes queued messages that now have room. */
  drainPosted(): void {
    for (let shard = 0; shard < this.requests.length; shard++) {
      const posted = this.#posted[shard]!;
      let done = 0;
      while (done < posted.length && writeRequest(this.requests[shard]!, posted[done]!)) done++;
      if (done === 0) continue;
      posted.splice(0, done);
      this.hasUnpublished = true;
    }
    this.#noteBlocked();
  }

  /** Notes that a command waits for room in the ring to the shard. */
  noteFull(shard: number): void {
    this.#full[shard] = 1;
    this.isBlocked = true;
  }

  /** Clears these notes, because the waiting connections are about to retry. */
  forgetFull(): void {
    this.#full.fill(0);
    this.#noteBlocked();
  }

  #noteBlocked(): void {
    this.isBlocked = this.requests.some((_, shard) => this.#wantsRoom(shard));
  }

  /**
   * Makes requests visible to the shards and calls `onPublished` for each shard that has new ones.
   */
  publish(onPublished: (shard: number) => void): void {
    this.hasUnpublished = false;
    for (let shard = 0; shard < this.requests.length; shard++)
      if (this.requests[shard]!.publish()) onPublished(shard);
  }

  /**
   * Whether a ring that a message waits for has room for any message. If not, the ring holds
   * messages that its shard has yet to release; if asked to, the shard signals when it does. An
   * empty ring has room for any message.
   */
  get hasRoomAgain(): boolean {
    for (let shard = 0; shard < this.requests.length; shard++) {
      const ring = this.requests[shard]!;
      if (this.#wantsRoom(shard) && ring.hasRoom(ring.messageBytesMax)) return true;
    }
    return false;
  }

  /** Asks the shards that block a message to signal when they have made room. */
  wantRoom(): void {
    for (let shard = 0; shard < this.requests.length; shard++)
      if (this.#wantsRoom(shard)) this.requests[shard]!.wantRoom();
  }

  #wantsRoom(shard: number): boolean {
    return this.#full[shard] === 1 || this.#posted[shard]!.length > 0;
  }
}

// Relays messages between shards, which have no rings to each other.
//
// Each shard has one acceptor that relays for it. A shard's message about jobs waits here until the
// shard's records are written. The log then has them before any record that the receiving shard
// makes, so the latest record of a job is also the last in the log. A message that jobs have
// arrived waits as a reply does. The number of transfers in flight is limited
// (shard/transfer/transfer-sender.ts).

interface WaitingMessage {
  readonly to: number;
  readonly message: Request;
  readonly durable: boolean;
  readonly recordNumber: number;
}

export class ShardRelay {
  /** Whether messages wait. */
  waitsForLog = false;
  readonly #links: ShardLinks;
  readonly #log: LogProgress;
  /** Waiting messages by sending shard, in order. */
  readonly #waiting = new Map<number, WaitingMessage[]>();
  readonly #message = new Request();

  constructor(links: ShardLinks, log: LogProgress) {
    this.#links = links;
    this.#log = log;
  }

  /**
   * Relays a shard's message, which `message` has begun. Its body is valid only during the call.
   */
  carry(from: number, to: number, message: Request, durable: boolean, recordNumber: number): void {
    const waiting = this.#waiting.get(from);
    if (waiting === undefined && this.#mayGo(from, durable, recordNumber)) {
      this.#links.post(to, message);
      return;
    }
    this.waitsForLog = true;
    const copy = { to, message: message.clone(), durable, recordNumber };
    if (waiting === undefined) this.#waiting.set(from, [copy]);
    else waiting.push(copy);
  }

  /** Returns the message to fill in for `carry`. */
  message(from: number, transferMessage: number, transfer: number): Request {
    const message = this.#message.begin(RequestOp.Carried);
    CarriedView.fill(message, from, transferMessage, transfer);
    return message;
  }

  /** Whether a message that waited for the log may be sent. */
  get mayGoOn(): boolean {
    for (const [from, [first]] of this.#waiting)
      if (this.#mayGo(from, first!.durable, first!.recordNumber)) return true;
    return false;
  }

  /** Sends the messages that need not wait any longer. */
  turn(): void {
    for (const [from, waiting] of this.#waiting) {
      let done = 0;
      for (; done < waiting.length; done++) {
        const { to, message, durable, recordNumber } = waiting[done]!;
        if (!this.#mayGo(from, durable, recordNumber)) break;
        this.#links.post(to, message);
      }
      if (done === waiting.length) this.#waiting.delete(from);
      else if (done > 0) waiting.splice(0, done);
    }
    this.waitsForLog = this.#waiting.size > 0;
  }

  #mayGo(from: number, durable: boolean, recordNumber: number): boolean {
    return durable ? this.#log.isLogged(from, recordNumber) : this.#log.isWritten(from, recordNumber);
  }
}

// Acknowledges the read barriers of shards, once this acceptor has read its sockets: see
// shard/commands/read-barrier.ts.

/** Reads before an acknowledgement: the end of a stream may be read one pass after its bytes. */
const READINGS_PER_BARRIER = 2;

interface Barrier {
  readonly shard: number;
  readonly number: number;
  readingsLeft: number;
}

export class BarrierAcks {
  /** Whether barriers are in progress. */
  hasWork = false;
  readonly #links: ShardLinks;
  #barriers: Barrier[] = [];

  constructor(links: ShardLinks) {
    this.#links = links;
  }

  /** Takes a barrier. `haveRead` means that the acceptor has read its sockets for it already. */
  take(shard: number, number: number, haveRead: boolean): void {
    if (haveRead) {
      this.#acknowledge(shard, number);
      return;
    }
    this.#barriers.push({ shard, number, readingsLeft: READINGS_PER_BARRIER });
    this.hasWork = true;
  }

  /**
   * Notes that this acceptor has read its sockets. After two reads it acknowledges a barrier,
   * behind the Closes that they caused. Called only while barriers are in progress.
   */
  haveRead(): void {
    assert(this.hasWork, "only barriers in progress are counted down");
    for (const barrier of this.#barriers) {
      if (--barrier.readingsLeft === 0) this.#acknowledge(barrier.shard, barrier.number);
    }
    this.#barriers = this.#barriers.filter(({ readingsLeft }) => readingsLeft > 0);
    this.hasWork = this.#barriers.length > 0;
  }

  #acknowledge(shard: number, number: number): void {
    const ack = this.#links.message(RequestOp.BarrierAck);
    BarrierAckView.fill(ack, number);
    this.#links.post(shard, ack);
  }
}
