// A node that follows: reads the shared log, writes what is valid into its own, and takes the lead when nobody else has it. Plain
// code: time and messages come in, effects go out through its host. The rules are in README.md.

import {
  type Batch,
  type BatchHeader,
  BatchKind,
  batchesOf,
  type ChainPlace,
  isOfBatches,
} from "../message/batch.ts";
import type { KnownBatch } from "../message/group.ts";
import { follows, ORIGIN, placeBefore, placeOf } from "./chain.ts";
import { OwnChain } from "./own-chain.ts";
import type { LogEnds, LogMessage, Presence } from "./shared-log.ts";

/** Silence counts as such only between answers of the log that are no further apart. */
const ANSWERS_APART_MS_MAX = 1000;
/** A try to take the lead whose LEAD does not show up is given up after this. */
const TRY_MS = 4000;
/** A server that has fallen behind may answer for a while, and say less than was read. */
const STALE_ANSWERS_MAX = 50;
/** One that has lost its store says that there is nothing until another leads and it has all again: longer than two elections. */
const EMPTY_ANSWERS_MAX = 300;

export type FollowEnd =
  /** What the log had acknowledged is not there any more. */
  | "log-lost"
  /** The own log can't go on behind what the shared log still has: it is to be set aside. */
  | "start-anew"
  /** The own log holds jobs that the group does not know. */
  | "stranger"
  /** A message can't be read. */
  | "hole";

export interface FollowerHost {
  /** Writes a valid batch into the own log, behind all others. */
  apply(batch: Batch): void;
  /** Cuts the own log behind batch `n`. */
  cutAfter(n: number): void;
  /**
   * Appends the batches of the own log behind batch `after` to the shared log, which ends at message `expectedLast`; `tailSent` is
   * called, however it went. `lost`: some of them had been acknowledged.
   */
  appendTail(after: number, expectedLast: number, lost: boolean): void;
  /** Appends a LEAD that follows the last batch that was applied, with this tag; `expectedLast` is the last message read. */
  tryLead(tag: number, expectedLast: number): void;
  /** The own LEAD is valid, and applied: this node has the lead. */
  lead(place: ChainPlace, sequence: number): void;
  ended(how: FollowEnd, why: string): void;
}

export interface FollowerOptions {
  host: FollowerHost;
  node: number;
  /** The batches of the own log, in order. */
  own: readonly KnownBatch[];
  /** There are jobs in the own log that the group does not know: it may only begin a group. */
  hasOwnJobs: boolean;
  /** The node that has to begin the group, after a reseed; 0: any. */
  seed: number;
  leaseMs: number;
  /** 0 to 1. */
  random: () => number;
}

