// Tests of the home of many batches: the order of its rounds, and its bound.

import assert from "node:assert/strict";
import { it } from "node:test";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { BATCHES_MAX, type BatchRow, type BatchTable } from "../../../../src/engine/state/batch-table.ts";
import { RESPONSE_HEADER_BYTES } from "../../../../src/message/response.ts";
import {
  BATCH_REPORT_BYTES,
  batchNumberOf,
  TransferMessage,
  writeBatchReport,
} from "../../../../src/message/transfer.ts";
import { BatchOutcome, BatchState } from "../../../../src/protocol/batch-facts.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { createRing, EMPTY, RingReader } from "../../../../src/ring/ring.ts";
import { BatchHomes, ROUNDS_MAX } from "../../../../src/shard/commands/batch-homes.ts";
import { ReplyPort } from "../../../../src/shard/sessions/reply-port.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const COUNTS = { keepMs: 0, openedAtMs: 0, completeAtMs: 0, allDone: 0, allFailed: 0 };

function add(batches: BatchTable, number: number, state: BatchState): BatchRow {
  return batches.assume({ number, name: `b${number}`, state, outcome: BatchOutcome.None, ...COUNTS })!;
}

it("a command doesn't wait for the rounds of all batches that want one", () => {
  const { engine } = new EngineBench();
  const ring = createRing(1 << 16);
  const port = new ReplyPort(ring);
  const reader = new RingReader(ring);
  const homes = new BatchHomes({
    ...{ engine, shard: 0, shards: 2, shardOf: () => 0, port, records: undefined },
    onSettled: () => {},
  });
  const last = 10 * ROUNDS_MAX;
  for (let number = 1; number <= last; number++) homes.ask(add(engine.batches, number, BatchState.Committed));
  homes.ask(engine.batches.of(last)!, { answer: () => {} });
  homes.step(0);
  port.publish(0);
  const told: number[] = [];
  const { buffer, byteOffset } = reader.bytes;
  for (let offset = reader.next(); offset !== EMPTY; offset = reader.next())
    told.push(batchNumberOf(new DataView(buffer, byteOffset + offset + RESPONSE_HEADER_BYTES)));
  const others = Array.from({ length: ROUNDS_MAX - 1 }, (_, index) => index + 1);
  assert.deepEqual(told, [last, ...others]);
});

it("refuses one batch too many, until another is forgotten", () => {
  const server = new HandDrivenServer(1);
  const client = server.connect(true);
  const ask = (command: string): string => {
    client.say(`${command}\r\n`);
    server.settle();
    return client.take();
  };
  assert.equal(ask("open-batch first keep=0"), "OPENED\r\n");
  const { batches } = server.shards[0]!.engine;
  for (let number = 1_000_000; batches.size < BATCHES_MAX; number++) add(batches, number, BatchState.Open);
  assert.equal(ask("open-batch more"), "OUT_OF_MEMORY\r\n");
  assert.equal(ask("open-batch b1000007"), "BATCH_EXISTS\r\n");
  assert.equal(ask("commit-batch first"), "COMMITTED\r\n");
  assert.equal(ask("open-batch more"), "OPENED\r\n");
  assert.equal(ask("open-batch first"), "OUT_OF_MEMORY\r\n");
});

it("counts after a start what ended on shards that the server no longer has", () => {
  const LOGGED_SHARDS = 4;
  for (let shards = 1; shards <= LOGGED_SHARDS + 1; shards++) {
    const { engine } = new EngineBench();
    const port = new ReplyPort(createRing(1 << 16));
    const homes = new BatchHomes({
      ...{ engine, shard: 0, shards, shardOf: () => 0, port, records: undefined },
      onSettled: () => {},
    });
    const facts = { ...COUNTS, number: 1, name: "b", state: BatchState.Open, outcome: BatchOutcome.None };
    // Each shard has a digit of its own in the sum.
    const tallies = Array.from({ length: LOGGED_SHARDS }, (_, shard) => ({
      ...{ number: 1, shard, done: 10 ** shard, failed: 2 * 10 ** shard },
    }));
    homes.restore([{ facts, tallies }], 0, Number.POSITIVE_INFINITY);
    const { done, failed, formerDone, formerFailed } = engine.batches.of(1)!;
    const former = tallies.slice(shards).reduce((sum, tally) => sum + tally.done, 0);
    assert.deepEqual(
      [done, failed, formerDone, formerFailed],
      [1, 2, former, 2 * former],
      `${shards} shards`,
    );
  }
});

