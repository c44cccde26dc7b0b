// Faulty shared log in memory, on virtual time: it delays, loses, duplicates and misreports. A
// group must survive that.

import { type ChainPlace, hasLogBatches, logBatchesOf } from "../../src/message/log-batch.ts";
import {
  follows,
  type LogEnds,
  LogError,
  type LogMessage,
  placeBefore,
  placeOf,
} from "../../src/replica/shared-log.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import type { VirtualTime } from "./virtual-time.ts";

/**
 * Ways in which the log checks the expected sequence: rightly, at a leader that may be behind, or
 * not at all.
 */
export const CHECKS = ["strict", "stale", "absent"] as const;
export type Check = (typeof CHECKS)[number];

const STRANGER = new TextEncoder().encode("hello, is this the right subject?");

/** A node gives up a question after this time. */
const REQUEST_MS = 1000;

type AppendAnswer = { sequence: number } | { refused: true };

/**
 * The way of one node to the log: what it sends keeps its order, as do the answers; a break loses
 * answers, and what is on its way may still arrive.
 */
export class LogConnection {
  #lastArrivalMs = 0;
  #lastAnswerMs = 0;
  life = 0;
  cutOff = false;
  /** Whether an answer has shown less than this node may know. */
  sawStale = false;
  /** Takes republished messages. */
  onTail: (message: LogMessage) => void = () => {};
  readonly #log: FaultyLog;

  constructor(log: FaultyLog) {
    this.#log = log;
    log.connections.push(this);
  }

  /** No answer to what was sent so far comes any more. */
  break(): void {
    this.life++;
  }

  append(bytes: Uint8Array, expectedLast: number, answer: (answer: AppendAnswer) => void): void {
    const { time, random } = this.#log;
    const { life } = this;
    const { losses } = this.#log;
    const copy = bytes.slice();
    this.#lastArrivalMs = Math.max(time.nowMs + this.#log.delayMs(), this.#lastArrivalMs + 1);
    time.at(this.#lastArrivalMs, () => {
      if (this.cutOff || !this.#log.isUp || this.#log.losses !== losses) return;
      if (this.life !== life && random.chance(0.5)) return;
      const result = this.#log.take(copy, expectedLast);
      this.#lastAnswerMs = Math.max(time.nowMs + this.#log.delayMs(), this.#lastAnswerMs + 1);
      time.at(this.#lastAnswerMs, () => {
        if (this.life === life && !this.cutOff) answer(result);
      });
    });
  }

  get reaches(): boolean {
    return !this.cutOff && this.#log.isUp;
  }

  /** Half of the way of a request: a message that gets lost is noticed by a timeout. */
  #travel(): Promise<void> {
    const { time } = this.#log;
    const { life } = this;
    const delayMs = Math.min(this.#log.delayMs(), REQUEST_MS);
    return new Promise((resolve, reject) => {
      time.after(delayMs, () => {
        if (this.reaches && this.life === life && delayMs < REQUEST_MS) resolve();
        else time.after(REQUEST_MS - delayMs, () => reject(new LogError("lost", "no answer")));
      });
    });
  }

  /** While the answer travels, messages arrive and others are purged. */
  async ends(): Promise<LogEnds> {
    const log = this.#log;
    await this.#travel();
    let { first, last } = log;
    if (!log.quiet && log.random.chance(0.005)) {
      this.sawStale = true;
      last = Math.max(first, last - 1 - log.random.below(4));
    }
    await this.#travel();
    return { first, last, bytes: 0, limitBytes: 0 };
  }

  async *read(from: number, to: number): AsyncGenerator<LogMessage> {
    const log = this.#log;
    for (let next = from; next <= to; ) {
      await this.#travel();
      if (next < log.first) throw new LogError("purged", `message ${next} was purged`);
      if (next > log.last) throw new LogError("hole", `message ${next} is not found`);
      const found = log.read(next, Math.min(1 + log.random.below(8), to - next + 1));
      await this.#travel();
      for (const message of found) {
        yield message;
        next++;
      }
    }
  }

  /** Republished messages may overtake answers and each other, and some get lost. */
  republish(message: LogMessage): void {
    const { time, random, quiet } = this.#log;
    const { life } = this;
    if (!this.reaches || random.chance(0.03)) return;
    time.after(quiet ? 1 : random.below(10), () => {
      if (this.life === life && this.reaches) this.onTail(message);
    });
  }
}

