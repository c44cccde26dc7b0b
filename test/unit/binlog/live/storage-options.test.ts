// Tests of when the log syncs, and when it states that it is durable.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SyncPolicy } from "../../../../src/binlog/live/storage-options.ts";
import { openSample } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

const NEVER = Number.POSITIVE_INFINITY;

test("a log syncs early enough that no more than -f is lost, whatever a sync takes", () => {
  const policy = new SyncPolicy(100);
  const times = (): number[] => [policy.syncAtMs, policy.markAtMs];
  assert.deepEqual([policy.never, ...times()], [false, NEVER, NEVER]);
  policy.dirty(1000);
  policy.dirty(1050);
  assert.deepEqual(times(), [1100, NEVER], "the oldest record counts");
  policy.synced(1100, 20, false);
  assert.deepEqual(times(), [NEVER, 1200]);
  policy.dirty(2000);
  assert.deepEqual(times(), [2060, NEVER], "twice as long as the last one");
  policy.synced(2060, 90, true);
  assert.deepEqual(times(), [NEVER, NEVER]);
  policy.dirty(3000);
  assert.deepEqual(times(), [3050, NEVER], "half of the time at most");
  const never = new SyncPolicy("never");
  never.dirty(0);
  never.synced(0, 1, false);
  assert.deepEqual([never.never, never.syncAtMs, never.markAtMs], [true, NEVER, NEVER]);
});

test("a sync in the background begins early, and must be over when -f is", () => {
  const policy = new SyncPolicy(100, true);
  policy.dirty(1000);
  assert.equal(policy.syncAtMs, 1080, "a fifth of the time is left for it");
  assert.deepEqual([policy.mayBegin(1099), policy.mayBegin(1100)], [true, false]);
  policy.begun();
  assert.equal(policy.syncAtMs, 1100);
  policy.dirty(1085);
  assert.equal(policy.syncAtMs, 1100, "later records have more time");
  policy.ended(1090, 30);
  assert.deepEqual([policy.syncAtMs, policy.markAtMs], [1135, NEVER], "half of the time at most");
  policy.begun();
  policy.ended(1140, 5);
  assert.deepEqual([policy.syncAtMs, policy.markAtMs], [NEVER, 1240]);
  policy.dirty(2000);
  policy.begun();
  policy.synced(2050, 1, true);
  assert.deepEqual([policy.syncAtMs, policy.markAtMs], [NEVER, NEVER], "another sync made it durable");
});

test("a start ends the segment that a killed server wrote where its last record ends", async () => {
  const disk = new VirtualDisk();
  const { writer } = await openSample(disk);
  writer.put(1, "body");
  writer.settle(0);
  const [first] = disk
    .names()
    .filter((name) => name.endsWith(".log"))
    .sort();
  const before = disk.contentOf(first!).length;
  disk.kill();
  await openSample(disk);
  const bytes = disk.contentOf(first!);
  assert.ok(bytes.length < before, `${bytes.length} of ${before} bytes`);
  assert.ok(
    bytes.subarray(-8).some((byte) => byte !== 0),
    "no zeros follow its END",
  );
});
