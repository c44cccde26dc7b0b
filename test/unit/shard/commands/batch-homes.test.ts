// Tests of the home of many batches: the order of its rounds, and its bound.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { BATCHES_MAX, type BatchRow, type BatchTable } from "../../../../src/engine/state/batch-table.ts";
import { RESPONSE_HEADER_BYTES, ReplyPort } from "../../../../src/message/response.ts";
import {
  BATCH_REPORT_BYTES,
  batchNumberOf,
  TransferMessage,
  writeBatchReport,
} from "../../../../src/message/transfer.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { createRing, EMPTY, RingReader } from "../../../../src/ring/ring.ts";
import {
  type BatchCounts,
  BatchOutcome,
  BatchState,
  emptyBatchCounts,
} from "../../../../src/schema/batch.ts";
import {
  BatchHomes,
  type BatchHomesOptions,
  ROUNDS_MAX,
} from "../../../../src/shard/commands/batch-homes.ts";
import type { RecordLog } from "../../../../src/shard/records/record-log.ts";
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

// Tests of the rounds of a batch's home: how many begin in a turn, what completes a batch and with
// which outcome, what keeps a complete one, and the counts of all that.

describe("batch rounds", () => {
  /** Batches that become due, and rounds that begin, in one turn. */
  const TURN_BATCHES = 100;
  const KEEP_MS = 60_000;

  interface Home {
    readonly engine: Engine;
    readonly homes: BatchHomes;
    /** Returns the numbers of the batches that the other shards were told of. */
    readonly told: () => number[];
    /** The other one of two shards reports these counts. */
    readonly report: (number: number, counts: Partial<BatchCounts>, nowMs: number) => void;
  }

  /** The home of all batches, on the first of so many shards. */
  function home(shards: number, options: Partial<BatchHomesOptions> = {}): Home {
    const { engine } = new EngineBench();
    const ring = createRing(1 << 18);
    const port = new ReplyPort(ring);
    const reader = new RingReader(ring);
    const homes = new BatchHomes({
      ...{ engine, shard: 0, shards, shardOf: () => 0, port, records: undefined, onSettled: () => {} },
      ...options,
    });
    const told = (): number[] => {
      port.publish(0);
      const numbers: number[] = [];
      const { buffer, byteOffset } = reader.bytes;
      for (let offset = reader.next(); offset !== EMPTY; offset = reader.next())
        numbers.push(batchNumberOf(new DataView(buffer, byteOffset + offset + RESPONSE_HEADER_BYTES)));
      reader.release();
      return numbers;
    };
    const report = (number: number, counts: Partial<BatchCounts>, nowMs: number): void => {
      const view = new DataView(new ArrayBuffer(BATCH_REPORT_BYTES));
      writeBatchReport(view, number, { ...emptyBatchCounts(), ...counts });
      const span = new Span();
      span.set(new Uint8Array(view.buffer), 0, BATCH_REPORT_BYTES);
      homes.take(TransferMessage.BatchReport, 1, span, nowMs);
    };
    return { engine, homes, told, report };
  }

  function add({ engine }: Home, number: number, state: BatchState, keepMs = KEEP_MS): BatchRow {
    const counts = { openedAtMs: 0, completeAtMs: 0, allDone: 0, allFailed: 0 };
    const outcome = BatchOutcome.None;
    return engine.batches.assume({ ...counts, number, name: `b${number}`, state, outcome, keepMs })!;
  }

  describe("in one turn", () => {
    for (const batches of [1, TURN_BATCHES - 1, TURN_BATCHES, TURN_BATCHES + 1, 2 * TURN_BATCHES + 1]) {
      it(`at most ${TURN_BATCHES} rounds begin, of ${batches} batches that end`, () => {
        const scene = home(1);
        for (let number = 1; number <= batches; number++)
          scene.homes.ask(add(scene, number, BatchState.Committed));
        // The first round of a batch may have missed a member, the second one completes it.
        for (let turn = 1; scene.engine.batches.counts.inState[BatchState.Complete]! < batches; turn++) {
          scene.homes.step(0);
          const complete = Math.min(batches, Math.max(0, turn * TURN_BATCHES - batches));
          assert.equal(scene.engine.batches.counts.inState[BatchState.Complete], complete, `turn ${turn}`);
        }
      });

      it(`at most ${TURN_BATCHES} become due, of ${batches} complete ones`, () => {
        // Another shard doesn't report, so that what is due is only noted.
        const scene = home(2);
        const rows: BatchRow[] = [];
        for (let number = 1; number <= batches; number++) {
          const batch = add(scene, number, BatchState.Complete, 1);
          scene.engine.batches.timers.set(batch.timer, 1 + number);
          rows.push(batch);
        }
        scene.homes.step(1);
        assert.ok(
          rows.every(({ timer }) => timer.atMs < Number.POSITIVE_INFINITY),
          "none is due",
        );
        for (let turn = 1; turn <= 4; turn++) {
          scene.homes.step(1 + batches);
          const left = rows.filter(({ timer }) => timer.atMs < Number.POSITIVE_INFINITY).length;
          assert.equal(left, Math.max(0, batches - turn * TURN_BATCHES), `turn ${turn}`);
        }
      });
    }
  });

  it("a command that asks during a round has the next one, before the batches that want one", () => {
    const scene = home(2);
    const { homes, engine } = scene;
    const last = 10 * ROUNDS_MAX;
    for (let number = 1; number <= last; number++) homes.ask(add(scene, number, BatchState.Committed));
    const answers: string[] = [];
    const ask = (name: string): void =>
      homes.ask(engine.batches.of(last)!, { answer: () => void answers.push(name) });
    const others = Array.from({ length: ROUNDS_MAX - 1 }, (_, index) => index + 1);
    ask("first");
    homes.step(0);
    assert.deepEqual(scene.told(), [last, ...others]);
    ask("second");
    ask("third");
    scene.report(last, { open: 1 }, 0);
    assert.deepEqual(answers, ["first"], "the others may have missed what was before them");
    homes.step(0);
    assert.deepEqual(scene.told(), [last]);
    scene.report(last, { open: 1 }, 0);
    assert.deepEqual(answers, ["first", "second", "third"]);
    homes.step(0);
    assert.deepEqual(scene.told(), [ROUNDS_MAX], "then it is the turn of another");
  });

  describe("the outcome of a batch", () => {
    const { None, Success, Failure, Cancelled } = BatchOutcome;
    for (const [what, state, counts, outcome] of [
      ["without members", BatchState.Committed, {}, Success],
      ["whose members are done", BatchState.Committed, { done: 2 }, Success],
      ["with a member that failed", BatchState.Committed, { done: 2, failed: 1 }, Failure],
      ["with a member that is dead", BatchState.Committed, { done: 2, dead: 1 }, Failure],
      ["with one that failed and two dead ones", BatchState.Committed, { failed: 1, dead: 2 }, Failure],
      ["that is cancelled", BatchState.Cancelled, { done: 3 }, Cancelled],
      ["that is cancelled with a dead member", BatchState.Cancelled, { done: 3, dead: 1 }, Cancelled],
    ] as const)
      for (const place of ["here", "on the other shard"])
        it(`${what}, ${place}`, () => {
          const scene = home(2);
          const { homes, engine } = scene;
          const batch = add(scene, 1, state);
          const [own, reported] = place === "here" ? [counts, {}] : [{}, counts];
          Object.assign(batch, own);
          homes.ask(batch);
          const expected = [0, 0, 0, 0];
          for (let round = 1; round <= 3; round++) {
            homes.step(round);
            scene.report(1, reported, round);
            if (round === 2) expected[outcome]!++;
            const known = round === 1 ? [state, None] : [BatchState.Complete, outcome];
            assert.deepEqual([batch.state, batch.outcome], known);
            assert.deepEqual(engine.batches.counts.completed.slice(0, 4), expected, "each is counted once");
          }
          const { done, failed, dead } = { ...emptyBatchCounts(), ...counts };
          assert.deepEqual([batch.allDone, batch.allFailed, batch.completeAtMs], [done, failed + dead, 2]);
          assert.equal(engine.batches.timers.nextAtMs, 2 + KEEP_MS);
        });
  });

  describe("a complete batch whose time is over", () => {
    for (const [what, counts] of [
      ["a job waits for it", { waitingJobs: 1 }],
      ["a job of it is between two shards", { moving: 1 }],
      ["several are", { waitingJobs: 2, moving: 3 }],
    ] as const)
      it(`stays while ${what}, and is asked about again each second`, () => {
        const scene = home(2);
        const { homes, engine } = scene;
        const { timers } = engine.batches;
        const batch = add(scene, 1, BatchState.Complete, 0);
        timers.set(batch.timer, 0);
        for (let second = 0; second < 3; second++) {
          const nowMs = 1000 * second;
          homes.step(nowMs);
          assert.deepEqual(scene.told(), [1]);
          assert.equal(timers.nextAtMs, Number.POSITIVE_INFINITY);
          scene.report(1, counts, nowMs);
          assert.equal(timers.nextAtMs, nowMs + 1000);
          homes.step(nowMs + 999);
          assert.deepEqual(scene.told(), [], "it is not asked about before");
        }
        for (let round = 1; round <= 2; round++) {
          assert.ok(engine.batches.of(1) !== undefined);
          homes.step(3000);
          assert.deepEqual(scene.told(), [1]);
          scene.report(1, {}, 3000);
        }
        assert.equal(engine.batches.of(1), undefined);
        assert.deepEqual([scene.told(), timers.nextAtMs], [[1], Number.POSITIVE_INFINITY], "all are told");
      });
  });

  it("batches that are opened are counted, and those that are refused leave nothing", () => {
    let room = true;
    const records = { openBatch: () => room, lastNumber: 0 } as Partial<RecordLog> as RecordLog;
    const { engine, homes } = home(1, { records });
    const { batches, bodies } = engine;
    const refusals: [string, (refuses: boolean) => void][] = [
      ["the log has no room", (refuses) => void (room = !refuses)],
      ["the memory limit is reached", (refuses) => void (bodies.limit = { allows: !refuses })],
    ];
    let number = 0;
    for (const [why, refuse] of refusals) {
      refuse(true);
      assert.equal(homes.open(`b${number + 1}`, number + 1, 0, 5), undefined, why);
      assert.deepEqual([batches.size, batches.counts.opened, homes.hasNews], [number, number, false], why);
      refuse(false);
      number++;
      assert.equal(homes.open(`b${number}`, number, 0, 5)?.openedAtMs, 5);
      assert.deepEqual([batches.size, batches.counts.opened], [number, number]);
    }
  });
});

// Tests of a commit by one client while another client's `open-batch` is on its way to all shards.

it("commits a batch that not all shards know yet", () => {
  const server = new HandDrivenServer(4);
  const [opener, other] = [server.connect(true), server.connect(true)];
  opener.say("open-batch nightly\r\n");
  other.say("commit-batch nightly\r\n");
  server.settle();
  assert.equal(opener.take(), "OPENED\r\n");
  assert.equal(other.take(), "COMMITTED\r\n");
  other.say("inspect-batch nightly\r\n");
  server.settle();
  assert.match(other.take(), /^state: complete$/m);
  opener.say("put-in-tube late 0 0 60 1 batch=nightly\r\nx\r\n");
  server.settle();
  assert.match(opener.take(), /^BATCH_C/);
});
