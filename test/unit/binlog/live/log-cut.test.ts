// Tests of the segments that a cut keeps on the disk for a backup.

import assert from "node:assert/strict";
import { it } from "node:test";
import { segmentName } from "../../../../src/base/text.ts";
import type { Disk } from "../../../../src/binlog/disk/disk.ts";
import { LogCut } from "../../../../src/binlog/live/log-cut.ts";
import type { LogWriter } from "../../../../src/binlog/live/log-writer.ts";
import { HEADER_BYTES } from "../../../../src/binlog/segments/segment-format.ts";

it("a cut keeps its segments and the one behind, whose header the backup takes, and no others", () => {
  const removed: string[] = [];
  const disk = { unlink: (name: string) => void removed.push(name), syncFolder() {} } as unknown as Disk;
  const segments = { shortage: "" };
  const cut = new LogCut(disk, { segments } as unknown as LogWriter);
  assert.ok(!cut.keeps(4), "nobody makes a backup");
  cut.want(1);
  Object.assign(cut, { state: "made", oldest: 4, last: 6 });
  assert.deepEqual(
    [3, 4, 5, 6, 7, 8].map((segment) => cut.keeps(segment)),
    [false, true, true, true, true, false],
  );
  assert.equal(cut.kept, 4);
  assert.deepEqual(removed, []);
  cut.want(0);
  while (cut.work(false) && cut.kept > 0);
  assert.deepEqual(removed, [4, 5, 6, 7].map(segmentName));
  assert.equal(cut.kept, 0);
});

/** A cut of a log whose segments count from 2 to `current`, which holds records or none. */
function seeker({ usedBytes = 5000, current = 4, promisedBytes = 10, filling = ["enough"] } = {}) {
  const calls: string[] = [];
  const segments = { shortage: "", current: { number: current, usedBytes } };
  const tail = {
    ...{ segments, oldest: 2, promisedBytes, fillNextBytes: 10 },
    fillNext: () => {
      calls.push("fill");
      return filling.shift();
    },
    leave: () => {
      calls.push("leave");
      segments.current = { number: current + 1, usedBytes: HEADER_BYTES };
    },
  };
  const disk = { unlink: () => calls.push("unlink"), syncFolder: () => calls.push("sync") };
  const cut = new LogCut(disk as unknown as Disk, tail as unknown as LogWriter);
  cut.want(1);
  const found = (): unknown => [cut.state, cut.oldest, cut.last, calls.join(" ")];
  return { cut, found, segments };
}

it("a cut leaves a segment that holds records once the next one has its room", () => {
  const { cut, found } = seeker({ filling: ["more", "enough"] });
  assert.equal(cut.work(false), true, "there is more room to make");
  assert.deepEqual(found(), ["sought", 0, 0, "fill"]);
  assert.equal(cut.work(false), false);
  assert.deepEqual(found(), ["made", 2, 4, "fill fill leave"]);
  const empty = seeker({ usedBytes: HEADER_BYTES });
  assert.equal(empty.cut.work(false), false);
  assert.deepEqual(empty.found(), ["made", 2, 3, ""], "an empty one is behind the cut");
});

it("a cut waits for the promised room, and is refused by a full disk", () => {
  const waiting = seeker({ promisedBytes: 9 });
  assert.equal(waiting.cut.work(false), false);
  assert.deepEqual(waiting.found(), ["sought", 0, 0, ""]);
  const full = seeker({ filling: ["full"] });
  assert.equal(full.cut.work(false), false);
  assert.deepEqual(full.found(), ["refused", 0, 0, "fill"]);
  const needed = seeker();
  assert.equal(needed.cut.work(true), false);
  assert.deepEqual(needed.found(), ["refused", 0, 0, ""]);
  needed.cut.want(0);
  needed.cut.work(true);
  assert.equal(needed.cut.state, "none", "nobody seeks a cut that could be refused");
});

it("a cut that the log has no room for keeps nothing more, and gives all back at once", () => {
  for (const how of ["work", "giveWay"] as const) {
    const { cut, found } = seeker();
    cut.work(false);
    assert.ok(cut.keeps(2) && cut.keeps(3) && cut.keeps(3), "a step may be repeated");
    assert.equal(cut.kept, 2);
    if (how === "giveWay") cut.giveWay();
    else while (cut.kept > 0) cut.work(true);
    assert.deepEqual(found(), ["refused", 2, 4, "fill leave unlink unlink sync"], how);
    assert.equal(cut.work(false), false);
  }
  const short = seeker();
  short.cut.work(false);
  short.segments.shortage = "ENOSPC";
  assert.deepEqual([short.cut.keeps(2), short.cut.state, short.cut.kept], [false, "refused", 0]);
});
