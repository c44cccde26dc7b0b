// Asks the other shards for jobs of a schedule with overlap=skip, before a tick puts one. Its jobs
// may have been moved there, or have died there.
//
// A job that moves meanwhile may be missed by all: the shard that it goes to answers before it
// arrives, and the one that it comes from when it has left. So the answers count only if no job of
// any schedule has arrived anywhere since the question. An answer waits for the log, as replies do:
// a job whose end could still be lost must not be followed by the next one.

import { assert } from "../../base/assert.ts";
import { asciiBytes, latin1 } from "../../base/bytes.ts";
import type { Schedule, Schedules } from "../../engine/schedules.ts";
import type { ReplyPort } from "../../message/response.ts";
import { TransferMessage } from "../../message/transfer.ts";
import type { Span } from "../../protocol/request.ts";

interface Question {
  readonly schedule: Schedule;
  /** How many jobs of schedules had arrived at another shard when it was asked. */
  moves: number;
  /** Shards that have not answered yet. */
  left: number;
  exists: boolean;
}

interface OverlapQuestionsOptions {
  readonly schedules: { readonly table: Pick<Schedules["table"], "get"> };
  /** Whether this shard has jobs of a schedule. */
  readonly scheduled: { has(schedule: string): boolean };
  readonly shard: number;
  readonly shards: number;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly lastRecord: () => number;
  /** Returns how many jobs of schedules have arrived at another shard, of all shards. */
  readonly scheduledMoves: () => number;
  /** Called when all have answered. */
  readonly onAnswer: (schedule: Schedule, exists: boolean) => void;
}

const NUMBERS = 2 ** 31;

export class OverlapQuestions {
  readonly #options: OverlapQuestionsOptions;
  /** By number. */
  readonly #open = new Map<number, Question>();
  #lastNumber = 0;

  constructor(options: OverlapQuestionsOptions) {
    this.#options = options;
  }

  ask(schedule: Schedule): void {
    const { shard, shards, port, lastRecord, scheduledMoves } = this.#options;
    this.#lastNumber = (this.#lastNumber + 1) % NUMBERS;
    const number = this.#lastNumber;
    this.#open.set(number, { schedule, moves: scheduledMoves(), left: shards - 1, exists: false });
    const name = asciiBytes(schedule.name);
    for (let other = 0; other < shards; other++) {
      if (other === shard) continue;
      port.beginCarry(TransferMessage.AskJobs, other, number, name.length, false, lastRecord());
      port.target.set(name, port.at);
    }
  }

  /** Takes a question or an answer of another shard. */
  take(message: number, from: number, number: number, { bytes, start, end }: Span): void {
    const { scheduled, port, lastRecord } = this.#options;
    if (message === TransferMessage.AskJobs) {
      const exists = scheduled.has(latin1(bytes, start, end));
      port.beginCarry(TransferMessage.TellJobs, from, number, 1, true, lastRecord());
      port.target[port.at] = exists ? 1 : 0;
      return;
    }
    const question = this.#open.get(number);
    assert(question !== undefined && question.left > 0, "a shard answers a question once");
    question.exists ||= bytes[start] === 1;
    if (--question.left > 0) return;
    this.#open.delete(number);
    this.#settle(question);
  }

  #settle({ schedule, moves, exists }: Question): void {
    const { schedules, scheduledMoves, onAnswer } = this.#options;
    const isThere = schedules.table.get(schedule.name) === schedule;
    if (isThere && !exists && scheduledMoves() !== moves) this.ask(schedule);
    else onAnswer(schedule, exists);
  }
}