export class FollowerCore {
  readonly #host: FollowerHost;
  readonly #options: FollowerOptions;
  readonly #own: OwnChain;
  /** The last valid batch of the shared log that was read; undefined before the first message. */
  #place: ChainPlace | undefined;
  /** The next message to read; 0: the first that there is. */
  protected wanted = 0;
  /** For each segment the first message with a valid batch of it. */
  readonly firstSequences = new Map<number, number>();
  /** All that the log had at one time has been read. */
  #caughtUp = false;
  /** When the last valid batch came, and how long there was none although the log answered. */
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
  /** What it may not do without: all that counts is in its own log. */
  isComplete = true;
  ignored = 0;
  /** A batch of the present lead that there must be. */
  #promised = 0;
  #readAgainFor = 0;
  #staleAnswers = 0;
  #tailSentAtMs = Number.NEGATIVE_INFINITY;
  /** The message with which reading began, if that was not the first; and its segment. */
  beganAt = 0;
  #beganIn = 0;
  /** The last message that the log is known to have. */
  lastKnown = 0;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#host = options.host;
    this.#own = new OwnChain(options.node, options.own);
    this.#patienceMs = this.#drawPatience();
  }

  #drawPatience(): number {
    return this.#options.leaseMs + 300 * this.#options.random();
  }

  /** The next message that is wanted; 0: the first that there is. */
  get next(): number {
    return this.wanted;
  }

  get place(): ChainPlace {
    return this.#place ?? ORIGIN;
  }

  get isCaughtUp(): boolean {
    return this.#caughtUp;
  }

  get heardAtMs(): number {
    return this.#heardAtMs;
  }

  /** Whether the lead was given up, or its holder is dead for sure: a new one need not wait for the end of its lease. */
  get mayServeAtOnce(): boolean {
    return this.#yielded || this.#leaderIsGone;
  }

  /** Takes the next message of the shared log. */
  read({ sequence, bytes }: LogMessage, nowMs: number): void {
    if (this.#ended) return;
    if (this.wanted !== 0 && sequence !== this.wanted) {
      this.#end("hole", `message ${this.wanted} is missing`);
      return;
    }
    const batches = isOfBatches(bytes) ? batchesOf(bytes) : [];
    if (batches === undefined) {
      this.#end("hole", `message ${sequence} is damaged, or of a newer runnerbean`);
      return;
    }
    this.wanted = sequence + 1;
    if (batches.length === 0) this.ignored++;
    for (const batch of batches) {
      if (this.#ended) return;
      this.#place ??= placeBefore(batch.header);
      if (this.isValid(this.#place, batch.header)) this.#take(batch, sequence, nowMs);
      else this.#ignore(batch.header);
    }
  }

  /** One that goes on behind what was read says that something was missed, or is still to come. */
  #ignore({ epoch, n }: BatchHeader): void {
    this.ignored++;
    const place = this.place;
    if (epoch >= place.epoch && n > place.n + 1) this.#promised = Math.max(this.#promised, n);
  }

  protected isValid(place: ChainPlace, header: BatchHeader): boolean {
    return follows(place, header);
  }

  #take(batch: Batch, sequence: number, nowMs: number): void {
    const { header } = batch;
    this.#place = placeOf(header);
    // What the lead before had begun does not count any more.
    if (header.kind === BatchKind.lead) this.#promised = 0;
    // The message with which reading began may not be the first of its segment.
    if (!this.firstSequences.has(header.segment) && header.segment !== this.#beganIn)
      this.firstSequences.set(header.segment, sequence);
    this.#heard(header, nowMs);
    if (!this.#apply(batch)) return;
    if (header.kind !== BatchKind.lead || header.tag !== this.#triedTag) return;
    this.#ended = true;
    this.#host.lead(placeOf(header), sequence);
  }

  #heard({ kind, node }: BatchHeader, nowMs: number): void {
    // The lead that is taken says nothing of the one before.
    if (kind !== BatchKind.lead || node !== this.#options.node) {
      this.#heardAtMs = nowMs;
      this.#leaderIsGone = false;
      this.#yielded = kind === BatchKind.yield;
    }
    this.leader = node;
    this.#silenceMs = 0;
  }

  /** Writes it, unless the own log has it; false at an end. */
  #apply(batch: Batch): boolean {
    const own = this.#own;
    const { n, tag } = batch.header;
    const isKnown = own.last > 0 ? this.#compare(batch.header) : !this.#isStranger(n, tag);
    if (isKnown === "has") return true;
    if (isKnown === false) return false;
    own.add(batch.header);
    this.#host.apply(batch);
    // Only the last ones are of use from here on.
    if (this.#caughtUp) own.forget();
    return true;
  }

  /** Whether the own log has jobs that the group does not know: then it can't take a batch of others. */
  #isStranger(n: number, tag: number): boolean {
    if (!this.#options.hasOwnJobs || (n === 1 && tag === this.#triedTag)) return false;
    this.#end("stranger", "the directory holds jobs that the group does not know");
    return true;
  }

  /** "has": the own log has the batch. True: it may be written behind the last one. False: this is the end. */
  #compare({ n, tag, previousTag }: BatchHeader): "has" | boolean {
    const own = this.#own;
    if (n < own.first) return "has";
    if (n <= own.last) {
      if (own.has(n, tag)) return "has";
      if (!this.#cut(n - 1)) return false;
    }
    if (n === own.last + 1 && own.has(own.last, previousTag)) return true;
    this.#end("start-anew", `it ends at batch ${own.last}, and the shared log goes on with ${n}`);
    return false;
  }

  /** The own log is ahead of the shared one, or beside it, behind batch `n`: what was not acknowledged goes. */
  #cut(n: number): boolean {
    const own = this.#own;
    const lost = own.lastSureBehind(n);
    if (lost > 0) {
      this.#end("log-lost", `batch ${lost} was acknowledged, and the shared log does not have it`);
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

  /** The log has answered: it is alive, and has these messages. */
  answered({ first, last }: LogEnds, nowMs: number): void {
    if (this.#ended) return;
    this.lastKnown = Math.max(this.lastKnown, last);
    if (this.wanted === 0 && first <= last) this.wanted = first;
    if (!this.#isThere(first, last)) return;
    const isAtEnd = last === 0 || this.wanted === last + 1;
    if (!this.#caughtUp && isAtEnd) this.#atEnd(last, nowMs);
    const apartMs = nowMs - this.#answeredAtMs;
    this.#answeredAtMs = nowMs;
    if (apartMs <= ANSWERS_APART_MS_MAX && this.#caughtUp && isAtEnd) this.#silenceMs += apartMs;
  }

  /** Whether the log has what is to be read next, or will have. */
  #isThere(first: number, last: number): boolean {
    if (this.wanted > 0 && this.wanted < first) {
      // Purged under it. Its place is looked for again, from the first message that is left.
      if (this.#own.last === 0 || this.#place === undefined)
        this.#end("start-anew", "the shared log has moved on");
      else this.#seekAgain();
      return false;
    }
    const isEmpty = (last === 0 || first > last) && this.#own.last > 0;
    if (isEmpty || last < this.wanted - 1) {
      this.#noteStale(last, isEmpty);
      return false;
    }
    const wasStale = this.#staleAnswers > 0;
    this.#staleAnswers = 0;
    // A log that was set back has other messages by now where this node has read some.
    if (wasStale && this.#place !== undefined) this.#seekAgain();
    return true;
  }

  /** It says less than is known of it: another server may say more. */
  #noteStale(last: number, isEmpty: boolean): void {
    if (++this.#staleAnswers <= (isEmpty ? EMPTY_ANSWERS_MAX : STALE_ANSWERS_MAX)) return;
    const why = isEmpty
      ? "it is empty, and this node was in the group before"
      : `it ends at message ${last}, and ${this.wanted - 1} was read`;
    this.#end("log-lost", why);
  }

  /** What it knows for sure is where it begins to read again, or else the first message. */
  #seekAgain(): void {
    this.wanted = 0;
    this.#place = undefined;
    this.#caughtUp = false;
    this.#beganIn = this.beganAt = 0;
    this.firstSequences.clear();
  }

  /** All has been read: what the own log has beyond is not in the shared one. */
  #atEnd(last: number, nowMs: number): void {
    const place = this.#place;
    if (place !== undefined && this.#own.last > place.n) {
      if (this.mayAppendTail(place)) {
        if (nowMs - this.#tailSentAtMs < TRY_MS) return;
        this.#tailSentAtMs = nowMs;
        this.#host.appendTail(place.n, last, this.#own.lastSureBehind(place.n) > 0);
        return;
      }
      // Batches leave the own log once a later one is acknowledged.
      if (place.n < this.#own.first) {
        this.#end("log-lost", `it ends with batch ${place.n}, and had acknowledged ${this.#own.first - 1}`);
        return;
      }
      if (!this.#cut(place.n)) return;
    }
    this.#caughtUp = true;
    this.#silenceMs = 0;
    if (this.#heardAtMs === 0) this.#heardAtMs = nowMs;
  }

  /**
   * Whether what the own log has beyond the shared one, which ends at `place`, still follows it: nobody has led since. A reply may rest
   * on it, since the log servers may have lost what they acknowledged last.
   */
  protected mayAppendTail(place: ChainPlace): boolean {
    return this.#own.has(place.n, place.tag);
  }

  /** What was to be appended was, or something else was first: the shared log says. */
  tailSent(): void {
    this.#tailSentAtMs = Number.NEGATIVE_INFINITY;
  }

  /**
   * The message of the shared log with which reading may begin, if the log has it as this node knows it (`beginAt`); 0: with the first.
   * `last`: where the log ends.
   */
  knownMessage(last: number): number {
    return this.#place === undefined && this.wanted === 0 ? this.#own.knownMessage(last) : 0;
  }

  /** All before this message is in the own log: it need not be read again. */
  beginAt({ sequence, bytes }: LogMessage): void {
    const header = isOfBatches(bytes) ? batchesOf(bytes)?.[0]?.header : undefined;
    if (header === undefined || !this.#own.isSure(header.n, header.tag)) return;
    this.wanted = this.beganAt = sequence;
    this.#beganIn = header.segment;
  }

  /** Up to which batch the own log is that of the group, if it is durable up to batch `n` with this tag. */
  keptOf({ n, tag }: ChainPlace): number {
    const isOfOthers = n >= this.#own.first && !this.#own.has(n, tag);
    return isOfOthers ? 0 : Math.min(n, this.place.n);
  }

  /** The node that has the lead was looked for. */
  seen(node: number, presence: Presence): void {
    if (node !== this.leader) return;
    this.#leaderIsGone = presence === "gone";
  }

  /** It says that it is alive and busy with its start: that is no silence. */
  leaderLoads(): void {
    this.#silenceMs = 0;
  }

  /** Takes the lead, if it is time to. */
  tick(nowMs: number): void {
    if (this.#ended || !this.#caughtUp || !this.isComplete) return;
    if (nowMs - this.#triedAtMs < TRY_MS) return;
    if (nowMs - this.#answeredAtMs > ANSWERS_APART_MS_MAX) return;
    if (!this.#mayTry || !this.#isSure()) return;
    this.#triedAtMs = nowMs;
    this.#triedTag = newTag(this.#options.random);
    this.#silenceMs = 0;
    this.#patienceMs = this.#drawPatience();
    this.#host.tryLead(this.#triedTag, Math.max(0, this.wanted - 1));
  }

  /** Where a batch was read that goes on behind a gap, all is read once more, maybe from another server: it must say the same. */
  #isSure(): boolean {
    if (this.#promised <= this.place.n || this.#readAgainFor === this.#promised) return true;
    this.#readAgainFor = this.#promised;
    this.#promised = 0;
    this.#seekAgain();
    return false;
  }

  /** Whether another node has to begin the group: this one may have nothing of what that one has. */
  get waitsForSeed(): boolean {
    const { seed, node } = this.#options;
    return this.#place === undefined && seed !== 0 && seed !== node;
  }

  get #mayTry(): boolean {
    if (this.leader === DETACHED) return false;
    // Nobody has ever led.
    if (this.#place === undefined) this.#leaderIsGone = true;
    if (this.waitsForSeed) return false;
    if (this.#place === undefined) return this.#options.hasOwnJobs || this.#silenceMs > this.#patienceMs / 6;
    // A node that was the last to lead, and has begun anew, is its own proof.
    if (this.leader === this.#options.node) this.#leaderIsGone = true;
    return this.#yielded || this.#leaderIsGone || this.#silenceMs >= this.#patienceMs;
  }

  /** The LEAD was refused: somebody else was first, or the log goes on. */
  refused(): void {
    this.#triedAtMs = Number.NEGATIVE_INFINITY;
  }

  #end(how: FollowEnd, why: string): void {
    this.#ended = true;
    this.#host.ended(how, why);
  }
}

/** The node of a LEAD that an operator has written to end the group: nobody takes the lead after it. */
export const DETACHED = 0xffff_ffff;

/** A tag that nobody else has: a random safe integer above 0. */
export function newTag(random: () => number): number {
  return 1 + Math.floor(random() * (Number.MAX_SAFE_INTEGER - 1));
}
