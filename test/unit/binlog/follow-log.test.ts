// Tests of the log of a standby beside damage that its checksums don't show: files with wrong
// values, and batches whose writer framed them wrongly.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import { readGroupFile, writeGroupFile } from "../../../src/binlog/disk/checked-json.ts";
import type { FollowLog } from "../../../src/binlog/follow-log.ts";
import { openFollowLog } from "../../../src/binlog/following.ts";
import {
  END_BYTES,
  encodeOwn,
  FRAME_BYTES,
  OWN_RECORD_BYTES,
  OwnKind,
} from "../../../src/binlog/segments/segment-format.ts";
import {
  LOG_BATCH_HEADER_BYTES,
  type LogBatch,
  logBatchesOf,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";
import { RecordKind, RecordState } from "../../../src/message/record.ts";
import { virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";

const GROUP = { groupId: "4ac9", node: 77, adoptAfter: 12 };
const NODE = 5;

const open = (disk: VirtualDisk): Promise<FollowLog> => openFollowLog(virtualOptions(disk), 0);

/** A batch of an empty standby's own LEAD, changed and sealed again. */
function leadOf(log: FollowLog, change: (view: DataView) => void = () => {}): LogBatch {
  const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES + END_BYTES);
  memory.bytes.set(log.leadBatch(NODE, 1234));
  change(memory.view);
  sealLogBatch(memory, 0);
  return logBatchesOf(
    memory.bytes.subarray(0, LOG_BATCH_HEADER_BYTES + memory.view.getUint32(60, true)),
  )![0]!;
}

/** A log with three batches, and the note of a cut behind the second, which a crash interrupted. */
async function cutScene(): Promise<{ disk: VirtualDisk; place: Record<string, unknown> }> {
  const disk = new VirtualDisk();
  const log = await open(disk);
  for (let lead = 0; lead < 3; lead++) log.apply(leadOf(log));
  disk.fault = () => {
    if (disk.names().includes("cut.json") && disk.contentOf("cut.json").length > 0) throw new Error("crash");
  };
  assert.throws(() => log.cutAfter(2), /crash/);
  disk.fault = () => {};
  return { disk, place: JSON.parse(new TextDecoder().decode(disk.contentOf("cut.json"))) };
}

describe("a standby's files", () => {
  it("group.json with wrong values is refused, and names them", () => {
    const disk = new VirtualDisk();
    writeGroupFile(disk, GROUP);
    assert.deepEqual(readGroupFile(disk), GROUP);
    for (const [changed, why] of [
      [{ ...GROUP, node: -1 }, /node is -1/],
      [{ ...GROUP, node: "77" }, /node is "77"/],
      [{ ...GROUP, groupId: 5 }, /groupId is 5/],
      [{ ...GROUP, adoptAfter: 1.5 }, /adoptAfter is 1.5/],
      [{ ...GROUP, adoptAfter: 13, checksum: 1 }, /its checksum is wrong/],
      [null, /groupId is undefined/],
    ] as const) {
      disk.put("group.json", Buffer.from(JSON.stringify(changed)));
      assert.throws(() => readGroupFile(disk), { code: "BINLOG_CORRUPT", message: why });
    }
    disk.put("group.json", Buffer.from('{"groupId'));
    assert.throws(() => readGroupFile(disk), { code: "BINLOG_CORRUPT", message: /isn't JSON/ });
  });

  it("each flipped bit of group.json is noticed", () => {
    const disk = new VirtualDisk();
    writeGroupFile(disk, GROUP);
    const bytes = disk.contentOf("group.json").slice();
    let refused = 0;
    // The last byte ends the line.
    for (let bit = 0; bit < 8 * (bytes.length - 1); bit++) {
      const flipped = bytes.slice();
      flipped[bit >> 3]! ^= 1 << (bit & 7);
      disk.put("group.json", flipped);
      // A field with another name may be missing, which says that the file is of an older version.
      if (!new TextDecoder().decode(flipped).includes('"checksum"')) continue;
      assert.throws(() => readGroupFile(disk), { code: "BINLOG_CORRUPT" }, `bit ${bit}`);
      refused++;
    }
    // All but the eight letters of one field's name.
    assert.equal(refused, 8 * (bytes.length - 1) - 8 * '"checksum"'.length);
  });

  it("a file without a checksum is one of an older version", () => {
    const disk = new VirtualDisk();
    disk.put("group.json", Buffer.from(JSON.stringify(GROUP)));
    assert.deepEqual(readGroupFile(disk), GROUP);
  });

  it("a cut that would remove segments that count is refused, and removes nothing", async () => {
    const { disk, place } = await cutScene();
    const { checksum: _, ...right } = place;
    for (const [changed, why] of [
      [{ ...right, segment: 0 }, /segment is 0/],
      [{ ...right, segment: 99 }, /it cuts runnerbean\S* at byte \d+ of 0/],
      [{ ...right, endsAt: 1e9 }, /at byte 1000000000 of \d+/],
      [{ ...right, sealed: "no" }, /sealed is "no"/],
      [{ ...place, segment: 1, endsAt: 99 }, /its checksum is wrong/],
      [7, /segment is undefined/],
    ] as const) {
      disk.put("cut.json", Buffer.from(JSON.stringify(changed)));
      const before = disk.names();
      await assert.rejects(open(disk), { code: "BINLOG_CORRUPT", message: why });
      assert.deepEqual(disk.names(), before);
    }
  });

  it("an interrupted cut is finished, also one of an older version; a torn note is none", async () => {
    for (const [noteOf, batches] of [
      [(place: object) => JSON.stringify(place), 2],
      [(place: object) => JSON.stringify({ ...place, checksum: undefined }), 2],
      [(place: object) => JSON.stringify(place).slice(0, 30), 3],
    ] as const) {
      const { disk, place } = await cutScene();
      disk.put("cut.json", Buffer.from(noteOf(place)));
      assert.equal((await open(disk)).place.n, batches);
      assert.ok(!disk.names().includes("cut.json"));
    }
  });
});

/** Makes a batch end within its only record, which says the same. */
function shorten(view: DataView, kind: number): void {
  view.setUint8(LOG_BATCH_HEADER_BYTES + FRAME_BYTES, kind);
  view.setUint32(LOG_BATCH_HEADER_BYTES + 4, OWN_RECORD_BYTES - 8, true);
  view.setUint32(60, END_BYTES - 8, true);
}

describe("a batch that its writer framed wrongly", () => {
  const wrongs: Readonly<Record<string, (view: DataView) => void>> = {
    "a frame longer than the batch": (view) => view.setUint32(LOG_BATCH_HEADER_BYTES + 4, 17, true),
    "a frame of 4 GiB": (view) => view.setUint32(LOG_BATCH_HEADER_BYTES + 4, 0xffff_ffff, true),
    "a frame without a record": (view) => view.setUint32(LOG_BATCH_HEADER_BYTES + 4, 0, true),
    "a record that is too short": (view) => view.setUint32(LOG_BATCH_HEADER_BYTES + 4, 3, true),
    "a MARK that is too short": (view) => shorten(view, OwnKind.mark),
    "a DROP that is too short": (view) => shorten(view, OwnKind.drop),
    "more frames than it says": (view) => view.setUint32(56, 0, true),
    "fewer frames than it says": (view) => view.setUint32(56, 2, true),
  };
  for (const [what, change] of Object.entries(wrongs))
    it(`${what} is refused before anything is written`, async () => {
      const disk = new VirtualDisk();
      const log = await open(disk);
      const before = disk.names();
      assert.throws(() => log.apply(leadOf(log, change)), /^Error: batch 1 (?:is framed wrongly|has)/);
      assert.deepEqual(disk.names(), before);
      log.apply(leadOf(log));
      assert.equal(log.place.n, 1);
    });
});

const RECORD_BYTES = 72;
/** A batch with one record of this kind and state, without names and attributes. */
const batchOf = (log: FollowLog, kind: number, state: number): LogBatch => {
  const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES + FRAME_BYTES + RECORD_BYTES);
  memory.bytes.set(log.leadBatch(NODE, 1234).subarray(0, LOG_BATCH_HEADER_BYTES));
  memory.view.setUint32(60, FRAME_BYTES + RECORD_BYTES, true);
  memory.view.setUint32(LOG_BATCH_HEADER_BYTES + 4, RECORD_BYTES, true);
  memory.bytes.set([kind, state, 0, 0], LOG_BATCH_HEADER_BYTES + FRAME_BYTES);
  sealLogBatch(memory, 0);
  return logBatchesOf(memory.bytes)![0]!;
};

describe("a record that only a newer server knows", () => {
  const newest = Math.max(...Object.values(RecordState));

  for (const [what, kind, state] of [
    ["kind", 15, 0],
    ["state of a job", RecordKind.put, newest + 1],
    ["state in an UPDATE", RecordKind.update, newest + 1],
  ] as const)
    it(`a new ${what} is refused before anything is written`, async () => {
      const disk = new VirtualDisk();
      const log = await open(disk);
      const before = disk.names();
      assert.throws(() => log.apply(batchOf(log, kind, state)), {
        code: "BINLOG_VERSION",
        message: /batch 1 of the group .* the primary is newer/,
      });
      assert.deepEqual(disk.names(), before);
      for (const known of Object.values(RecordState)) log.apply(batchOf(log, RecordKind.put, known));
      assert.equal(log.place.n, newest);
    });
});

it("a standby whose cut takes a DROP back lacks the segments that it has removed", async () => {
  const log = await open(new VirtualDisk());
  const oldestIn = (bytes: Uint8Array): number => logBatchesOf(bytes)![0]!.header.oldest;
  // Its END leaves segment 1.
  log.apply(leadOf(log));
  log.apply(batchOf(log, RecordKind.put, RecordState.ready));
  const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES + END_BYTES);
  memory.bytes.set(log.leadBatch(NODE, 1234));
  const drop = { kind: OwnKind.drop, hasNext: true, oldest: 2, maxId: 0 };
  encodeOwn(memory, LOG_BATCH_HEADER_BYTES + FRAME_BYTES, drop);
  sealLogBatch(memory, 0);
  log.apply(logBatchesOf(memory.bytes)![0]!);
  assert.deepEqual([log.isComplete, oldestIn(log.leadBatch(NODE, 1))], [true, 2]);
  log.cutAfter(2);
  assert.deepEqual([log.isComplete, oldestIn(log.leadBatch(NODE, 1))], [false, 1]);
});

it("a standby's batches are durable when their sync is due", async () => {
  for (const [syncEvery, kept] of [
    [0, [1, 1, 1]],
    [50, [0, 0, 1]],
    ["never", [1, 1, 1]],
  ] as const) {
    const log = await openFollowLog({ ...virtualOptions(new VirtualDisk()), syncEvery }, 0);
    log.apply(batchOf(log, RecordKind.put, RecordState.ready));
    const found = [1000, 1049, 1050].map((nowMs) => {
      log.flush(nowMs);
      return log.kept.n;
    });
    assert.deepEqual(found, kept, `-f ${syncEvery}`);
  }
});

it("a standby knows which segments hold jobs of its own, also after a start", async () => {
  const disk = new VirtualDisk();
  const log = await open(disk);
  assert.equal(log.rewriteBelow, 1, "a lead begins there");
  for (let lead = 0; lead < 3; lead++) log.apply(leadOf(log));
  assert.equal(log.rewriteBelow, 1);
  log.close();
  assert.equal((await open(disk)).rewriteBelow, 1);
  const late = await open(new VirtualDisk());
  late.apply(leadOf(late, (view) => view.setFloat64(16, 7, true)));
  assert.equal(late.rewriteBelow, 0, "a node that joined late has none");
});
