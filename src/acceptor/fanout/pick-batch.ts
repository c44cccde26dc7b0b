// A `reserve-batch` over several shards: chooses the jobs and assembles the reply.

import { assert } from "../../base/assert.ts";
import { asciiBytes, copyBytes } from "../../base/bytes.ts";
import { BatchView, LISTED_BYTES, ListedView, RequestFlag, RequestOp } from "../../message/request.ts";
import {
  CANDIDATE_BYTES,
  CandidatesView,
  FloorView,
  ResponseFlag,
  ResponseKind,
  TURNS_ENTRY_BYTES,
  TURNS_LIST_AT,
  TurnsView,
} from "../../message/response.ts";
import { BATCH_BYTES_MAX, META_TEXT_BYTES_MAX, TUBE_NAME_BYTES_MAX } from "../../protocol/limits.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { WatchOrder } from "../state/watch-list.ts";
import type { BatchFill } from "./batch-fill.ts";
import { type ConversationHost, SerialQueue, type Signal } from "./conversation.ts";
import type { ListReplies, PiecedReply } from "./list-reply.ts";
import { Next, type Picker } from "./shared-reserve.ts";

// Memory budget of the batches that an acceptor assembles from several shards, over all its
// connections. A client that does not read pins its batch, so the number of large ones is limited.

/** When unread batches exceed this many bytes, new ones are small. */
const ALL_BYTES_MAX = 64 * 1024 * 1024;
const SMALL_BATCH_BYTES_MAX = 64 * 1024;

export class GatherBudget {
  /** Serialises the batches that are choosing jobs. */
  readonly queue: SerialQueue = new SerialQueue();
  #bytes = 0;

  /** Maximum body bytes that a batch may have now. */
  get batchBytesMax(): number {
    return this.#bytes < ALL_BYTES_MAX ? BATCH_BYTES_MAX : SMALL_BATCH_BYTES_MAX;
  }

  /** Adds to the memory in use; a negative number gives memory back. */
  count(bytes: number): void {
    this.#bytes += bytes;
  }
}

// One shard's part of a batch: the jobs as bytes for the client, and the size of each.

/** Bytes of one size field. The sizes precede all jobs: see message/response.ts. */
const SIZE_BYTES = 4;

export class GatheredJobs {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #jobs: number;
  #received = 0;
  /** The next job, and where its bytes begin. */
  #next = 0;
  #nextAt: number;

