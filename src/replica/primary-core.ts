// The node that has the lead: brings batches to the shared log, and knows which are acknowledged. Plain code: time and answers come
// in, effects go out through its host. The rules are in README.md.

import {
  BATCH_BYTES_MAX,
  type BatchHeader,
  batchesOf,
  type ChainPlace,
  isOfBatches,
} from "../message/batch.ts";
import { follows, ORIGIN, placeBefore, placeOf } from "./chain.ts";
import type { LogMessage } from "./shared-log.ts";

/** Messages under way at most, and their bytes. */
const WINDOW = 4;
const WINDOW_BYTES = 1024 * 1024;
/** A message without an answer for so long is looked for in the log. */
const ANSWER_MS_MAX = 2500;
/** A look at the log that failed is repeated after this. */
const LOOK_AGAIN_MS = 200;
/** A server that has fallen behind may answer for a while, and say less than was acknowledged. */
const STALE_LOOKS_MAX = 50;

/** A batch on its way to the shared log. */
export interface OfferedBatch {
  n: number;
  tag: number;
  segment: number;
  oldest: number;
  idsLent: number;
  bytes: Uint8Array;
  /** Of each shard the last record that is in it or an earlier one. */
  numbers: Float64Array;
  /** When it was sent first, ms. */
  sentAtMs?: number;
}

export type LeadEnd =
  /** Another node leads. */
  | "lost-lead"
  /** What the log had acknowledged is not there any more. */
  | "log-lost";

export interface PrimaryHost {
  /** Appends; `appended` or `failed` is called with the ticket, or never. */
  append(message: Uint8Array, expectedLast: number, ticket: number): void;
  /** Reads all messages from `from` on to the end of the log; `looked` is called, or `lookFailed`. */
  look(from: number): void;
  /** A batch is acknowledged, and all before it; it is in message `sequence`. */
  acknowledged(batch: OfferedBatch, sequence: number): void;
  purge(below: number): void;
  ended(how: LeadEnd, why: string): void;
}

export interface PrimaryOptions {
  host: PrimaryHost;
  /** The own LEAD, and its sequence in the shared log. */
  place: ChainPlace;
  sequence: number;
  /** When the LEAD was sent, ms. */
  sentAtMs: number;
  leaseMs: number;
  /** So much is left in the log for standbys that are slow, bytes. */
  keepBytes: number;
  /** For each segment the first message with a valid batch of it. */
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
  /** The last batch that is acknowledged, and the message of the shared log that holds it. */
  #acknowledged: ChainPlace;
  #sequence: number;
  /** The last sequence that is expected once all under way is appended. */
  #predicted: number;
  #waiting: OfferedBatch[] = [];
  #underWay: Message[] = [];
  #underWayBytes = 0;
  #tickets = 0;
  /** A message is no answer any more if it was sent before this ticket. */
  #since = 1;
  #looking = false;
  #lookAtMs = 0;
  #inDoubt = false;
  #staleLooks = 0;
  readonly #keepBytes: number;
  /** What may be purged once so much has been acknowledged, bytes. */
  #purges: { below: number; atBytes: number }[] = [];
  #acknowledgedBytes = 0;
  #purged = 0;
  /** The oldest segment that counts, by the last acknowledged batch. */
  #oldest = 0;
  #ended = false;
  /** What was sent before this renews no lease, ms. */
  #countsFromMs = Number.NEGATIVE_INFINITY;
  /** No answer may be given after this, ms. */
  serveUntilMs: number;
  doubts = 0;