it("answers whoever asks about a batch while that is forgotten", () => {
  const { engine } = new EngineBench();
  const settled: number[] = [];
  const homes = new BatchHomes({
    ...{ engine, shard: 0, shards: 2, shardOf: () => 0, port: new ReplyPort(createRing(1 << 16)) },
    ...{ records: undefined, onSettled: (number: number) => void settled.push(number) },
  });
  const batch = add(engine.batches, 1, BatchState.Complete);
  const report = new DataView(new ArrayBuffer(BATCH_REPORT_BYTES));
  writeBatchReport(report, 1);
  const span = new Span();
  span.set(new Uint8Array(report.buffer), 0, BATCH_REPORT_BYTES);
  const answers: unknown[] = [];
  homes.ask(batch);
  for (let rounds = 1; engine.batches.of(1) !== undefined; rounds++) {
    assert.ok(rounds <= 3, "the second quiet round is enough");
    homes.step(1);
    homes.ask(batch, { answer: (counts) => void answers.push(counts === undefined ? rounds : "counts") });
    homes.take(TransferMessage.BatchReport, 1, span, 1);
  }
  // The first one gets what the second round has counted.
  assert.deepEqual(answers, [2, "counts"]);
  assert.deepEqual(settled, [1, 1]);
});

it("tells all shards of the end of batches, however many end at once", () => {
  const server = new HandDrivenServer(2);
  const clients = Array.from({ length: 3 * ROUNDS_MAX }, () => server.connect(true));
  const ask = (command: (batch: string) => string): string[] => {
    for (const [n, client] of clients.entries()) client.say(`${command(tubeOn(0, 2, `b${n}-`))}\r\n`);
    server.settle();
    return clients.map((client) => client.take());
  };
  ask((batch) => `open-batch ${batch}`);
  const [home, other] = server.shards;
  ask((batch) => `put-in-tube ${tubeOn(1, 2)} 0 0 60 1 after=${batch}\r\nx`);
  assert.equal(other!.engine.jobCounts[JobState.Delayed], clients.length);
  assert.deepEqual(new Set(ask((batch) => `commit-batch ${batch}`)), new Set(["COMMITTED\r\n"]));
  assert.equal(home!.engine.batches.counts.inState[BatchState.Complete], clients.length);
  assert.equal(other!.engine.jobCounts[JobState.Ready], clients.length);
});

it("forgets after a start the batches that were complete before, when their time is over", () => {
  const { engine } = new EngineBench();
  const port = new ReplyPort(createRing(1 << 16));
  const homes = new BatchHomes({
    ...{ engine, shard: 0, shards: 1, shardOf: () => 0, port, records: undefined },
    onSettled: () => {},
  });
  const times = { keepMs: 5000, completeAtMs: 2_000_000 };
  const facts = { ...COUNTS, ...times, number: 1, name: "b" };
  const complete = { ...facts, state: BatchState.Complete, outcome: BatchOutcome.Success };
  homes.restore([{ facts: complete, tallies: [] }], 1_999_000, Number.POSITIVE_INFINITY);
  const step = (nowMs: number): void => {
    for (let rounds = 0; rounds < 3; rounds++) homes.step(nowMs);
  };
  step(5999);
  assert.ok(engine.batches.named("b") !== undefined);
  assert.equal(engine.batches.timers.nextAtMs, 6000);
  step(6000);
  assert.equal(engine.batches.named("b"), undefined);
});

it("knows the oldest batch after a start, whatever the numbers say", () => {
  const { engine } = new EngineBench();
  const port = new ReplyPort(createRing(1 << 16));
  const homes = new BatchHomes({
    ...{ engine, shard: 0, shards: 1, shardOf: () => 0, port, records: undefined },
    onSettled: () => {},
  });
  const logged = [2000, 1000, 3000].map((openedAtMs, index) => {
    const number = index + 1;
    const facts = { ...COUNTS, number, name: `b${number}`, state: BatchState.Open, openedAtMs };
    return { facts: { ...facts, outcome: BatchOutcome.None }, tallies: [] };
  });
  homes.restore(logged, 0, 5000);
  assert.equal(engine.batches.counts.openSinceMs, 1000);
  assert.deepEqual(
    [...engine.batches.counts.unfinished].map(({ number }) => number),
    [2, 1, 3],
  );
});
