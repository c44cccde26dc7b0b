// Faulty shared log in memory, on virtual time: it delays, loses, duplicates and misreports. A
// group must survive that.

import { hasLogBatches, logBatchesOf } from "../../src/message/log-batch.ts";
import type { LogMessage } from "../../src/replica/shared-log.ts";
import type { SeededRandom } from "../support/seeded-random.ts";
import type { VirtualTime } from "./virtual-time.ts";

/**
 * Ways in which the log checks the expected sequence: rightly, at a leader that may be behind, or
 * not at all.
 */
export const CHECKS = ["strict", "stale", "absent"] as const;
export type Check = (typeof CHECKS)[number];

const STRANGER = new TextEncoder().encode("hello, is this the right subject?");

export type AppendAnswer = { sequence: number } | { refused: true };

/**
 * The way of one node to the log: what it sends keeps its order, as do the answers; a break loses
 * answers, and what is on its way may still arrive.
 */
export class LogConnection {
  #lastArrivalMs = 0;
  #lastAnswerMs = 0;
  life = 0;
  cutOff = false;
  readonly #log: FaultyLog;

  constructor(log: FaultyLog) {
    this.#log = log;
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
}

export class FaultyLog {
  readonly time: VirtualTime;
  readonly random: SeededRandom;
  readonly check: Check;
  readonly messages = new Map<number, Uint8Array>();
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
    const sequence = ++this.last;
    this.messages.set(sequence, bytes);
    // A client of the log that sends again what it got no answer for, or a server that does.
    if (!this.quiet && this.check !== "strict" && this.random.chance(0.005))
      this.messages.set(++this.last, bytes);
    // A stranger's message.
    if (!this.quiet && this.random.chance(0.002)) this.messages.set(++this.last, STRANGER);
    return { sequence };
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

  purge(below: number): void {
    if (below <= this.first) return;
    this.purges++;
    for (; this.first < below; this.first++) this.messages.delete(this.first);
  }
}