  constructor(options: PrimaryOptions) {
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

  /** Batches that are not acknowledged, and their bytes. */
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
    const { segment } = this.#waiting[0]!;
    let count = 0;
    let bytes = 0;
    for (const batch of this.#waiting) {
      if (batch.segment !== segment || (count > 0 && bytes + batch.bytes.length > BATCH_BYTES_MAX)) break;
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
    const expectedLast = this.#predicted++;
    const ticket = ++this.#tickets;
    this.#underWay.push({ ticket, expectedLast, batches, bytes, sentAtMs: nowMs, appended: false });
    this.#underWayBytes += bytes;
    this.#host.append(message, expectedLast, ticket);
  }

  /** The log has taken a message at `sequence`. */
  appended(ticket: number, sequence: number, nowMs: number): void {
    if (this.#ended || ticket < this.#since) return;
    const message = this.#underWay.find((each) => each.ticket === ticket);
    if (message === undefined) return;
    // Anything else came in between: a LEAD, perhaps.
    if (sequence !== message.expectedLast + 1) {
      this.doubt(nowMs);
      return;
    }
    message.appended = true;
    while (this.#underWay[0]?.appended) {
      const done = this.#underWay.shift()!;
      this.#underWayBytes -= done.bytes;
      this.#sequence = done.expectedLast + 1;
      for (const batch of done.batches) this.#acknowledge(batch, this.#sequence, done.sentAtMs);
    }
    this.#pump(nowMs);
  }

  /** This machine may have stood still until now: only what is sent from here on says that nobody else leads. */
  distrust(nowMs: number): void {
    this.#countsFromMs = nowMs;
    this.serveUntilMs = Math.min(this.serveUntilMs, nowMs);
    this.doubt(nowMs);
  }

  /** The log has refused a message, or nobody knows. */
  failed(ticket: number, nowMs: number): void {
    if (ticket >= this.#since) this.doubt(nowMs);
  }

  #acknowledge(batch: OfferedBatch, sequence: number, sentAtMs: number): void {
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

  /** Looked up, never computed: between two valid messages there may be any number of others. */
  #planPurge(oldest: number): void {
    this.#oldest = oldest;
    const below = this.#firstSequences.get(oldest);
    if (below === undefined || below <= this.#purged) return;
    this.#purged = below;
    for (const segment of this.#firstSequences.keys())
      if (segment < oldest) this.#firstSequences.delete(segment);
    this.#purges.push({ below, atBytes: this.#acknowledgedBytes + this.#keepBytes });
  }

  /** Segments begin at these messages in the part of the log that this node had not read when it took the lead. */
  learnFirst(sequences: ReadonlyMap<number, number>): void {
    for (const [segment, sequence] of sequences)
      if (segment >= this.#oldest) this.#firstSequences.set(segment, sequence);
    this.#planPurge(this.#oldest);
  }

  /** The log has little room: what was left in it for standbys that are slow goes now. */
  purgeNow(): void {
    const last = this.#purges.at(-1);
    this.#purges = [];
    if (last !== undefined) this.#host.purge(last.below);
  }

  /** What became of what was sent is read, never guessed. No answer to what was sent so far counts any more. */
  doubt(nowMs: number): void {
    if (this.#ended) return;
    this.#since = this.#tickets + 1;
    if (!this.#inDoubt) this.doubts++;
    this.#inDoubt = true;
    this.#look(nowMs);
  }

  #look(nowMs: number): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#lookAtMs = nowMs;
    this.#host.look(this.#sequence);
  }

  lookFailed(nowMs: number): void {
    this.#looking = false;
    this.#lookAtMs = nowMs + LOOK_AGAIN_MS;
  }

  /** Whether the first messages of a look say already that another node leads: the rest, which may be all of the log, need not be read. */
  seesOtherLead(messages: readonly LogMessage[]): boolean {
    const own = messages[0]?.sequence === this.#sequence ? this.#acknowledged : undefined;
    return lastPlace(messages, own).epoch > this.#epoch;
  }

  /** The log from the last acknowledged message on, or as much of it as shows another lead; `last`: its end. */
  looked(messages: readonly LogMessage[], last: number, nowMs: number): void {
    if (this.#ended) return;
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
      // What is in the log may be what was sent first, however late it was sent again: a lease from then on is the one that others count on.
      else this.#acknowledge(batch, sequences.get(batch.n)!, batch.sentAtMs!);
    }
    this.#sequence = sequences.get(place.n) ?? this.#sequence;
    this.#predicted = last;
    this.#inDoubt = false;
    this.#pump(nowMs);
  }

  /** The place of the last valid batch, and the messages of those since the last acknowledged one; undefined if this is the end. */
  #judge(
    messages: readonly LogMessage[],
    last: number,
  ): { place: ChainPlace; sequences: Map<number, number> } | undefined {
    const first = messages[0];
    if (first === undefined || last < this.#sequence)
      return this.#end("log-lost", `it ends at message ${last}, and had acknowledged ${this.#sequence}`);
    if (first.sequence !== this.#sequence) return this.#judgePurged(messages);
    const all: { sequence: number; header: BatchHeader }[] = [];
    for (const { sequence, bytes } of messages) {
      const batches = isOfBatches(bytes) ? batchesOf(bytes) : [];
      if (batches === undefined) return this.#end("log-lost", `message ${sequence} is damaged`);
      for (const { header } of batches) all.push({ sequence, header });
    }
    const { n, tag } = this.#acknowledged;
    if (!all.some(({ header }) => header.n === n && header.tag === tag))
      return this.#end("log-lost", `message ${this.#sequence} is not what it had acknowledged`);
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

  /** The last acknowledged message is gone: another node that leads may have purged it, and says so further on. */
  #judgePurged(messages: readonly LogMessage[]): undefined {
    const { epoch } = lastPlace(messages);
    if (epoch > this.#epoch) return this.#end("lost-lead", `epoch ${epoch} has begun`);
    const { sequence } = messages[0]!;
    return this.#end("log-lost", `it begins at message ${sequence}, and had acknowledged ${this.#sequence}`);
  }

  #end(how: LeadEnd, why: string): undefined {
    this.#ended = true;
    this.#host.ended(how, why);
  }

  /** To be called at `nextDueAtMs` at the latest. */
  tick(nowMs: number): void {
    if (this.#ended) return;
    if (this.#inDoubt) {
      if (!this.#looking && nowMs >= this.#lookAtMs) this.#look(nowMs);
      return;
    }
    const first = this.#underWay[0];
    if (first !== undefined && nowMs - first.sentAtMs >= ANSWER_MS_MAX) this.doubt(nowMs);
  }

  get nextDueAtMs(): number {
    if (this.#ended) return Number.POSITIVE_INFINITY;
    if (this.#inDoubt) return this.#looking ? Number.POSITIVE_INFINITY : this.#lookAtMs;
    const first = this.#underWay[0];
    return first === undefined ? Number.POSITIVE_INFINITY : first.sentAtMs + ANSWER_MS_MAX;
  }
}

/** Where the chain ends in these messages; without `place` its beginning is believed of the first batch. */
function lastPlace(messages: readonly LogMessage[], place?: ChainPlace): ChainPlace {
  let last = place;
  for (const { header } of messages.flatMap(({ bytes }) => batchesOf(bytes) ?? [])) {
    last ??= placeBefore(header);
    if (follows(last, header)) last = placeOf(header);
  }
  return last ?? ORIGIN;
}
