// The leading node: sends batches to the shared log, and tracks which ones are acknowledged. Pure
// code: time and answers come in as arguments, effects go out through its host. README.md has the
// rules.

import { assert } from "../base/assert.ts";
import {
  type ChainPlace,
  hasLogBatches,
  LOG_BATCH_BYTES_MAX,
  type LogBatchHeader,
  logBatchesOf,
} from "../message/log-batch.ts";
import { follows, type LogMessage, ORIGIN, placeBefore, placeOf } from "./shared-log.ts";

/** Maximum number of messages in flight, and of their bytes. */
const WINDOW = 4;
const WINDOW_BYTES = 1024 * 1024;
/** After this time without an answer, the node looks for the message in the log. */
const ANSWER_MS_MAX = 2500;
/** Delay before the node retries a failed look at the log. */
const LOOK_AGAIN_MS = 200;
/**
 * Maximum number of stale looks: a log server that lags behind may report less than was
 * acknowledged.
 */
const STALE_LOOKS_MAX = 50;

/** A batch on its way to the shared log. */
export interface OfferedBatch {
  n: number;
  tag: number;
  segment: number;
  oldest: number;
  idsLent: number;
  bytes: Uint8Array;
  /** For each shard, its last record in this batch or an earlier one. */
  numbers: Float64Array;
  /** Time at which the batch was first sent, ms. */
  sentAtMs?: number;
}

export type LeadEnd =
  /** Another node leads. */
  | "lost-lead"
  /** Data that the log had acknowledged is missing. */
  | "log-lost";

interface PrimaryHost {
  /** Appends a message; afterwards calls `appended` or `failed` with the ticket, or neither. */
  append(message: Uint8Array, expectedLast: number, ticket: number): void;
  /** Reads all messages from `from` to the end of the log, then calls `looked` or `lookFailed`. */
  look(from: number): void;
  /** The batch and all before it are acknowledged; it is in message `sequence`. */
  acknowledged(batch: OfferedBatch, sequence: number): void;
  purge(below: number): void;
  ended(how: LeadEnd, why: string): void;
}

interface PrimaryOptions {
  host: PrimaryHost;
  /** The node's own LEAD, and its sequence in the shared log. */
  place: ChainPlace;
  sequence: number;
  /** Time at which the LEAD was sent, ms. */
  sentAtMs: number;
  leaseMs: number;
  /** Bytes that stay in the log for slow standbys. */
  keepBytes: number;
  /** For each segment, the first message that contains a valid batch of it. */
  firstSequences: Map<number, number>;
}

interface Message {
  ticket: number;
  expectedLast: number;
  batches: OfferedBatch[];
  bytes: number;
  sentAtMs: number;
  appended: boolean;
}

export class PrimaryCore {
  readonly #host: PrimaryHost;
  readonly #leaseMs: number;
  readonly #epoch: number;
  readonly #firstSequences: Map<number, number>;
  /** The last acknowledged batch, and the message of the shared log that holds it. */
  #acknowledged: ChainPlace;
  #sequence: number;
  /** The expected last sequence after everything in flight is appended. */
  #predicted: number;
  #waiting: OfferedBatch[] = [];
  #underWay: Message[] = [];
  #underWayBytes = 0;
  #tickets = 0;
  /** The first ticket whose answer counts; answers to earlier messages are ignored. */
  #since = 1;
  #looking = false;
  #lookAtMs = 0;
  #inDoubt = false;
  #staleLooks = 0;
  readonly #keepBytes: number;
  /** Planned purges, each with the number of acknowledged bytes at which it is due. */
  #purges: { below: number; atBytes: number }[] = [];
  #acknowledgedBytes = 0;
  #purged = 0;
  /** The oldest segment that counts, according to the last acknowledged batch. */
  #oldest = 0;
  #ended = false;
  /** Messages sent before this time renew no lease, ms. */
  #countsFromMs = Number.NEGATIVE_INFINITY;
  /** The time after which the server must not reply, ms. */
  serveUntilMs: number;
  doubts = 0;

  constructor(options: PrimaryOptions) {
    assert(options.place.epoch > 0 && options.place.n > 0, "a leading node has a LEAD");
    assert(options.sequence > 0, "a LEAD is in a message");
    assert(options.leaseMs > 0 && options.keepBytes >= 0, "a lease has a length");
    this.#host = options.host;
    this.#leaseMs = options.leaseMs;
    this.#keepBytes = options.keepBytes;
    this.#epoch = options.place.epoch;
    this.#firstSequences = options.firstSequences;
    this.#acknowledged = options.place;
    this.#sequence = this.#predicted = options.sequence;
    this.serveUntilMs = options.sentAtMs + options.leaseMs;
  }

