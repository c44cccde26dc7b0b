// Tests of a round of jobs on their way to other shards: which transfers it makes of them, when it
// is full, and what becomes of it when they land.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Outcome } from "../../../../src/engine/jobs/ends.ts";
import { Travel } from "../../../../src/engine/transfers.ts";
import { TRANSFER_BYTES_MAX, TRANSFER_JOBS_MAX } from "../../../../src/message/transfer.ts";
import { FarMove } from "../../../../src/shard/transfer/far-moves.ts";
import {
  type Sender,
  Transfer,
  type TransferSender,
} from "../../../../src/shard/transfer/transfer-sender.ts";

/** A sender whose jobs have the same size, and whose transfers have room for so many of them. */
function scene(jobBytes: number, room: number) {
  const sent: Transfer[] = [];
  let last = 0;
  const fake: Partial<TransferSender> = {
    begin: (tube: string, travel: Travel, sender: Sender) => new Transfer(++last, tube, travel, sender),
    hasRoom: ({ ids }: Transfer) => ids.length < room,
    add: (transfer: Transfer, slot: number) => {
      transfer.ids.push(slot);
      transfer.bytes += jobBytes;
    },
    send: (transfer: Transfer) => void sent.push(transfer),
  };
  const round = new FarMove(fake as TransferSender, Travel.Move);
  const take = (): string[] => sent.splice(0).map(({ tube, ids }) => `${tube} ${ids.join(" ")}`);
  return { round, sent, take };
}

it("a round makes one transfer for each tube, and another one when that is full", () => {
  const { round, take } = scene(10, 2);
  for (const [slot, tube] of ["a", "b", "a", "a", "b", "a", "a"].entries()) round.send(slot, tube, false, 0);
  assert.deepEqual(take(), ["a 0 2", "a 3 5"], "those that are full");
  assert.deepEqual([round.underWay, round.isFull], [7, false]);
  round.sendAll();
  assert.deepEqual(take().sort(), ["a 6", "b 1 4"]);
  assert.ok(round.isFull, "it takes no more until all have landed");
});

it("a round is full with as many jobs or bytes as one transfer may have", () => {
  for (const [jobBytes, jobs] of [
    [1, TRANSFER_JOBS_MAX],
    [TRANSFER_BYTES_MAX / 4, 4],
    [TRANSFER_BYTES_MAX / 4 + 1, 4],
    [TRANSFER_BYTES_MAX, 1],
  ] as const) {
    const { round, sent } = scene(jobBytes, Number.POSITIVE_INFINITY);
    // The bytes of a round begin at 0 again with the next one.
    for (let each = 1; each <= 3; each++) {
      for (let job = 1; job <= jobs; job++) {
        assert.ok(!round.isFull, `round ${each}, ${job - 1} of ${jobs} jobs`);
        round.send(job, "a", false, 0);
      }
      assert.ok(round.isFull, `round ${each} of ${jobs} jobs`);
      round.sendAll();
      round.landed(sent.pop()!, jobs, Outcome.Done);
      assert.deepEqual([round.underWay, round.moved, round.awaitedJob], [0, each * jobs, undefined]);
    }
  }
});

it("a round keeps the first refusal, whatever lands later", () => {
  const { round, sent } = scene(10, 1);
  for (const slot of [1, 2, 3, 4]) round.send(slot, "a", false, 0);
  round.sendAll();
  const [first, second, third, fourth] = sent as [Transfer, Transfer, Transfer, Transfer];
  assert.equal(round.awaitedJob, 1);
  round.landed(second, 1, Outcome.Done);
  assert.ok(!round.refused);
  round.landed(first, 0, Outcome.NoRoom);
  round.landed(third, 1, Outcome.Done);
  assert.deepEqual([round.refused, round.refusal, round.awaitedJob], [true, Outcome.NoRoom, 4]);
  round.landed(fourth, 0, Outcome.TubeFull);
  assert.deepEqual([round.refusal, round.moved, round.underWay], [Outcome.NoRoom, 2, 0]);
});
