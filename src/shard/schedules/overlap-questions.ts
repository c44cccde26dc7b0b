// Asks the other shards whether they have jobs of a schedule with overlap=skip, before a tick puts
// one. Its jobs may have been moved there, or have died there.
//
// One round is not enough. A job that moves meanwhile may be missed by all: the shard that it goes
// to answers before it arrives, and the one that it comes from when it has left. So each shard also
// counts the schedule's jobs that arrive from the first round to the second. If no shard had one in
// the first round, and none has arrived since, there was none at the moment between the rounds. If
// one has arrived, one existed. The last answers wait for the log, as replies do: a job whose end
// could still be lost must not be followed by the next one.
//
//   AskJobs   offset  0  uint8    1 in the second round
//             offset  1  the schedule's name
//   TellJobs  offset  0  uint8    1 if there is a job
//             offset  1  uint32   how many have arrived

import { assert } from "../../base/assert.ts";
import { asciiBytes, latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Schedule } from "../../engine/schedules.ts";
import type { ReplyPort } from "../../message/response.ts";
import { TransferMessage } from "../../message/transfer.ts";
import type { Span } from "../../protocol/request.ts";

interface Question {
  readonly schedule: Schedule;
  isSecond: boolean;
  /** Shards that have not answered in this round. */
  left: number;
  exists: boolean;
  /** Jobs that have arrived on any shard from the first round to the second. */
  arrivals: number;
}

interface OverlapQuestionsOptions {
  /** The jobs of schedules on this shard. */
  readonly scheduled: Engine["scheduled"];
  readonly shard: number;
  readonly shards: number;
  /** The port to the acceptor that relays. */
  readonly port: ReplyPort;
  readonly lastRecord: () => number;
  /** Called when all have answered. */
  readonly onAnswer: (schedule: Schedule, exists: boolean) => void;
}

const NUMBERS = 2 ** 31;
const TELL_BYTES = 5;

export class OverlapQuestions {
  readonly #options: OverlapQuestionsOptions;
  /** By number. */
  readonly #open = new Map<number, Question>();
  #lastNumber = 0;

  constructor(options: OverlapQuestionsOptions) {
    this.#options = options;
  }

  ask(schedule: Schedule): void {
    const { scheduled } = this.#options;
    this.#lastNumber = (this.#lastNumber + 1) % NUMBERS;
    scheduled.watch(schedule.name);
    const arrivals = -scheduled.arrivals(schedule.name);
    const question = { schedule, isSecond: false, left: 0, exists: false, arrivals };
    this.#open.set(this.#lastNumber, question);
    this.#send(this.#lastNumber, question);
  }

  #send(number: number, question: Question): void {
    const { shard, shards, port, lastRecord } = this.#options;
    question.left = shards - 1;
    const name = asciiBytes(question.schedule.name);
    for (let other = 0; other < shards; other++) {
      if (other === shard) continue;
      port.beginCarry(TransferMessage.AskJobs, other, number, 1 + name.length, false, lastRecord());
      port.target[port.at] = question.isSecond ? 1 : 0;
      port.target.set(name, port.at + 1);
    }
  }

  /** Takes a question or an answer of another shard. */
  take(message: number, from: number, number: number, { bytes, start, end }: Span): void {
    if (message === TransferMessage.AskJobs) {
      this.#answer(from, number, latin1(bytes, start + 1, end), bytes[start] === 1);
      return;
    }
    const question = this.#open.get(number);
    assert(question !== undefined && question.left > 0, "a shard answers once in each round");
    assert(end - start === TELL_BYTES, "an answer has its bytes");
    const arrivals = new DataView(bytes.buffer, bytes.byteOffset + start).getUint32(1, true);
    question.exists ||= bytes[start] === 1;
    question.arrivals += question.isSecond ? arrivals : -arrivals;
    if (--question.left > 0) return;
    if (question.isSecond) this.#settle(number, question);
    else {
      question.isSecond = true;
      this.#send(number, question);
    }
  }

  #answer(from: number, number: number, schedule: string, isSecond: boolean): void {
    const { scheduled, port, lastRecord } = this.#options;
    if (!isSecond) scheduled.watch(schedule);
    port.beginCarry(TransferMessage.TellJobs, from, number, TELL_BYTES, isSecond, lastRecord());
    const { target, at } = port;
    target[at] = scheduled.has(schedule) ? 1 : 0;
    const arrivals = scheduled.arrivals(schedule);
    new DataView(target.buffer, target.byteOffset + at).setUint32(1, arrivals, true);
    if (isSecond) scheduled.unwatch(schedule);
  }

  #settle(number: number, { schedule, exists, arrivals: before }: Question): void {
    const { scheduled, onAnswer } = this.#options;
    this.#open.delete(number);
    const arrivals = before + scheduled.arrivals(schedule.name);
    assert(arrivals >= 0, "arrivals are counted upwards");
    scheduled.unwatch(schedule.name);
    onAnswer(schedule, exists || arrivals > 0);
  }
}
