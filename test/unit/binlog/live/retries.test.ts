// Tests of when a log tries again what it had no room or no descriptor for: neither before a second
// is over, nor after it, and at once if it has made room itself.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { jobsOfLog } from "../../../binlog/model.ts";
import { JobWriter, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

const RETRY_MS = 1000;
const JOBS = 200;

/** A log of which the first segments are mostly dead, and whose disk fails some calls. */
async function scene() {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  for (let id = 1; id <= JOBS; id++) {
    writer.put(id, "x".repeat(300));
    if (id % 5 === 0) storage.flush(0);
  }
  for (let id = 1; id <= JOBS; id++) if (id % 4 !== 0) writer.delete(id);
  storage.flush(0);
  const calls = { open: 0, unlink: 0 };
  let failing = { call: "", code: "" };
  disk.fault = (call) => {
    if (call === "open" || call === "unlink") calls[call]++;
    if (call !== failing.call) return;
    throw Object.assign(new Error(`${failing.code}: injected`), { code: failing.code });
  };
  const fail = (call: string, code: string): void => void (failing = { call, code });
  const turn = (nowMs: number): void => {
    storage.flush(nowMs);
    while (storage.work(nowMs)) storage.flush(nowMs);
  };
  return { disk, storage, writer, calls, fail, mend: () => fail("", ""), turn };
}

describe("a log without a descriptor", () => {
  it("tries to compact once a second, and goes on in the second after there is one", async () => {
    const { disk, storage, writer, calls, fail, mend, turn } = await scene();
    fail("open", "EMFILE");
    turn(5000);
    assert.deepEqual([storage.full, storage.failure], [true, undefined]);
    for (let round = 1; round <= 3; round++) {
      const { open } = calls;
      const dueMs = 5000 + round * RETRY_MS;
      assert.equal(storage.nextDeadline(), dueMs);
      turn(dueMs - 1);
      assert.equal(calls.open, open, "not before");
      assert.equal(storage.nextDeadline(), dueMs);
      turn(dueMs);
      assert.ok(calls.open > open, "and not later");
    }
    mend();
    const oldest = storage.oldestSegment;
    turn(9000);
    assert.deepEqual([storage.full, storage.oldestSegment > oldest], [false, true]);
    storage.close(9000);
    assert.deepEqual(await jobsOfLog(virtualOptions(disk)), writer.jobs);
  });
});

describe("a log that can't remove a segment", () => {
  it("makes room at once when a change has removed it", async () => {
    const { disk, storage, writer, fail, mend, turn } = await scene();
    disk.capacityBytes = disk.usedBytes();
    fail("unlink", "EDQUOT");
    turn(5000);
    assert.deepEqual([storage.full, storage.failure], [true, undefined]);
    // A mark of what is durable comes in between.
    turn(storage.nextDeadline());
    assert.equal(storage.nextDeadline(), 5000 + RETRY_MS);
    mend();
    const oldest = storage.oldestSegment;
    for (let n = 1; storage.oldestSegment === oldest; n++) {
      writer.update(4, { releases: n });
      storage.flush(5400);
      assert.ok(n < 10_000, "a change needs the room");
    }
    disk.capacityBytes = Number.POSITIVE_INFINITY;
    storage.flush(5400);
    assert.ok(storage.nextDeadline() <= 5400, `the next turn is at ${storage.nextDeadline()}`);
    turn(5400);
    assert.equal(storage.full, false, "puts are accepted again, half a second before the next try");
    storage.close(5400);
    assert.deepEqual(await jobsOfLog(virtualOptions(disk)), writer.jobs);
  });
});