  get acknowledgedN(): number {
    return this.#acknowledged.n;
  }

  /** The number of batches that are not acknowledged. */
  get pendingBatches(): number {
    let count = this.#waiting.length;
    for (const message of this.#underWay) count += message.batches.length;
    return count;
  }

  get messagesUnderWay(): number {
    return this.#underWay.length;
  }

  /** Takes the next batch of the log. */
  offer(batch: OfferedBatch, nowMs: number): void {
    if (this.#ended) return;
    assert(batch.n === this.acknowledgedN + this.pendingBatches + 1, "batches are offered without gaps");
    assert(batch.oldest <= batch.segment, "a batch is in a segment that counts");
    assert(batch.segment >= (this.#waiting.at(-1)?.segment ?? 0), "segments are numbered upwards");
    this.#waiting.push(batch);
    this.#pump(nowMs);
  }

  #pump(nowMs: number): void {
    while (
      !this.#inDoubt &&
      !this.#ended &&
      this.#waiting.length > 0 &&
      this.#underWay.length < WINDOW &&
      this.#underWayBytes < WINDOW_BYTES
    )
      this.#send(nowMs);
  }

  /** Joins batches of one segment into a message. */
  #send(nowMs: number): void {
    assert(!this.#inDoubt, "nothing is sent in doubt");
    const { segment } = this.#waiting[0]!;
    let count = 0;
    let bytes = 0;
    for (const batch of this.#waiting) {
      if (batch.segment !== segment || (count > 0 && bytes + batch.bytes.length > LOG_BATCH_BYTES_MAX)) break;
      count++;
      bytes += batch.bytes.length;
      batch.sentAtMs ??= nowMs;
    }
    const batches = this.#waiting.splice(0, count);
    const message = new Uint8Array(bytes);
    let at = 0;
    for (const batch of batches) {
      message.set(batch.bytes, at);
      at += batch.bytes.length;
    }
    assert(count > 0 && at === bytes, "the batches of a message fill it");
    assert(this.#predicted >= this.#sequence, "a message follows the acknowledged ones");
    const expectedLast = this.#predicted++;
    const ticket = ++this.#tickets;
    this.#underWay.push({ ticket, expectedLast, batches, bytes, sentAtMs: nowMs, appended: false });
    this.#underWayBytes += bytes;
    assert(this.#underWay.length <= WINDOW, "few messages are in flight");
    this.#host.append(message, expectedLast, ticket);
  }

  /** The log has stored a message at `sequence`. */
  appended(ticket: number, sequence: number, nowMs: number): void {
    if (this.#ended || ticket < this.#since) return;
    assert(ticket <= this.#tickets, "an answer belongs to a sent message");
    const message = this.#underWay.find((each) => each.ticket === ticket);
    if (message === undefined) return;
    // Another message came in between, perhaps a LEAD.
    if (sequence !== message.expectedLast + 1) {
      this.doubt(nowMs);
      return;
    }
    message.appended = true;
    while (this.#underWay[0]?.appended) {
      const done = this.#underWay.shift()!;
      this.#underWayBytes -= done.bytes;
      assert(this.#underWayBytes >= 0, "the bytes in flight add up");
      this.#sequence = done.expectedLast + 1;
      for (const batch of done.batches) this.#acknowledge(batch, this.#sequence, done.sentAtMs);
    }
    this.#pump(nowMs);
  }

  /**
   * Distrusts the lease, because the machine may have been suspended. Only messages sent from here
   * on prove that no other node leads.
   */
  distrust(nowMs: number): void {
    assert(nowMs >= this.#countsFromMs, "a leader's clock never goes back");
    this.#countsFromMs = nowMs;
    this.serveUntilMs = Math.min(this.serveUntilMs, nowMs);
    this.doubt(nowMs);
  }

  /** The log refused a message, or the outcome is unknown. */
  failed(ticket: number, nowMs: number): void {
    assert(ticket <= this.#tickets, "a failure belongs to a sent message");
    if (ticket >= this.#since) this.doubt(nowMs);
  }

  #acknowledge(batch: OfferedBatch, sequence: number, sentAtMs: number): void {
    assert(batch.n === this.#acknowledged.n + 1, "batches are acknowledged in order");
    assert(sequence >= this.#sequence, "messages are acknowledged in order");
    this.#acknowledged = { epoch: this.#epoch, n: batch.n, tag: batch.tag };
    if (!this.#firstSequences.has(batch.segment)) this.#firstSequences.set(batch.segment, sequence);
    if (sentAtMs >= this.#countsFromMs)
      this.serveUntilMs = Math.max(this.serveUntilMs, sentAtMs + this.#leaseMs);
    this.#host.acknowledged(batch, sequence);
    this.#acknowledgedBytes += batch.bytes.length;
    this.#planPurge(batch.oldest);
    while (this.#purges[0] !== undefined && this.#purges[0].atBytes <= this.#acknowledgedBytes)
      this.#host.purge(this.#purges.shift()!.below);
  }

  /**
   * The position is looked up, never computed: any number of other messages may lie between two
   * valid ones.
   */
  #planPurge(oldest: number): void {
    assert(oldest >= this.#oldest, "the oldest segment that counts only goes up");
    this.#oldest = oldest;
    const below = this.#firstSequences.get(oldest);
    if (below === undefined || below <= this.#purged) return;
    this.#purged = below;
    for (const segment of this.#firstSequences.keys())
      if (segment < oldest) this.#firstSequences.delete(segment);
    assert((this.#purges.at(-1)?.below ?? 0) < below, "each purge takes more than the one before");
    this.#purges.push({ below, atBytes: this.#acknowledgedBytes + this.#keepBytes });
  }

  /**
   * Adds the beginnings of segments in the part of the log that this node had not read when it took
   * the lead.
   */
  learnFirst(sequences: ReadonlyMap<number, number>): void {
    for (const [segment, sequence] of sequences) {
      assert(sequence > 0, "a segment begins in a message");
      if (segment >= this.#oldest) this.#firstSequences.set(segment, sequence);
    }
    this.#planPurge(this.#oldest);
  }

  /** The log is short of room: purges at once the messages kept for slow standbys. */
  purgeNow(): void {
    const last = this.#purges.at(-1);
    this.#purges = [];
    if (last === undefined) return;
    assert(last.below <= this.#purged, "a purge was planned");
    this.#host.purge(last.below);
  }

  /**
   * Reads the outcome of the messages in flight instead of guessing. Answers to them no longer
   * count.
   */
  doubt(nowMs: number): void {
    if (this.#ended) return;
    assert(this.#since <= this.#tickets + 1, "no answer counts before its message is sent");
    this.#since = this.#tickets + 1;
    if (!this.#inDoubt) this.doubts++;
    this.#inDoubt = true;
    this.#look(nowMs);
  }

  #look(nowMs: number): void {
    if (this.#looking) return;
    this.#looking = true;
    assert(this.#inDoubt, "only a node in doubt looks");
    this.#lookAtMs = nowMs;
    this.#host.look(this.#sequence);
  }

  lookFailed(nowMs: number): void {
    assert(this.#inDoubt, "only the look of a node in doubt fails");
    this.#looking = false;
    this.#lookAtMs = nowMs + LOOK_AGAIN_MS;
  }

  /**
   * Returns whether the first messages of a look already show that another node leads. The rest,
   * maybe the whole log, need not be read then.
   */
  seesOtherLead(messages: readonly LogMessage[]): boolean {
    assert(this.#looking, "only a looking node sees other leads");
    const own = messages[0]?.sequence === this.#sequence ? this.#acknowledged : undefined;
    return lastPlace(messages, own).epoch > this.#epoch;
  }

  /**
   * Takes the log from the last acknowledged message on, or enough of it to show another lead;
   * `last` is its end.
   */
  looked(messages: readonly LogMessage[], last: number, nowMs: number): void {
    if (this.#ended) return;
    assert(this.#looking && this.#inDoubt, "an answered look was requested");
    this.#looking = false;
    if (last < this.#sequence && ++this.#staleLooks <= STALE_LOOKS_MAX) {
      this.lookFailed(nowMs);
      return;
    }
    this.#staleLooks = 0;
    const found = this.#judge(messages, last);
    if (found === undefined) return;
    const { place, sequences } = found;
    const all = [...this.#underWay.flatMap(({ batches }) => batches), ...this.#waiting];
    this.#underWay = [];
    this.#underWayBytes = 0;
    this.#waiting = [];
    for (const batch of all) {
      if (batch.n > place.n) this.#waiting.push(batch);
      // The log may hold the first copy of a batch, however late it was resent. Other nodes count
      // the lease from that one, so this node does too.
      else {
        const sequence = sequences.get(batch.n);
        assert(sequence !== undefined && batch.sentAtMs !== undefined, "a batch in the log was sent");
        this.#acknowledge(batch, sequence, batch.sentAtMs);
      }
    }
    this.#sequence = sequences.get(place.n) ?? this.#sequence;
    this.#predicted = last;
    assert(this.#sequence <= last, "the last acknowledged message is in the log");
    assert(this.#underWay.length === 0 && this.#underWayBytes === 0, "nothing is in flight after a look");
    this.#inDoubt = false;
    this.#pump(nowMs);
  }

  /**
   * Returns the place of the last valid batch, and the messages of the batches since the last
   * acknowledged one; undefined if the lead has ended.
   */
  #judge(
    messages: readonly LogMessage[],
    last: number,
  ): { place: ChainPlace; sequences: Map<number, number> } | undefined {
    const first = messages[0];
    if (first === undefined || last < this.#sequence)
      return this.#end("log-lost", `it ends at message ${last}, but had acknowledged ${this.#sequence}`);
    if (first.sequence !== this.#sequence) return this.#judgePurged(messages);
    const all: { sequence: number; header: LogBatchHeader }[] = [];
    for (const { sequence, bytes } of messages) {
      const batches = hasLogBatches(bytes) ? logBatchesOf(bytes) : [];
      if (batches === undefined) return this.#end("log-lost", `message ${sequence} is damaged`);
      for (const { header } of batches) all.push({ sequence, header });
    }
    const { n, tag } = this.#acknowledged;
    if (!all.some(({ header }) => header.n === n && header.tag === tag))
      return this.#end("log-lost", `message ${this.#sequence} differs from the acknowledged one`);
    const sequences = new Map<number, number>();
    let place = this.#acknowledged;
    for (const { sequence, header } of all) {
      if (!follows(place, header)) continue;
      place = placeOf(header);
      sequences.set(header.n, sequence);
    }
    if (place.epoch !== this.#epoch) return this.#end("lost-lead", `epoch ${place.epoch} has begun`);
    return { place, sequences };
  }

  /**
   * The last acknowledged message is gone. Another leader may have purged it; a later message then
   * shows that lead.
   */
  #judgePurged(messages: readonly LogMessage[]): undefined {
    const { epoch } = lastPlace(messages);
    if (epoch > this.#epoch) return this.#end("lost-lead", `epoch ${epoch} has begun`);
    const { sequence } = messages[0]!;
    return this.#end("log-lost", `it begins at message ${sequence}, but had acknowledged ${this.#sequence}`);
  }

  #end(how: LeadEnd, why: string): undefined {
    assert(!this.#ended, "a lead ends once");
    this.#ended = true;
    this.#host.ended(how, why);
  }

  /** Call no later than `nextDueAtMs`. */
  tick(nowMs: number): void {
    if (this.#ended) return;
    if (this.#inDoubt) {
      if (!this.#looking && nowMs >= this.#lookAtMs) this.#look(nowMs);
      return;
    }
    const first = this.#underWay[0];
    assert(first === undefined || nowMs >= first.sentAtMs, "a message was sent before now");
    if (first !== undefined && nowMs - first.sentAtMs >= ANSWER_MS_MAX) this.doubt(nowMs);
  }

  get nextDueAtMs(): number {
    if (this.#ended) return Number.POSITIVE_INFINITY;
    if (this.#inDoubt) return this.#looking ? Number.POSITIVE_INFINITY : this.#lookAtMs;
    const first = this.#underWay[0];
    return first === undefined ? Number.POSITIVE_INFINITY : first.sentAtMs + ANSWER_MS_MAX;
  }
}

/**
 * Returns the end of the chain in these messages. Without `place`, trusts the first batch's claim
 * about its predecessor.
 */
function lastPlace(messages: readonly LogMessage[], place?: ChainPlace): ChainPlace {
  let last = place;
  for (const { header } of messages.flatMap(({ bytes }) => logBatchesOf(bytes) ?? [])) {
    last ??= placeBefore(header);
    if (follows(last, header)) last = placeOf(header);
  }
  return last ?? ORIGIN;
}