export class FaultyLog {
  readonly time: VirtualTime;
  readonly random: SeededRandom;
  readonly check: Check;
  readonly messages = new Map<number, Uint8Array>();
  readonly connections: LogConnection[] = [];
  first = 1;
  last = 0;
  isUp = true;
  /** Delays are short, and nothing is doubled. */
  quiet = false;
  purges = 0;
  /** Messages in flight when the log lost something never arrive. */
  losses = 0;

  constructor(time: VirtualTime, random: SeededRandom, check: Check) {
    this.time = time;
    this.random = random;
    this.check = check;
  }

  delayMs(): number {
    const { random } = this;
    if (this.quiet) return 1 + random.below(5);
    return random.chance(0.03) ? 200 + random.below(5000) : 1 + random.below(30);
  }

  take(bytes: Uint8Array, expectedLast: number): AppendAnswer {
    if (this.#seenLast(expectedLast) !== expectedLast) return { refused: true };
    const sequence = this.#store(bytes);
    // A client of the log that sends again what it got no answer for, or a server that does.
    if (!this.quiet && this.check !== "strict" && this.random.chance(0.005)) this.#store(bytes);
    // A stranger's message.
    if (!this.quiet && this.random.chance(0.002)) this.#store(STRANGER);
    return { sequence };
  }

  #store(bytes: Uint8Array): number {
    const sequence = ++this.last;
    this.messages.set(sequence, bytes);
    for (const connection of this.connections) connection.republish({ sequence, bytes });
    return sequence;
  }

  #seenLast(expectedLast: number): number {
    if (this.check === "absent") return expectedLast;
    if (this.check === "stale" && this.random.chance(0.1))
      return Math.max(0, this.last - this.random.below(4));
    return this.last;
  }

  /** From sequence `from` on, at most so many. */
  read(from: number, atMost: number): LogMessage[] {
    const found: LogMessage[] = [];
    for (
      let sequence = Math.max(from, this.first);
      sequence <= this.last && found.length < atMost;
      sequence++
    )
      found.push({ sequence, bytes: this.messages.get(sequence)! });
    return found;
  }

  /**
   * Its servers lose what they have taken last, so many messages at most: they are as they were a
   * moment before. What remains ends in a segment behind `segment`.
   */
  loseLast(messages: number, segment: number): number {
    this.losses++;
    let lost = 0;
    while (lost < messages && this.#segmentBefore(this.last) > segment) {
      this.messages.delete(this.last--);
      lost++;
    }
    return lost;
  }

  /** The highest epoch that any message names: a node whose LEAD it is may not know of it yet. */
  get epoch(): number {
    let epoch = 0;
    for (const bytes of this.messages.values())
      for (const { header } of (hasLogBatches(bytes) ? logBatchesOf(bytes) : undefined) ?? [])
        epoch = Math.max(epoch, header.epoch);
    return epoch;
  }

  #segmentBefore(sequence: number): number {
    for (let each = sequence - 1; each >= this.first; each--) {
      const batches = hasLogBatches(this.messages.get(each)!) ? logBatchesOf(this.messages.get(each)!)! : [];
      if (batches.length > 0) return batches.at(-1)!.header.segment;
    }
    return 0;
  }

  /** The first message with a valid batch of the oldest segment that counts. */
  #mayPurgeBelow(): number {
    const begins = new Map<number, number>();
    let oldest = 0;
    let place: ChainPlace | undefined;
    for (const [sequence, bytes] of this.messages)
      for (const { header } of (hasLogBatches(bytes) ? logBatchesOf(bytes) : undefined) ?? []) {
        place ??= placeBefore(header);
        if (!follows(place, header)) continue;
        place = placeOf(header);
        oldest = header.oldest;
        if (!begins.has(header.segment)) begins.set(header.segment, sequence);
      }
    return Math.min(...[...begins].filter(([segment]) => segment >= oldest).map(([, sequence]) => sequence));
  }

  purge(below: number): void {
    if (below <= this.first) return;
    const atMost = this.#mayPurgeBelow();
    if (below > atMost) throw new Error(`purged below message ${below}, though ${atMost} still counts`);
    this.purges++;
    for (; this.first < below; this.first++) this.messages.delete(this.first);
  }
}
