// Tests of the question for jobs of a schedule on other shards: who answers what, and when the
// answers count.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes, Memory } from "../../../../src/base/bytes.ts";
import { Schedule, type ScheduleFacts } from "../../../../src/engine/schedules.ts";
import { ScheduledJobs } from "../../../../src/engine/state/scheduled-jobs.ts";
import type { ReplyPort } from "../../../../src/message/response.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../../../src/protocol/job-attribute.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { OverlapQuestions } from "../../../../src/shard/schedules/overlap-questions.ts";

const { AskJobs, TellJobs } = TransferMessage;

interface Message {
  readonly kind: number;
  readonly to: number;
  readonly number: number;
  readonly durable: boolean;
  readonly bytes: Uint8Array;
}

/** Shard 0 of three, its messages, and what it was told. */
class Asker {
  readonly sent: Message[] = [];
  readonly told: string[] = [];
  readonly scheduled = new ScheduledJobs();
  readonly schedule = new Schedule(1, { name: "a@b" } as ScheduleFacts);
  readonly questions: OverlapQuestions;

  constructor() {
    const { sent, scheduled } = this;
    const port = {
      target: new Uint8Array(0),
      at: 0,
      beginCarry(kind: number, to: number, number: number, length: number, durable: boolean): void {
        this.target = new Uint8Array(length);
        sent.push({ kind, to, number, durable, bytes: this.target });
      },
    };
    this.questions = new OverlapQuestions({
      ...{ scheduled, port: port as unknown as ReplyPort, shard: 0, shards: 3 },
      lastRecord: () => 7,
      onAnswer: ({ name }, exists) => this.told.push(`${name} ${exists}`),
    });
  }

  take(kind: number, from: number, number: number, bytes: Uint8Array): void {
    const body = new Span();
    body.set(bytes, 0, bytes.length);
    this.questions.take(kind, from, number, body);
  }

  /** Takes the questions that were asked: the number, and what each says. */
  asked(): [number: number, ...rest: unknown[]] {
    const asked = this.sent.splice(0);
    for (const { kind, durable } of asked) assert.deepEqual([kind, durable], [AskJobs, false]);
    return [
      asked[0]!.number,
      ...asked.map(({ to, bytes }) => [to, bytes[0], Buffer.from(bytes.subarray(1)).toString()]),
    ];
  }

  /** The others answer a round, each with whether it has a job, and its arrivals. */
  answer(number: number, ...answers: (readonly [exists: number, arrivals: number])[]): void {
    for (const [at, [exists, arrivals]] of answers.entries())
      this.take(TellJobs, at + 1, number, Uint8Array.of(exists, arrivals, 0, 0, 0));
  }

  /** A job of the schedule arrives here. */
  arrive(name = "a@b"): void {
    const { bytes, length } = metaOf(`schedule:${name}@now`);
    this.scheduled.noteArrival(bytes, length);
  }
}

function metaOf(pair: string): AttributeWriter {
  const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  writer.text(Attribute.Meta, asciiBytes(pair), 0, pair.length);
  return writer;
}

it("OverlapQuestions asks each other shard twice by name, and tells what all have answered", () => {
  const asker = new Asker();
  for (const [first, second, exists] of [
    [[0, 0], [0, 0], false],
    [[1, 0], [0, 0], true],
    [[0, 1], [0, 0], true],
    [[0, 0], [0, 1], true],
  ] as const) {
    asker.questions.ask(asker.schedule);
    const [number, ...asked] = asker.asked();
    assert.deepEqual(asked, [
      [1, 0, "a@b"],
      [2, 0, "a@b"],
    ]);
    asker.answer(number, [first[0], 5]);
    assert.equal(asker.sent.length, 0, "one hasn't answered");
    asker.take(TellJobs, 2, number, Uint8Array.of(first[1], 9, 1, 0, 0));
    assert.deepEqual(asker.asked(), [number, [1, 1, "a@b"], [2, 1, "a@b"]]);
    asker.answer(number, [second[0], 5]);
    assert.deepEqual(asker.told, [], "one hasn't answered");
    asker.take(TellJobs, 2, number, Uint8Array.of(second[1], 9, 1, 0, 0));
    assert.deepEqual(asker.told.splice(0), [`a@b ${exists}`]);
  }
});

it("OverlapQuestions tells of a job that has arrived on any shard between the rounds", () => {
  const asker = new Asker();
  for (const [others, here, exists] of [
    [[0, 1], 0, true],
    [[0, 0], 1, true],
    [[0, 0], 0, false],
  ] as const) {
    asker.questions.ask(asker.schedule);
    const [number] = asker.asked();
    asker.answer(number, [0, 3], [0, 4]);
    for (let left = here; left > 0; left--) asker.arrive();
    asker.answer(number, [0, 3 + others[0]], [0, 4 + others[1]]);
    assert.deepEqual(asker.told.splice(0), [`a@b ${exists}`]);
    asker.sent.length = 0;
  }
});

it("OverlapQuestions ends after two rounds, however many jobs of other schedules arrive", () => {
  const asker = new Asker();
  asker.questions.ask(asker.schedule);
  const [number] = asker.asked();
  for (let round = 0; round < 2; round++) {
    for (let arrivals = 0; arrivals < 1000; arrivals++) asker.arrive("other");
    asker.answer(number, [0, 0], [0, 0]);
  }
  assert.deepEqual([asker.told, asker.sent.length], [["a@b false"], 2]);
});

it("OverlapQuestions answers for its shard, in the second round when its log has what was before", () => {
  const asker = new Asker();
  const { bytes, length } = metaOf("schedule:x@now");
  asker.scheduled.add(bytes, length);
  const ask = (number: number, isSecond: number, name: string): void =>
    asker.take(AskJobs, 2, number, asciiBytes(String.fromCharCode(isSecond) + name));
  ask(8, 0, "x");
  ask(9, 0, "y");
  asker.arrive("y");
  // A schedule that was set anew asks while a question of its predecessor is open.
  ask(10, 0, "y");
  for (const number of [9, 10]) ask(number, 1, "y");
  ask(8, 1, "x");
  assert.deepEqual(
    asker.sent.map(({ kind, to, number, durable, bytes: [exists, arrivals] }) => {
      assert.deepEqual([kind, to], [TellJobs, 2]);
      return [number, durable, exists, arrivals];
    }),
    [
      [8, false, 1, 0],
      [9, false, 0, 0],
      [10, false, 0, 1],
      [9, true, 0, 1],
      [10, true, 0, 1],
      [8, true, 1, 0],
    ],
  );
});
