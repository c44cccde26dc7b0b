// A standby node: reads the shared log, writes valid batches to its local log, and takes the lead
// when no other node has it. Pure code: time and messages come in as arguments, effects go out
// through its host. README.md has the rules.

import { assert, CHECKED } from "../base/assert.ts";
import type { KnownBatch } from "../message/group.ts";
import {
  type ChainPlace,
  hasLogBatches,
  type LogBatch,
  type LogBatchHeader,
  LogBatchKind,
  logBatchesOf,
} from "../message/log-batch.ts";
import {
  DETACHED,
  follows,
  type LogEnds,
  type LogMessage,
  newTag,
  ORIGIN,
  type Presence,
  placeBefore,
  placeOf,
} from "./shared-log.ts";

// Batches in a node's local log: which of them the shared log must have, and where to start reading
// it.

/** Number of batches to remember after the node has read the whole shared log. */
const RECENT = 1000;

class OwnBatches {
  readonly #node: number;
  readonly #batches = new Map<number, KnownBatch>();
  /** The first and the last batch; 0 for none. */
  first = 0;
  last = 0;

  constructor(node: number, batches: readonly KnownBatch[]) {
    this.#node = node;
    for (const batch of batches) this.#batches.set(batch.n, batch);
    if (CHECKED) assert(this.#batches.size === batches.length, "each batch has its own number");
    this.first = batches[0]?.n ?? 0;
    this.last = batches.at(-1)?.n ?? 0;
    assert(this.first <= this.last, "the batches of a log are in order");
  }

  has(n: number, tag: number): boolean {
    return this.#batches.get(n)?.tag === tag;
  }

  add({ n, tag, epoch, node, unacknowledged, message }: KnownBatch): void {
    assert(this.last === 0 || n === this.last + 1, "the local log has no gaps");
    this.#batches.set(n, { n, tag, epoch, node, unacknowledged, message });
    this.first ||= n;
    this.last = n;
  }

  /** Keeps only the latest batches. */
  forget(): void {
    if (this.#batches.size <= 2 * RECENT) return;
    for (const n of this.#batches.keys()) {
      if (n > this.last - RECENT) break;
      this.#batches.delete(n);
    }
    this.first = this.last - RECENT + 1;
    if (CHECKED) assert(this.#batches.has(this.first), "the first kept batch is known");
  }

  cut(n: number): void {
    assert(n >= this.first && n <= this.last, "a cut keeps an existing batch");
    for (let each = this.last; each > n; each--) this.#batches.delete(each);
    this.last = n;
  }

  /**
   * Returns whether the batch was valid in the shared log: read from there, or known to be
   * acknowledged.
   */
  isSure(n: number, tag: number): boolean {
    return this.has(n, tag) && (this.#batches.get(n)!.node !== this.#node || n <= this.#knownAcknowledged());
  }

  /** Returns the last batch after batch `n` that was valid in the shared log; 0 for none. */
  lastSureBehind(n: number): number {
    for (let each = this.last; each > n && each >= this.first; each--)
      if (this.isSure(each, this.#batches.get(each)!.tag)) return each;
    return 0;
  }

  /** Returns the last batch that was acknowledged when the newest one was written. */
  #knownAcknowledged(): number {
    const newest = this.#batches.get(this.last);
    assert(newest !== undefined, "the newest batch is known");
    const { n, unacknowledged } = newest;
    return n - 1 - unacknowledged;
  }

  /**
   * Returns the last message of the shared log that was known to be valid when the newest batch was
   * written; 0 if `last` allows none.
   */
  knownMessage(last: number): number {
    for (let n = this.last; n >= this.first && n > 0; n--) {
      const message = this.#batches.get(n)?.message ?? 0;
      // Only the lower 32 bits are known. The result is the highest sequence with these bits up to
      // `last`.
      if (message > 0) return Math.max(0, last - ((((last - message) % 2 ** 32) + 2 ** 32) % 2 ** 32));
    }
    return 0;
  }
}

/** Silence counts only between answers of the log that are at most this far apart. */
const ANSWERS_APART_MS_MAX = 1000;
/** A node gives up an attempt to take the lead if its LEAD doesn't appear within this time. */
const TRY_MS = 4000;
/** Maximum number of answers from a lagging log server that report less than was already read. */
const STALE_ANSWERS_MAX = 50;
/**
 * The same for empty answers: log servers that lost their store give these for up to two elections.
 */
const EMPTY_ANSWERS_MAX = 300;

export type FollowEnd =
  /** Data that the log had acknowledged is missing. */
  | "log-lost"
  /** The local log can't continue from the rest of the shared log, and must be set aside. */
  | "start-anew"
  /** The local log holds jobs that the group does not know. */
  | "stranger"
  /** A message can't be read. */
  | "hole";

interface FollowerHost {
  /** Appends a valid batch to the local log. */
  apply(batch: LogBatch): void;
  /** Truncates the local log after batch `n`. */
  cutAfter(n: number): void;
  /**
   * Appends the local batches after batch `after` to the shared log, which ends at message
   * `expectedLast`. Calls `tailSent` in any case. `lost` says that the shared log had acknowledged
   * some of them.
   */
  appendTail(after: number, expectedLast: number, lost: boolean): void;
  /** Appends a LEAD with this tag after the last batch and message `expectedLast`. */
  tryLead(tag: number, expectedLast: number): void;
  /** The node's own LEAD is valid and applied: the node has the lead. */
  lead(place: ChainPlace, sequence: number): void;
  ended(how: FollowEnd, why: string): void;
}

interface FollowerOptions {
  host: FollowerHost;
  node: number;
  /** The batches of the local log, in order. */
  own: readonly KnownBatch[];
  /** Whether the local log has jobs unknown to the group: the node may only start a group. */
  hasOwnJobs: boolean;
  /** The node that has to start the group after a reseed; 0 for any. */
  seed: number;
  leaseMs: number;
  /** Returns a random number from 0 to 1. */
  random: () => number;
}

export class FollowerCore {
  readonly #host: FollowerHost;
  readonly #options: FollowerOptions;
  readonly #own: OwnBatches;
  /** The last valid batch of the shared log; undefined before the first message. */
  #place: ChainPlace | undefined;
  /** The next message to read; 0 for the first one in the log. */
  next = 0;
  /** For each segment, the first message that contains a valid batch of it. */
  readonly firstSequences = new Map<number, number>();
  /** Whether the node has once read the log to its end. */
  isCaughtUp = false;
  /** Time of the last valid batch, and how long none has arrived although the log answered. */
  #heardAtMs = 0;
  #silenceMs = 0;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #yielded = false;
  /** The node that has the lead. */
  leader = 0;
  #leaderIsGone = false;
  #triedTag = 0;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #patienceMs: number;
  #ended = false;
  /** Whether the local log is complete; required for taking the lead. */
  isComplete = true;
  ignored = 0;
  /** A batch of the current lead that must exist. */
  #promised = 0;
  #readAgainFor = 0;
  #staleAnswers = 0;
  /** Answers in a row by which the log ends before the local one begins. */
  #shortAnswers = 0;
  #tailSentAtMs = Number.NEGATIVE_INFINITY;
  /** The message at which reading started, if not the first, and its segment. */
  beganAt = 0;
  #beganIn = 0;
  /** The first and the last message that the log is known to have. */
  #firstKnown = 0;
  #lastKnown = 0;

  constructor(options: FollowerOptions) {
    assert(options.node > 0, "a node has its own number");
    this.#options = options;
    this.#host = options.host;
    this.#own = new OwnBatches(options.node, options.own);
    this.#patienceMs = this.#drawPatience();
  }

  #drawPatience(): number {
    const { leaseMs, random } = this.#options;
    const patienceMs = leaseMs + 300 * random();
    assert(leaseMs > 0 && patienceMs >= leaseMs, "a standby is patient for at least a lease");
    return patienceMs;
  }

  get place(): ChainPlace {
    return this.#place ?? ORIGIN;
  }

  get heardAtMs(): number {
    return this.#heardAtMs;
  }

  /**
   * Whether the lead was given up or its holder is certainly dead. A new leader then need not wait
   * until the lease expires.
   */
  get mayServeAtOnce(): boolean {
    return this.#yielded || this.#leaderIsGone;
  }

  /** The last message that was read; 0 for none. */
  get lastRead(): number {
    return Math.max(0, this.next - 1);
  }

  /** Number of messages yet to read; at least 1 until the node has read the log to its end. */
  get behind(): number {
    const unread = this.#lastKnown - Math.max(this.lastRead, this.#firstKnown - 1);
    return Math.max(this.isCaughtUp ? 0 : 1, unread);
  }

  /** Takes the next message of the shared log. */
  read({ sequence, bytes }: LogMessage, nowMs: number): void {
    if (this.#ended) return;
    if (this.next !== 0 && sequence !== this.next) {
      this.#end("hole", `message ${this.next} is missing`);
      return;
    }
    const batches = hasLogBatches(bytes) ? logBatchesOf(bytes) : [];
    if (batches === undefined) {
      this.#end("hole", `message ${sequence} is damaged, or from a newer runnerbean`);
      return;
    }
    this.next = sequence + 1;
    this.#lastKnown = Math.max(this.#lastKnown, sequence);
    if (batches.length === 0) this.ignored++;
    for (const batch of batches) {
      if (this.#ended) return;
      const place = this.#place ?? placeBefore(batch.header);
      if (this.isValid(place, batch.header)) this.#take(batch, sequence, nowMs);
      else this.#ignore(batch.header);
    }
  }

  /** A batch ahead of the current place proves that others are missing, or yet to come. */
  #ignore({ epoch, n }: LogBatchHeader): void {
    this.ignored++;
    const place = this.place;
    if (epoch >= place.epoch && n > place.n + 1) this.#promised = Math.max(this.#promised, n);
  }

  protected isValid(place: ChainPlace, header: LogBatchHeader): boolean {
    return follows(place, header);
  }

  #take(batch: LogBatch, sequence: number, nowMs: number): void {
    const { header } = batch;
    assert(this.#place === undefined || header.epoch >= this.#place.epoch, "epochs never fall");
    this.#place = placeOf(header);
    // Promises of the previous lead no longer count.
    if (header.kind === LogBatchKind.lead) this.#promised = 0;
    // The message at which reading started may not be the first of its segment.
    if (!this.firstSequences.has(header.segment) && header.segment !== this.#beganIn)
      this.firstSequences.set(header.segment, sequence);
    for (const segment of this.firstSequences.keys()) {
      if (segment >= header.oldest) break;
      this.firstSequences.delete(segment);
    }
    this.#heard(header, nowMs);
    if (!this.#apply(batch)) return;
    if (header.kind !== LogBatchKind.lead || header.tag !== this.#triedTag) return;
    assert(this.#triedTag > 0, "the node sent the LEAD that counts");
    this.#ended = true;
    this.#host.lead(placeOf(header), sequence);
  }

  #heard({ kind, node }: LogBatchHeader, nowMs: number): void {
    assert(nowMs >= this.#heardAtMs, "batches arrive in the order of time");
    // The node's own new LEAD says nothing about the previous leader.
    if (kind !== LogBatchKind.lead || node !== this.#options.node) {
      this.#heardAtMs = nowMs;
      this.#leaderIsGone = false;
      this.#yielded = kind === LogBatchKind.yield;
    }
    this.leader = node;
    this.#silenceMs = 0;
  }

  /** Applies the batch, unless the local log has it; returns false if following has ended. */
  #apply(batch: LogBatch): boolean {
    const own = this.#own;
    const { n, tag } = batch.header;
    const isKnown = own.last > 0 ? this.#compare(batch.header) : !this.#isStranger(n, tag);
    if (isKnown === "has") return true;
    if (isKnown === false) return false;
    assert(own.last === 0 || n === own.last + 1, "only the next batch is applied");
    own.add(batch.header);
    this.#host.apply(batch);
    // From here on, only the latest batches matter.
    if (this.isCaughtUp) own.forget();
    return true;
  }

  /** Returns whether jobs unknown to the group keep the local log from taking its batches. */
  #isStranger(n: number, tag: number): boolean {
    if (!this.#options.hasOwnJobs || (n === 1 && tag === this.#triedTag)) return false;
    this.#end("stranger", "the directory holds jobs that the group does not know");
    return true;
  }

  /**
   * Returns "has" if the local log has the batch, true if the batch may be appended, and false if
   * following has ended.
   */
  #compare({ n, tag, previousTag }: LogBatchHeader): "has" | boolean {
    const own = this.#own;
    assert(own.first > 0 && own.first <= own.last, "a log with batches has a first one");
    if (n < own.first) return "has";
    if (n <= own.last) {
      if (own.has(n, tag)) return "has";
      if (!this.#cut(n - 1)) return false;
    }
    if (n === own.last + 1 && own.has(own.last, previousTag)) return true;
    this.#end("start-anew", `it ends at batch ${own.last}, and the shared log continues with ${n}`);
    return false;
  }

  /** Cuts unacknowledged batches after batch `n`, which the shared log lacks. */
  #cut(n: number): boolean {
    const own = this.#own;
    const lost = own.lastSureBehind(n);
    if (lost > 0) {
      this.#end("log-lost", `batch ${lost} was acknowledged, but the shared log does not have it`);
      return false;
    }
    if (n < own.first) {
      this.#end("start-anew", "nothing in it is in the shared log");
      return false;
    }
    own.cut(n);
    this.#host.cutAfter(n);
    return true;
  }

  /**
   * Handles an answer of the log: it is alive and has these messages. `readBefore` is the last
   * message that was read when the question was asked: whatever was read since may be missing in
   * the answer.
   */
  answered({ first, last }: LogEnds, readBefore: number, nowMs: number): void {
    if (this.#ended) return;
    if (this.next === 0 && first <= last) this.next = first;
    if (this.#isStale(first, last, readBefore)) return;
    const wasStale = this.#staleAnswers > 0;
    this.#staleAnswers = 0;
    this.#firstKnown = first;
    this.#lastKnown = Math.max(last, this.lastRead);
    // The next message was purged meanwhile; or the log was set back, and may have other messages
    // now at positions that this node has read.
    if ((this.next > 0 && this.next < first) || (wasStale && this.#place !== undefined)) {
      this.#seekAgain();
      return;
    }
    this.hasRead(nowMs);
    const apartMs = nowMs - this.#answeredAtMs;
    assert(apartMs >= 0, "time never goes back");
    this.#answeredAtMs = nowMs;
    if (apartMs <= ANSWERS_APART_MS_MAX && this.isCaughtUp && this.#isAtEnd) this.#silenceMs += apartMs;
  }

  /** Returns whether the log shows less than it had when the question was asked. */
  #isStale(first: number, last: number, readBefore: number): boolean {
    const isEmpty = last === 0 || first > last;
    const hasNoBatch =
      isEmpty || (this.#place === undefined && this.next > last && this.next !== this.beganAt);
    const wasInGroup = this.#own.last > 0;
    if (last >= readBefore && !(hasNoBatch && wasInGroup)) return false;
    if (wasInGroup && hasNoBatch)
      this.#noteStale(
        EMPTY_ANSWERS_MAX,
        `it ${isEmpty ? "is empty" : "has no batch"}, but this node was in the group before`,
      );
    else
      this.#noteStale(STALE_ANSWERS_MAX, `it ends at message ${last}, but this node has read ${readBefore}`);
    return true;
  }

  /** Whether all messages that the log is known to have are read. */
  get #isAtEnd(): boolean {
    // The message where reading starts has not been read yet.
    return this.#lastKnown === 0 || (this.next === this.#lastKnown + 1 && this.next !== this.beganAt);
  }

  /** Messages were read, perhaps up to the end of the log. */
  hasRead(nowMs: number): void {
    if (!this.#ended && !this.isCaughtUp && this.#isAtEnd) this.#atEnd(this.#lastKnown, nowMs);
  }

  /** The log reports less than this node knows; another log server may report more. */
  #noteStale(answersMax: number, why: string): void {
    if (++this.#staleAnswers > answersMax) this.#end("log-lost", why);
  }

  /** The log ends before the local one begins; another log server may have more. */
  #noteShort(n: number): void {
    if (++this.#shortAnswers > STALE_ANSWERS_MAX)
      this.#end("log-lost", `it ends with batch ${n}, but had acknowledged ${this.#own.first - 1}`);
  }

  /** Restarts reading at a message that the node is sure of, or at the first one. */
  #seekAgain(): void {
    assert(!this.#ended, "a node reads nothing after its end");
    this.next = 0;
    this.#place = undefined;
    this.isCaughtUp = false;
    this.#beganIn = this.beganAt = 0;
    this.firstSequences.clear();
  }

  /** Handles the end of the log: the shared log lacks any later batches of the local log. */
  #atEnd(last: number, nowMs: number): void {
    const place = this.#place;
    if (place !== undefined && this.#own.last > place.n) {
      if (this.mayAppendTail(place)) {
        if (nowMs - this.#tailSentAtMs < TRY_MS) return;
        assert(place.n >= this.#own.first, "a tail begins in the local log");
        this.#tailSentAtMs = nowMs;
        this.#host.appendTail(place.n, last, this.#own.lastSureBehind(place.n) > 0);
        return;
      }
      // A batch leaves the local log only after a later one was acknowledged, which a log server
      // that lags behind may lack.
      if (place.n < this.#own.first) {
        this.#noteShort(place.n);
        return;
      }
      if (!this.#cut(place.n)) return;
    }
    assert(place === undefined || this.#own.last === place.n, "the local log ends with the shared log");
    this.isCaughtUp = true;
    this.#shortAnswers = 0;
    this.#silenceMs = 0;
    if (this.#heardAtMs === 0) this.#heardAtMs = nowMs;
  }

  /**
   * Returns whether the local batches beyond the shared log, which ends at `place`, still follow
   * it: no other node has led since. The server may have replied because of these batches, since
   * the log servers may have lost their latest acknowledged messages.
   */
  protected mayAppendTail(place: ChainPlace): boolean {
    return this.#own.has(place.n, place.tag);
  }

  /** The tail was appended, or another message came first; reading the shared log tells which. */
  tailSent(): void {
    this.#tailSentAtMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * Returns the message at which reading may start if it is unchanged in the log (`beginAt`); 0 for
   * the first. `last` is the log's last message.
   */
  knownMessage(last: number): number {
    return this.#place === undefined && this.next === 0 ? this.#own.knownMessage(last) : 0;
  }

  /** Starts reading at this message, because the local log has everything before it. */
  beginAt({ sequence, bytes }: LogMessage): void {
    assert(sequence > 0, "messages are counted from 1");
    const header = hasLogBatches(bytes) ? logBatchesOf(bytes)?.[0]?.header : undefined;
    if (this.next !== 0 || header === undefined || !this.#own.isSure(header.n, header.tag)) return;
    this.next = this.beganAt = sequence;
    this.#beganIn = header.segment;
  }

  /**
   * Returns the last batch up to which the local log, durable up to batch `n` with this tag, agrees
   * with the group's.
   */
  keptOf({ n, tag }: ChainPlace): number {
    const isOfOthers = n >= this.#own.first && !this.#own.has(n, tag);
    return isOfOthers ? 0 : Math.min(n, this.place.n);
  }

  /** Takes the result of a check on the leader. */
  seen(node: number, presence: Presence): void {
    if (node !== this.leader) return;
    this.#leaderIsGone = presence === "gone";
  }

  /** The leader reports that it is alive and still starting, which is not silence. */
  leaderLoads(): void {
    this.#silenceMs = 0;
  }

  /** Takes the lead if it is time to. */
  tick(nowMs: number): void {
    if (this.#ended || !this.isCaughtUp || !this.isComplete) return;
    if (nowMs - this.#triedAtMs < TRY_MS) return;
    if (nowMs - this.#answeredAtMs > ANSWERS_APART_MS_MAX) return;
    if (!this.#mayTry || !this.#isSure()) return;
    assert(this.place.n === 0 || this.#own.last === this.place.n, "a leading node has all batches");
    this.#triedAtMs = nowMs;
    this.#triedTag = newTag(this.#options.random);
    this.#silenceMs = 0;
    this.#patienceMs = this.#drawPatience();
    this.#host.tryLead(this.#triedTag, Math.max(0, this.next - 1));
  }

  /**
   * After a batch that follows a gap, the node reads everything once more, maybe from another log
   * server, and must get the same result.
   */
  #isSure(): boolean {
    if (this.#promised <= this.place.n || this.#readAgainFor === this.#promised) return true;
    this.#readAgainFor = this.#promised;
    this.#promised = 0;
    this.#seekAgain();
    return false;
  }

  /** Whether another node has to start the group: this one may lack that node's data. */
  get waitsForSeed(): boolean {
    const { seed, node } = this.#options;
    return this.#place === undefined && seed !== 0 && seed !== node;
  }

  get #mayTry(): boolean {
    if (this.leader === DETACHED) return false;
    // No node has ever led.
    if (this.#place === undefined) this.#leaderIsGone = true;
    if (this.waitsForSeed) return false;
    if (this.#place === undefined) return this.#options.hasOwnJobs || this.#silenceMs > this.#patienceMs / 6;
    // A restarted node that led last knows that its former process is gone.
    if (this.leader === this.#options.node) this.#leaderIsGone = true;
    return this.#yielded || this.#leaderIsGone || this.#silenceMs >= this.#patienceMs;
  }

  /** The log refused the LEAD: another node was first, or the log has grown. */
  refused(): void {
    this.#triedAtMs = Number.NEGATIVE_INFINITY;
  }

  #end(how: FollowEnd, why: string): void {
    assert(!this.#ended, "following ends once");
    this.#ended = true;
    this.#host.ended(how, why);
  }
}
