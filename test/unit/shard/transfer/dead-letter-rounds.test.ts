// Tests of the rounds in which dead jobs leave for other shards: how many a turn looks at and a
// round takes, and what is left for later.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { Outcome } from "../../../../src/engine/jobs/ends.ts";
import type { Travel } from "../../../../src/engine/transfers.ts";
import { TRANSFER_JOBS_MAX } from "../../../../src/message/transfer.ts";
import { DeadLetters } from "../../../../src/shard/transfer/far-moves.ts";
import {
  type Sender,
  Transfer,
  type TransferSender,
} from "../../../../src/shard/transfer/transfer-sender.ts";

/** An engine whose dead jobs leave, and a sender that keeps their transfers. */
class Scene {
  readonly letters: DeadLetters;
  /** Ids of jobs that needn't leave any more. */
  readonly stale: Set<number> = new Set();
  looks = 0;
  readonly #sent: Transfer[] = [];
  #leaving: number[] = [];
  #last = 0;

  constructor() {
    const scene = this;
    const deaths = {
      get someLeave(): boolean {
        return scene.#leaving.length > 0;
      },
      takeLeaving: () => this.#leaving.splice(0),
    };
    const engine = {
      policies: { deaths },
      transfers: {
        leavesFor: (id: number) => {
          this.looks++;
          return this.stale.has(id) ? "" : "dead";
        },
      },
      find: (id: number) => id,
    };
    const sender: Partial<TransferSender> = {
      begin: (tube: string, travel: Travel, by: Sender) => new Transfer(++this.#last, tube, travel, by),
      hasRoom: () => true,
      add: (transfer: Transfer, slot: number) => {
        transfer.ids.push(slot);
        transfer.bytes++;
      },
      send: (transfer: Transfer) => void this.#sent.push(transfer),
    };
    this.letters = new DeadLetters(engine as unknown as Engine, sender as TransferSender);
  }

  /** So many more jobs die, with ids from `from` on. */
  die(from: number, count: number): void {
    for (let id = from; id < from + count; id++) this.#leaving.push(id);
  }

  /** The ids under way, which arrive. */
  land(): number[] {
    return this.#sent.splice(0).flatMap((transfer) => {
      transfer.sender.landed(transfer, transfer.ids.length, Outcome.Done);
      return transfer.ids;
    });
  }
}

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, n) => from + n);
const SIZES = [1, TRANSFER_JOBS_MAX - 1, TRANSFER_JOBS_MAX, TRANSFER_JOBS_MAX + 1, 2 * TRANSFER_JOBS_MAX + 1];

describe("a round", () => {
  for (const jobs of SIZES)
    it(`takes at most ${TRANSFER_JOBS_MAX} jobs, of ${jobs}; the next one waits until they have landed`, () => {
      const scene = new Scene();
      const { letters } = scene;
      assert.equal(letters.hasWork, false);
      scene.die(1, jobs);
      for (let at = 0; at < jobs; at += TRANSFER_JOBS_MAX) {
        assert.equal(letters.hasWork, true);
        letters.step(0);
        const count = Math.min(TRANSFER_JOBS_MAX, jobs - at);
        const isLeft = at + count < jobs;
        assert.deepEqual([letters.isUnderWay, letters.hasWork], [isLeft, false]);
        letters.step(0);
        assert.equal(scene.looks, at + count, "nothing more is sent meanwhile");
        assert.deepEqual(scene.land(), range(1 + at, count));
        assert.deepEqual([letters.isUnderWay, letters.hasWork], [isLeft, isLeft]);
      }
    });

  it("takes those that die later after those of before, in the same round if it has room", () => {
    const scene = new Scene();
    const { letters } = scene;
    scene.die(1, TRANSFER_JOBS_MAX + 1);
    letters.step(0);
    scene.die(1001, 2);
    assert.deepEqual([letters.isUnderWay, letters.hasWork], [true, false]);
    assert.equal(scene.land().length, TRANSFER_JOBS_MAX);
    letters.step(0);
    assert.deepEqual([letters.isUnderWay, scene.land()], [false, [TRANSFER_JOBS_MAX + 1, 1001, 1002]]);
    assert.equal(letters.hasWork, false);
  });
});

describe("a turn looks at", () => {
  for (const jobs of SIZES)
    it(`at most ${TRANSFER_JOBS_MAX} jobs that stay, of ${jobs}`, () => {
      const scene = new Scene();
      const { letters, stale } = scene;
      for (const id of range(1, jobs)) stale.add(id);
      scene.die(1, jobs + 1);
      for (let turn = 1; letters.hasWork; turn++) {
        letters.step(0);
        const looks = Math.min(jobs + 1, turn * TRANSFER_JOBS_MAX);
        assert.deepEqual([scene.looks, letters.isUnderWay], [looks, looks <= jobs]);
      }
      assert.deepEqual(scene.land(), [jobs + 1]);
      assert.deepEqual([letters.isUnderWay, letters.hasWork], [false, false]);
    });
});
