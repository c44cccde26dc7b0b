// Tests of the question for jobs of a schedule on other shards: who answers what, and when the
// answers count.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { Schedule, type ScheduleFacts } from "../../../../src/engine/schedules.ts";
import type { ReplyPort } from "../../../../src/message/response.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
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
  readonly jobs = new Set<string>();
  readonly schedule = new Schedule(1, { name: "a@b" } as ScheduleFacts);
  exists = true;
  moves = 0;
  readonly questions: OverlapQuestions;

  constructor() {
    const { sent, jobs } = this;
    const port = {
      target: new Uint8Array(0),
      at: 0,
      beginCarry(kind: number, to: number, number: number, length: number, durable: boolean): void {
        this.target = new Uint8Array(length);
        sent.push({ kind, to, number, durable, bytes: this.target });
      },
    };
    const schedules = { table: { get: () => (this.exists ? this.schedule : undefined) } };
    this.questions = new OverlapQuestions({
      ...{ schedules, scheduled: jobs, port: port as unknown as ReplyPort, shard: 0, shards: 3 },
      lastRecord: () => 7,
      scheduledMoves: () => this.moves,
      onAnswer: ({ name }, exists) => this.told.push(`${name} ${exists}`),
    });
  }

  take(kind: number, from: number, number: number, bytes: Uint8Array): void {
    const body = new Span();
    body.set(bytes, 0, bytes.length);
    this.questions.take(kind, from, number, body);
  }

  /** All others answer the last question. */
  answer(...jobs: number[]): void {
    const { number } = this.sent.at(-1)!;
    for (const [at, job] of jobs.entries()) this.take(TellJobs, at + 1, number, Uint8Array.of(job));
  }
}

it("OverlapQuestions asks each other shard by name, and tells what all have answered", () => {
  const asker = new Asker();
  for (const [jobs, exists] of [
    [[0, 0], false],
    [[1, 0], true],
    [[0, 1], true],
  ] as const) {
    asker.questions.ask(asker.schedule);
    const asked = asker.sent.splice(0, 2);
    assert.deepEqual(
      asked.map(({ kind, to, durable, bytes }) => [kind, to, durable, Buffer.from(bytes).toString()]),
      [1, 2].map((shard) => [AskJobs, shard, false, "a@b"]),
    );
    asker.take(TellJobs, 1, asked[0]!.number, Uint8Array.of(jobs[0]));
    assert.deepEqual(asker.told, [], "one hasn't answered");
    asker.take(TellJobs, 2, asked[0]!.number, Uint8Array.of(jobs[1]));
    assert.deepEqual(asker.told.splice(0), [`a@b ${exists}`]);
  }
});

it("OverlapQuestions answers for its shard when its log has what was before", () => {
  const asker = new Asker();
  asker.jobs.add("x");
  for (const name of ["x", "y"]) asker.take(AskJobs, 2, 9, asciiBytes(name));
  assert.deepEqual(
    asker.sent.map(({ kind, to, number, durable, bytes }) => [kind, to, number, durable, ...bytes]),
    [1, 0].map((exists) => [TellJobs, 2, 9, true, exists]),
  );
});

it("OverlapQuestions asks again if a job has moved meanwhile and nobody has one", () => {
  const asker = new Asker();
  asker.questions.ask(asker.schedule);
  asker.moves++;
  asker.answer(0, 0);
  assert.deepEqual([asker.told, asker.sent.length], [[], 4]);
  asker.answer(0, 0);
  assert.deepEqual(asker.told.splice(0), ["a@b false"]);
  asker.questions.ask(asker.schedule);
  asker.moves++;
  asker.answer(1, 0);
  assert.deepEqual(asker.told.splice(0), ["a@b true"], "it is there, wherever it goes");
  asker.questions.ask(asker.schedule);
  asker.moves++;
  asker.exists = false;
  asker.answer(0, 0);
  assert.deepEqual([asker.told, asker.sent.length], [["a@b false"], 8], "the schedule is gone");
});