  /** `jobs` is the number requested, `bytesMax` the most bytes they have together. */
  constructor(jobs: number, bytesMax: number) {
    this.#jobs = jobs;
    this.#nextAt = jobs * SIZE_BYTES;
    this.#bytes = new Uint8Array(this.#nextAt + bytesMax);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** The memory in use. */
  get bytes(): number {
    return this.#bytes.length;
  }

  /** Appends received bytes, which are valid only during the call. */
  add({ bytes, start, end }: Span): void {
    assert(
      this.#received + end - start <= this.#bytes.length,
      "a shard sends at most the jobs that were requested",
    );
    copyBytes(this.#bytes, this.#received, bytes, start, end - start);
    this.#received += end - start;
  }

  /** The number of jobs that the shard still had. Final once everything has arrived. */
  get taken(): number {
    let taken = 0;
    for (let job = 0; job < this.#jobs; job++) if (this.#sizeOf(job) > 0) taken++;
    return taken;
  }

  /** Returns the bytes of the next requested job, or none if the shard no longer had it. */
  shift(): Uint8Array {
    const size = this.#sizeOf(this.#next++);
    const start = this.#nextAt;
    this.#nextAt += size;
    return this.#bytes.subarray(start, this.#nextAt);
  }

  #sizeOf(job: number): number {
    return this.#view.getUint32(job * SIZE_BYTES, true);
  }
}

// A RESERVED_BATCH reply assembled from the parts of several shards and written piece by piece as
// the client reads.

/** Bytes written per turn, after which other replies get theirs. */
const PIECE_BYTES = 32 * 1024;

export class BatchReply implements PiecedReply {
  queued = false;
  /** The number of jobs in the reply. */
  readonly jobs: number;
  readonly #host: ConversationHost;
  readonly #order: readonly number[];
  readonly #parts: ReadonlyMap<number, GatheredJobs>;
  #nextJob = 0;
  /** The unsent rest of the current job or of the first line. */
  #left: Uint8Array;
  #begun = false;

  /** `order` names the shard of each requested job. */
  constructor(host: ConversationHost, order: readonly number[], parts: ReadonlyMap<number, GatheredJobs>) {
    this.#host = host;
    this.#order = order;
    this.#parts = parts;
    this.jobs = [...parts.values()].reduce((sum, part) => sum + part.taken, 0);
    this.#left = asciiBytes(`RESERVED_BATCH ${this.jobs}\r\n`);
  }

  get mayGoOn(): boolean {
    return this.#host.mayTakeMore;
  }

  writePiece(): boolean {
    for (let room = PIECE_BYTES; room > 0; ) {
      if (this.#left.length === 0) {
        const shard = this.#order[this.#nextJob++];
        if (shard === undefined) return true;
        this.#left = this.#parts.get(shard)!.shift();
      }
      const length = Math.min(room, this.#left.length);
      if (length > 0) this.#host.appendPiece(this.#left, length, !this.#begun);
      this.#begun = true;
      this.#left = this.#left.subarray(length);
      room -= length;
    }
    return this.#left.length === 0 && this.#nextJob === this.#order.length;
  }
}

// Chooses the best jobs of several shards, for `reserve-batch`.
//
// Each shard lists its best jobs without taking them. The lists are merged here by (pri, id), up to
// the limits of the batch. Then each shard is asked for its share of the choice. It takes the jobs
// that are still there as they were listed and sends them here, and the shares are assembled in the
// chosen order. Jobs that another client took or changed in the meantime are missing from the
// reply. If all are missing, the choice starts over. If one shard has the whole choice, it answers
// the client itself, so that one big job can be streamed as the client reads.
//
// A batch of one group comes from one shard: each lists only its best job, and the shard of the
// best one takes it together with those that follow it in its group.

/** Offset of a list in its message, unless by weight: the soonest deadline precedes it. */
const LIST_AT = 8;
/** Maximum bytes of a job besides its body and the name of its tube. */
const HEAD_BYTES_MAX = 48;

const headBytesMax = (details: number): number =>
  HEAD_BYTES_MAX +
  ((details & RequestFlag.Tubes) === 0 ? 0 : TUBE_NAME_BYTES_MAX + 1) +
  ((details & RequestFlag.Meta) === 0 ? 0 : META_TEXT_BYTES_MAX);

/** The parts of a reserve-batch request that limit the choice. */
interface BatchRequest {
  readonly jobsMax: number;
  readonly bytesMax: number;
  /** Some of BATCH_DETAILS. */
  readonly details: number;
  /** RequestFlag.OneGroup for a batch of one group, otherwise 0. */
  readonly oneGroup: number;
  readonly fill?: BatchFill | undefined;
}

interface Candidate {
  /** Place in the order by weight; 0 without one. */
  readonly place: number;
  readonly pri: number;
  readonly id: number;
  readonly bodyBytes: number;
  readonly isLost: boolean;
}

/** The candidates of one shard, best first. */
class CandidateList {
  readonly shard: number;
  /** Whether the shard has more candidates than fit in its message. */
  readonly isCut: boolean;
  /** The earliest turn of the shard's tubes with a job, in an order by weight. */
  readonly earliest: number;
  readonly #view: DataView;
  readonly #hasPlaces: boolean;
  #at = 0;

  constructor(signal: Signal, hasPlaces: boolean) {
    this.shard = signal.shard;
    this.isCut = CandidatesView.isCut(signal);
    this.#hasPlaces = hasPlaces;
    this.earliest = hasPlaces ? TurnsView.earliest(signal.payload) : 0;
    const { bytes, start, end } = signal.payload;
    const listAt = start + (hasPlaces ? TURNS_LIST_AT : LIST_AT);
    this.#view = new DataView(bytes.slice(listAt, end).buffer);
  }

  get first(): Candidate | undefined {
    if (this.#at === this.#view.byteLength) return undefined;
    return {
      place: this.#hasPlaces ? TurnsView.entryPlace(this.#view, this.#at) : 0,
      id: CandidatesView.id(this.#view, this.#at),
      pri: CandidatesView.pri(this.#view, this.#at),
      bodyBytes: CandidatesView.bodyBytes(this.#view, this.#at),
      isLost: CandidatesView.isLost(this.#view, this.#at),
    };
  }

  shift(): void {
    this.#at += this.#hasPlaces ? TURNS_ENTRY_BYTES : CANDIDATE_BYTES;
  }
}

/** The jobs requested from one shard. */
interface Share {
  readonly listed: Candidate[];
  /** Upper bound of the bytes they take in the reply. */
  bytes: number;
}

export class PickBatch implements Picker {
  readonly #host: ConversationHost;
  readonly #request: BatchRequest;
  readonly #replies: ListReplies;
  readonly #budget: GatherBudget;
  /** The connection's order, if it picks by weight. */
  readonly #watchOrder: WatchOrder | undefined;
  readonly queue: SerialQueue;
  /** Maximum number of ids in one message. */
  readonly #shareMax: number;
  #lists: CandidateList[] = [];
  /** The shard of each chosen job, in the order of the choice. */
  #order: number[] = [];
  #parts = new Map<number, GatheredJobs>();
  #partsLeft = 0;
  #budgetBytes = 0;
  #reply: BatchReply | undefined;

  constructor(
    host: ConversationHost,
    request: BatchRequest,
    replies: ListReplies,
    budget: GatherBudget,
    order: WatchOrder | undefined,
  ) {
    this.#host = host;
    this.#request = request;
    this.#replies = replies;
    this.#budget = budget;
    this.queue = budget.queue;
    this.#shareMax = Math.floor(host.payloadBytesMax / LISTED_BYTES);
    this.#watchOrder = order?.decides === true ? order : undefined;
  }

  begin(): void {
    this.#lists = [];
    this.#watchOrder?.ask();
  }

  ask(message: Request): void {
    message.op = RequestOp.CollectBatch;
    this.#limit(message);
    BatchView.limitJobs(message, this.#listedMax);
    if (this.fill !== undefined) BatchView.setMin(message, 1);
    this.#tellFloor(message);
  }

  /** Maximum number of jobs in the lists, and from the lists in the batch. */
  get #listedMax(): number {
    return this.#request.oneGroup === 0 ? this.#request.jobsMax : 1;
  }

  #limit(message: Request): void {
    BatchView.limitJobs(message, this.#request.jobsMax);
    BatchView.limitBytes(message, this.#bytesMax());
  }

  fillWait(message: Request): void {
    message.flags |= RequestFlag.Batch | this.#request.details;
    this.#tellFloor(message);
  }

  #tellFloor(message: Request): void {
    if (this.#watchOrder !== undefined) FloorView.fill(message, this.#watchOrder.floor);
  }

  get fill(): BatchFill | undefined {
    return this.#request.fill;
  }

  get isOutdated(): boolean {
    const hasJobs = this.#lists.some(({ first }) => first !== undefined);
    return hasJobs && this.#watchOrder?.isOutdated === true;
  }

  #bytesMax(): number {
    return Math.min(this.#request.bytesMax, this.#budget.batchBytesMax);
  }

  note(signal: Signal): void {
    assert(signal.kind === ResponseKind.Candidates, "a shard answers a request for candidates with a list");
    this.#watchOrder?.raiseFloor(TurnsView.floor(signal.payload));
    this.#lists.push(new CandidateList(signal, this.#watchOrder !== undefined));
    this.fill?.note(signal);
  }

  take(): boolean {
    const shares = this.#choose();
    this.#lists = [];
    if (shares.size === 0) return false;
    const isWhole = shares.size === 1;
    const isSingle = this.#order.length === 1;
    if (isWhole && this.#takesFull([...shares.keys()][0]!)) return true;
    for (const [shard, { listed }] of shares) {
      const take = this.#host.message(RequestOp.TakeBatch);
      take.flags =
        RequestFlag.Batch |
        this.#request.details |
        this.#request.oneGroup |
        (isWhole ? RequestFlag.Whole : 0) |
        (isSingle ? RequestFlag.Single : 0);
      const view = new DataView(new ArrayBuffer(listed.length * LISTED_BYTES));
      for (const [index, { id, pri, bodyBytes }] of listed.entries())
        ListedView.write(view, index, id, pri, bodyBytes);
      this.#limit(take);
      this.#tellFloor(take);
      take.body.set(new Uint8Array(view.buffer), 0, view.byteLength);
      this.#host.post(shard, take);
    }
    if (!isWhole) this.#expect(shares);
    return true;
  }

  /**
   * Has one shard take a whole batch that fills, unless jobs are missing by then. Between several
   * shards with tubes by weight, only the list tells whose turn it is.
   */
  #takesFull(shard: number): boolean {
    const { fill } = this;
    if (fill === undefined || !fill.isOnlyOn(shard)) return false;
    if (this.#watchOrder !== undefined && !fill.isOnOneShard) return false;
    const take = this.#host.message(RequestOp.TakeBatch);
    take.flags = RequestFlag.Batch | this.#request.details | this.#request.oneGroup;
    this.#limit(take);
    BatchView.setMin(take, fill.takesFrom);
    this.#host.post(shard, take);
    return true;
  }

  /** Chooses the jobs of the batch and groups them by shard. */
  #choose(): Map<number, Share> {
    const shares = new Map<number, Share>();
    const jobsMax = this.#listedMax;
    const headBytes = headBytesMax(this.#request.details);
    const bytesMax = this.#bytesMax();
    this.#order = [];
    let bodyBytes = 0;
    let place = 0;
    const earliest = Math.min(...this.#lists.map((list) => list.earliest));
    while (this.#order.length < jobsMax) {
      const list = this.#bestList();
      const job = list?.first;
      if (list === undefined || job === undefined) break;
      bodyBytes += job.bodyBytes;
      if (this.#order.length > 0 && (job.isLost || bodyBytes > bytesMax)) break;
      const share = shares.get(list.shard) ?? { listed: [], bytes: 0 };
      shares.set(list.shard, share);
      share.listed.push(job);
      place = job.place;
      share.bytes += job.bodyBytes + headBytes;
      this.#order.push(list.shard);
      list.shift();
      // The list was truncated, so the shard's next job is unknown.
      const isEnd = list.first === undefined && list.isCut;
      if (job.isLost || isEnd || share.listed.length === this.#shareMax) break;
    }
    if (shares.size > 0) this.#watchOrder?.endChoice(place, earliest);
    return shares;
  }

  #bestList(): CandidateList | undefined {
    let best: CandidateList | undefined;
    let bestJob: Candidate | undefined;
    for (const list of this.#lists) {
      const job = list.first;
      if (job === undefined || (bestJob !== undefined && !better(job, bestJob))) continue;
      best = list;
      bestJob = job;
    }
    return best;
  }

  #expect(shares: ReadonlyMap<number, Share>): void {
    this.#parts = new Map();
    for (const [shard, { listed, bytes }] of shares) {
      const part = new GatheredJobs(listed.length, bytes);
      this.#parts.set(shard, part);
      this.#budgetBytes += part.bytes;
    }
    this.#partsLeft = shares.size;
    this.#budget.count(this.#budgetBytes);
  }

  onRefusal(): Next {
    return Next.Collect;
  }

  onGathered(shard: number, flags: number, bytes: Span): Next {
    const part = this.#parts.get(shard);
    assert(part !== undefined, "only shards with a share of the batch send jobs");
    part.add(bytes);
    if ((flags & ResponseFlag.More) !== 0 || --this.#partsLeft > 0) return Next.GoOn;
    const reply = new BatchReply(this.#host, this.#order, this.#parts);
    if (reply.jobs === 0) {
      this.#giveBack();
      return Next.Collect;
    }
    this.#reply = reply;
    this.onRoom();
    return Next.GoOn;
  }

  onRoom(): void {
    if (this.#reply !== undefined) this.#replies.add(this.#reply, this.#finish);
  }

  readonly #finish = (): void => {
    this.#reply = undefined;
    this.#giveBack();
    this.#host.finishConversation(undefined);
  };

  onClosed(): void {
    this.#reply = undefined;
    this.#giveBack();
  }

  #giveBack(): void {
    this.#parts = new Map();
    this.#budget.count(-this.#budgetBytes);
    this.#budgetBytes = 0;
  }
}

function better(a: Candidate, b: Candidate): boolean {
  if (a.place !== b.place) return a.place < b.place;
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}
