// Tests of leases: which one still holds its job, what each change does to that, and that all
// others change nothing.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JobState, NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import type { Session } from "../../../../src/engine/state/session.ts";
import type { LeaseChange, LeaseOutcome } from "../../../../src/message/control.ts";
import { JobCounter } from "../../../../src/schema/job.ts";
import type { ControlShard } from "../../../../src/shard/control/control-work.ts";
import { changeLease, giveBackLease } from "../../../../src/shard/control/leases.ts";
import { snapshotOf } from "../../../support/in-process/engine-snapshot.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const LEASES = 31;
const TTR_MS = 60_000;

class LeaseBench extends EngineBench {
  readonly client: Session = this.session(0, "a", "a");
  readonly holder: Session = this.session(LEASES, "a", "a");
  readonly id: number = this.put(this.client, { pri: 7 });

  get shard(): ControlShard {
    const { engine, nowMs } = this;
    const nothing = { records: undefined, clock: () => 0, portCount: 1, ownsTube: () => true };
    return { engine, nowMs, leaseSession: LEASES, ...nothing };
  }

  /** State, priority and counts of the job; undefined if it is gone. */
  get job(): unknown {
    const slot = this.engine.find(this.id);
    if (slot === NO_SLOT) return undefined;
    const page = this.engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { reserves, releases, buries } = JobCounter;
    return [page.state[row], page.pri[row], ...[reserves, releases, buries].map((at) => page.count(row, at))];
  }
}

/** All that may be done with a lease. */
const ACTS: Record<string, (bench: LeaseBench, id: number, reserves: number) => LeaseOutcome> = {
  "give back": (bench, id, reserves) => giveBackLease(bench.shard, LEASES, id, reserves),
};
for (const act of ["delete", "release", "bury", "touch"] as const)
  for (const rest of [{}, { pri: 3, delay: 0 }] as Partial<LeaseChange>[])
    ACTS[`${act} ${JSON.stringify(rest)}`] = (bench, id, reserves) =>
      changeLease(bench.shard, LEASES, { act, id, reserves, ...rest });

for (const [name, act] of Object.entries(ACTS))
  describe(name, () => {
    const refused = (bench: LeaseBench, id: number, reserves: number): void => {
      bench.engine.runDue(bench.nowMs);
      const before = snapshotOf(bench.engine);
      assert.equal(act(bench, id, reserves), false);
      assert.deepEqual(snapshotOf(bench.engine), before);
      bench.check();
    };

    it("has an effect only with the job's own count of reserves, also the second time", () => {
      const bench = new LeaseBench();
      for (let round = 1; round <= 3; round++) {
        assert.equal(bench.reserveJob(bench.holder, bench.id), "done");
        for (const reserves of [0, round - 1, round + 1, 2 * round + 1]) refused(bench, bench.id, reserves);
        for (const id of [0, bench.id + 1, 2 * bench.id + 1]) refused(bench, id, round);
        assert.equal(bench.release(bench.holder, bench.id, 7), "done");
        refused(bench, bench.id, round);
      }
      assert.equal(bench.reserveJob(bench.holder, bench.id), "done");
      assert.equal(act(bench, bench.id, 4), true);
      bench.check();
    });

    it("has none on a job that a client holds, or nobody does", () => {
      const bench = new LeaseBench();
      refused(bench, bench.id, 0);
      assert.equal(bench.reserveJob(bench.client, bench.id), "done");
      refused(bench, bench.id, 1);
      assert.equal(bench.bury(bench.client, bench.id), "done");
      refused(bench, bench.id, 1);
    });

    it("has none after the end of the job's time", () => {
      for (const [afterMs, isHeld] of [
        [TTR_MS - 1, true],
        [TTR_MS, true],
        [TTR_MS + 1, false],
        [2 * TTR_MS + 1, false],
      ] as const) {
        const bench = new LeaseBench();
        assert.equal(bench.reserveJob(bench.holder, bench.id), "done");
        // The clock goes on, but nothing has looked at what is due.
        bench.nowMs += afterMs;
        if (isHeld) assert.equal(act(bench, bench.id, 1), true);
        else {
          assert.equal(act(bench, bench.id, 1), false);
          refused(bench, bench.id, 1);
        }
      }
    });
  });

const { Ready, Delayed, Reserved, Buried } = JobState;

describe("a lease that holds its job", () => {
  for (const [what, change, job] of [
    ["deletes it", { act: "delete" }, undefined],
    ["releases it with its priority", { act: "release" }, [Ready, 7, 1, 1, 0]],
    ["releases it with another priority", { act: "release", pri: 0 }, [Ready, 0, 1, 1, 0]],
    ["releases it with a delay", { act: "release", delay: 5 }, [Delayed, 7, 1, 1, 0]],
    ["buries it with its priority", { act: "bury" }, [Buried, 7, 1, 0, 1]],
    ["buries it with another priority", { act: "bury", pri: 9 }, [Buried, 9, 1, 0, 1]],
    ["goes on with it", { act: "touch", pri: 9, delay: 5 }, [Reserved, 7, 1, 0, 0]],
  ] as const)
    it(what, () => {
      const bench = new LeaseBench();
      assert.equal(bench.reserveJob(bench.holder, bench.id), "done");
      assert.equal(changeLease(bench.shard, LEASES, { id: bench.id, reserves: 1, ...change }), true);
      assert.deepEqual(bench.job, job);
      bench.check();
    });

  it("gives it back without a release", () => {
    const bench = new LeaseBench();
    assert.equal(bench.reserveJob(bench.holder, bench.id), "done");
    assert.equal(giveBackLease(bench.shard, LEASES, bench.id, 1), true);
    assert.deepEqual(bench.job, [Ready, 7, 1, 0, 0]);
    assert.equal(giveBackLease(bench.shard, LEASES, bench.id, 1), false);
    bench.check();
  });
});
