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
import { follows, ORIGIN, placeBefore, placeOf } from "./chain.ts";
import type { LogEnds, LogMessage, Presence } from "./shared-log.ts";

/** Silence counts as such only between answers of the log that are no further apart. */
const ANSWERS_APART_MS_MAX = 1000;
/** A try to take the lead whose LEAD does not show up is given up after this. */
const TRY_MS = 4000;
/** A server that has fallen behind may answer for a while, and say less than was read. */
const STALE_ANSWERS_MAX = 50;
/** One that has lost its store says that there is nothing until another leads and it has all again: longer than two elections. */
const EMPTY_ANSWERS_MAX = 300;

/** A batch of the own log. */
export interface OwnBatch {
  n: number;
  tag: number;
  epoch: number;
  node: number;
  unacknowledged: number;
}

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
  own: readonly OwnBatch[];
  /** There are jobs in the own log that the group does not know: it may only begin a group. */
  hasOwnJobs: boolean;
  leaseMs: number;
  /** 0 to 1. */
  random: () => number;
}

export class FollowerCore {
  readonly #host: FollowerHost;
  readonly #options: FollowerOptions;
  readonly #own = new Map<number, OwnBatch>();
  #ownFirst = 0;
  #ownLast = 0;
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
  /** The first message that the log has. */
  #first = 0;
  #staleAnswers = 0;
  /** The last message that the log is known to have. */
  lastKnown = 0;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#host = options.host;
    for (const batch of options.own) this.#own.set(batch.n, batch);
    this.#ownFirst = options.own[0]?.n ?? 0;
    this.#ownLast = options.own.at(-1)?.n ?? 0;
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
    if (!this.firstSequences.has(header.segment)) this.firstSequences.set(header.segment, sequence);
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
    const { n, tag, epoch, node, unacknowledged } = batch.header;
    const isKnown = this.#ownLast > 0 ? this.#compare(batch.header) : !this.#isStranger(n, tag);
    if (isKnown === "has") return true;
    if (isKnown === false) return false;
    this.#own.set(n, { n, tag, epoch, node, unacknowledged });
    this.#ownFirst ||= n;
    this.#ownLast = n;
    this.#host.apply(batch);
    // Only the last ones are of use from here on.
    if (this.#caughtUp && this.#own.size > 2 * RECENT) this.#forget();
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
    if (n < this.#ownFirst) return "has";
    if (n <= this.#ownLast) {
      if (this.#own.get(n)!.tag === tag) return "has";
      if (!this.#cut(n - 1)) return false;
    }
    const last = this.#own.get(this.#ownLast)!;
    if (n === this.#ownLast + 1 && previousTag === last.tag) return true;
    this.#end("start-anew", `it ends at batch ${this.#ownLast}, and the shared log goes on with ${n}`);
    return false;
  }

  #forget(): void {
    for (const n of this.#own.keys()) {
      if (n > this.#ownLast - RECENT) break;
      this.#own.delete(n);
    }
    this.#ownFirst = this.#ownLast - RECENT + 1;
  }

  /** The own log is ahead of the shared one, or beside it, behind batch `n`: what was not acknowledged goes. */
  #cut(n: number): boolean {
    for (let each = this.#ownLast; each > n && each >= this.#ownFirst; each--) {
      const batch = this.#own.get(each)!;
      if (batch.node !== this.#options.node || each <= this.#knownAcknowledged()) {
        this.#end("log-lost", `batch ${each} was acknowledged, and the shared log does not have it`);
        return false;
      }
    }
    if (n < this.#ownFirst) {
      this.#end("start-anew", "nothing in it is in the shared log");
      return false;
    }
    for (let each = this.#ownLast; each > n; each--) this.#own.delete(each);
    this.#ownLast = n;
    this.#host.cutAfter(n);
    return true;
  }

  /** The last batch of the own log that a later one knew to be acknowledged. */
  #knownAcknowledged(): number {
    const { n, unacknowledged } = this.#own.get(this.#ownLast)!;
    return n - 1 - unacknowledged;
  }

  /** The log has answered: it is alive, and has these messages. */
  answered({ first, last }: LogEnds, nowMs: number): void {
    if (this.#ended) return;
    this.lastKnown = Math.max(this.lastKnown, last);
    this.#first = first;
    if (this.wanted === 0 && first <= last) this.wanted = first;
    if (!this.#isThere(first, last)) return;
    const isAtEnd = last === 0 || this.wanted === last + 1;
    if (!this.#caughtUp && isAtEnd) this.#atEnd(nowMs);
    const apartMs = nowMs - this.#answeredAtMs;
    this.#answeredAtMs = nowMs;
    if (apartMs <= ANSWERS_APART_MS_MAX && this.#caughtUp && isAtEnd) this.#silenceMs += apartMs;
  }

  /** Whether the log has what is to be read next, or will have. */
  #isThere(first: number, last: number): boolean {
    if (this.wanted > 0 && this.wanted < first) {
      // Purged under it. Its place is looked for again, from the first message that is left.
      if (this.#ownLast === 0 || this.#place === undefined)
        this.#end("start-anew", "the shared log has moved on");
      else this.#seekAgain(first);
      return false;
    }
    const isEmpty = last === 0 && this.#ownLast > 0;
    if (isEmpty || last < this.wanted - 1) {
      this.#noteStale(last, isEmpty);
      return false;
    }
    this.#staleAnswers = 0;
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

  #seekAgain(first: number): void {
    this.wanted = first;
    this.#place = undefined;
    this.#caughtUp = false;
    this.firstSequences.clear();
  }

  /** All has been read: what the own log has beyond is not in the shared one. */
  #atEnd(nowMs: number): void {
    if (this.#ownLast > this.place.n && this.#place !== undefined && !this.#cut(this.#place.n)) return;
    this.#caughtUp = true;
    this.#silenceMs = 0;
    if (this.#heardAtMs === 0) this.#heardAtMs = nowMs;
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
    this.#seekAgain(this.#first);
    return false;
  }

  get #mayTry(): boolean {
    if (this.leader === DETACHED) return false;
    // Nobody has ever led.
    if (this.#place === undefined) this.#leaderIsGone = true;
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

/** Batches of the own log that are remembered once all is read. */
const RECENT = 1000;

/** A tag that nobody else has: a random safe integer above 0. */
export function newTag(random: () => number): number {
  return 1 + Math.floor(random() * (Number.MAX_SAFE_INTEGER - 1));
}
