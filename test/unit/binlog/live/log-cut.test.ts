// Tests of the segments that a cut keeps on the disk for a backup.

import assert from "node:assert/strict";
import { it } from "node:test";
import { segmentName } from "../../../../src/base/segment-name.ts";
import type { Disk } from "../../../../src/binlog/disk/disk.ts";
import { LogCut } from "../../../../src/binlog/live/log-cut.ts";
import type { LogTail } from "../../../../src/binlog/live/log-tail.ts";

it("a cut keeps its segments and the one behind, whose header the backup takes, and no others", () => {
  const removed: string[] = [];
  const disk = { unlink: (name: string) => void removed.push(name), syncFolder() {} } as unknown as Disk;
  const segments = { shortage: "" };
  const cut = new LogCut(disk, { segments } as unknown as LogTail);
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
