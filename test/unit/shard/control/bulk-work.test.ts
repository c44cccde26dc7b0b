// Tests of a bulk operation: how many jobs it changes in a turn and in all, here and on other
// shards, and when a turn ends early.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { Outcome } from "../../../../src/engine/jobs/ends.ts";
import { JobState, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import type { Travel } from "../../../../src/engine/transfers.ts";
import type { BulkPart, BulkQuestion } from "../../../../src/message/control.ts";
import { TRANSFER_JOBS_MAX } from "../../../../src/message/transfer.ts";
import { BulkWork } from "../../../../src/shard/control/bulk-work.ts";
import type { ControlAnswerer } from "../../../../src/shard/control/control-work.ts";
import {
  type Sender,
  Transfer,
  type TransferSender,
} from "../../../../src/shard/transfer/transfer-sender.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

const TURN_JOBS_MAX = 500;
const JOBS_PER_CLOCK_READING = 25;
const SLICE_MS = 0.5;

interface Scene {
  readonly engine: Engine;
  readonly step: () => BulkPart & { readonly isLast: boolean };
  readonly work: BulkWork;
  /** Lets the transfers under way land, with so many jobs refused. */
  readonly land: (refused?: number) => void;
}

/** A question about a tube with so many buried jobs. `far` is a tube on another shard. */
function scene(jobs: number, question: Partial<BulkQuestion>, clock: () => number = () => 0): Scene {
  const engine = new Engine({
    ...{ effects: unheardEffects(), ownsDefaultTube: true, ownsTube: (name: string) => name !== "far" },
  });
  const session = engine.session(0);
  for (let id = 1; id <= jobs; id++) {
    const times = { delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, atMs: 0 };
    engine.put(session, { id, pri: 1, bodyBytes: 0, ...times }, EMPTY_BODY, 0, "a");
    engine.reserveJob(session, id, 0);
    engine.bury(session, id, 1, 0);
  }
  const sent: Transfer[] = [];
  let last = 0;
  const sender: Partial<TransferSender> = {
    begin: (tube: string, travel: Travel, by: Sender) => new Transfer(++last, tube, travel, by),
    hasRoom: () => true,
    add: (transfer: Transfer, slot: number, nowMs: number) => {
      transfer.ids.push(engine.jobs.pageOf(slot).id[rowOf(slot)]!);
      transfer.bytes++;
      engine.transfers.depart(slot, transfer.number, nowMs);
    },
    send: (transfer: Transfer) => void sent.push(transfer),
  };
  const shard = {
    ...{ engine, records: undefined, nowMs: 0, clock, portCount: 1, leaseSession: 1, ownsTube: () => true },
  };
  const work = new BulkWork(shard, sender as TransferSender, {
    ...{ tube: "a", act: "kick", states: ["buried"], where: {}, max: 1e9 },
    ...question,
  });
  const step: Scene["step"] = () => {
    let part: ReturnType<Scene["step"]> | undefined;
    const value = (answer: unknown, isLast: boolean): void =>
      void (part = { ...(answer as BulkPart), isLast });
    const isDone = work.step({ value } as Partial<ControlAnswerer> as ControlAnswerer);
    assert.equal(part!.isLast, isDone);
    return part!;
  };
  const land = (refused = 0): void => {
    for (const transfer of sent.splice(0)) {
      const taken = transfer.ids.length - refused;
      for (const [index, id] of transfer.ids.entries()) {
        if (index < taken) engine.transfers.departed(id, transfer.number, 0);
        else engine.transfers.stay(id, transfer.number, 0);
      }
      transfer.sender.landed(transfer, taken, refused === 0 ? Outcome.Done : Outcome.TubeFull);
    }
  };
  return { engine, work, step, land };
}

describe("a turn", () => {
  const sizes = [1, TURN_JOBS_MAX - 1, TURN_JOBS_MAX, TURN_JOBS_MAX + 1, 2 * TURN_JOBS_MAX + 1];
  for (const jobs of sizes)
    it(`changes at most ${TURN_JOBS_MAX} jobs, of ${jobs}`, () => {
      const { engine, step } = scene(jobs, {});
      for (let turn = 1; ; turn++) {
        const { affected, isLast, progress } = step();
        assert.equal(affected, Math.min(jobs, turn * TURN_JOBS_MAX));
        assert.equal(engine.jobCounts[JobState.Ready], affected);
        if (isLast) break;
        assert.ok(progress < 1 || affected === jobs);
      }
      assert.equal(engine.jobCounts[JobState.Ready], jobs);
    });

  for (const [readings, turns] of [
    // The first reading is that of its beginning.
    [[0, 0, SLICE_MS], 1],
    [[0, 0, SLICE_MS - 0.01, SLICE_MS], 2],
    [[0, 0, 0.1, 0.2, 0.3, SLICE_MS + 1], 4],
    [[0, SLICE_MS], 0],
  ] as const)
    it(`ends when its time is over, at the reading after ${turns * JOBS_PER_CLOCK_READING} jobs`, () => {
      const left: number[] = [...readings];
      const { step } = scene(TURN_JOBS_MAX, {}, () => left.shift()!);
      assert.equal(step().affected, turns * JOBS_PER_CLOCK_READING);
      assert.deepEqual(left, []);
    });
});

describe("the most that may change", () => {
  for (const [act, to] of [
    ["kick", undefined],
    ["delete", undefined],
    ["count", undefined],
    ["move", "b"],
    ["move", "far"],
  ] as const)
    for (const max of [1, 9, 10, 11, 21])
      it(`is ${max} of 10, ${act} ${to ?? ""}`, () => {
        const { engine, step, land } = scene(10, {
          act,
          to,
          max,
          ...(act === "count" ? { of: "kick" } : {}),
        });
        let part = step();
        for (let turns = 0; !part.isLast; turns++) {
          assert.ok(turns < 3, "it ends");
          land();
          part = step();
        }
        const changed = Math.min(max, 10);
        assert.deepEqual([part.affected, part.progress, part.refusal], [changed, 1, undefined]);
        const left = act === "count" ? 10 : 10 - changed;
        const tube = engine.findTube("a");
        assert.equal(tube?.buriedJobs ?? 0, left);
      });
});

describe("jobs that move to another shard", () => {
  for (const jobs of [1, TRANSFER_JOBS_MAX - 1, TRANSFER_JOBS_MAX, TRANSFER_JOBS_MAX + 1])
    it(`count when they have arrived, a round at a time, of ${jobs}`, () => {
      const { engine, work, step, land } = scene(jobs, { act: "move", to: "far" });
      for (let round = 1; ; round++) {
        const { affected, isLast } = step();
        if (isLast) break;
        assert.equal(affected, Math.min(jobs, (round - 1) * TRANSFER_JOBS_MAX), "none before it has arrived");
        assert.ok(work.isWaiting);
        assert.equal(step().affected, affected, "nothing more is sent meanwhile");
        land();
        assert.equal(work.isWaiting, false);
        assert.equal(engine.jobs.live, Math.max(0, jobs - round * TRANSFER_JOBS_MAX));
      }
      assert.equal(engine.jobs.live, 0);
    });

  it("stay if they are refused, and end it", () => {
    const { engine, step, land } = scene(2 * TRANSFER_JOBS_MAX, { act: "move", to: "far" });
    assert.equal(step().isLast, false);
    land(3);
    const { isLast, affected, refusal } = step();
    assert.deepEqual([isLast, affected, refusal], [true, TRANSFER_JOBS_MAX - 3, "TUBE_FULL"]);
    assert.equal(engine.findTube("a")!.buriedJobs, TRANSFER_JOBS_MAX + 3);
  });

  it("are waited for when it is cancelled, and no others", () => {
    const { engine, work, step, land } = scene(2 * TRANSFER_JOBS_MAX, { act: "move", to: "far" });
    assert.equal(step().isLast, false);
    work.cancel();
    assert.deepEqual([step().isLast, work.isWaiting], [false, true]);
    land();
    const { isLast, affected, refusal } = step();
    assert.deepEqual([isLast, affected, refusal], [true, TRANSFER_JOBS_MAX, undefined]);
    assert.equal(engine.jobs.live, TRANSFER_JOBS_MAX);
  });
});

describe("a range of ids", () => {
  for (const [idFrom, idTo, changed] of [
    [undefined, undefined, 10],
    [0, 0, 0],
    [0, 1, 1],
    [1, 9, 9],
    [2, 10, 9],
    [10, 21, 1],
    [11, 21, 0],
    [5, 5, 1],
    [5, 4, 0],
  ] as const)
    it(`${idFrom} to ${idTo} has ${changed} of 10 jobs`, () => {
      const where = { ...(idFrom === undefined ? {} : { idFrom }), ...(idTo === undefined ? {} : { idTo }) };
      const { engine, step } = scene(10, { where });
      const { affected, isLast, progress } = step();
      assert.deepEqual([affected, isLast, progress], [changed, true, 1]);
      assert.equal(engine.jobCounts[JobState.Ready], changed);
    });
});
