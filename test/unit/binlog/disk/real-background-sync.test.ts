// Tests of syncs on another thread, on a real disk.

import assert from "node:assert/strict";
import { openSync, readdirSync, readlinkSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { RealBackgroundSync } from "../../../../src/binlog/disk/real-background-sync.ts";
import { eventually } from "../../../support/eventually.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

/** Returns how often this process has the file open. */
function opened(file: string): number {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === file;
    } catch {
      return false;
    }
  }).length;
}

test("a sync ends later, once, and keeps its file open until the next file or the end", async (t) => {
  const folder = temporaryFolder(t, "background-sync");
  const [first, second] = [join(folder, "first"), join(folder, "second")];
  writeSync(openSync(first, "w"), "x");
  writeFileSync(second, "y");
  const before = opened(first);
  const sync = new RealBackgroundSync(folder, () => performance.now());
  assert.equal(sync.take(), undefined);
  assert.equal(sync.begin("first"), true);
  assert.equal(sync.take(), undefined, "the event loop tells of its end");
  const end = async () => {
    let ended: ReturnType<typeof sync.take>;
    await eventually("the sync has ended", () => (ended = sync.take()) !== undefined);
    return ended!;
  };
  const { tookMs, error } = await end();
  assert.ok(tookMs >= 0 && error === undefined);
  assert.equal(sync.take(), undefined);
  assert.equal(opened(first), before + 1);
  assert.equal(sync.begin("second"), true);
  assert.deepEqual([opened(first), opened(second)], [before, 1]);
  sync.close();
  assert.equal(opened(second), 1, "not before the sync is over");
  await eventually("the file is closed", () => opened(second) === 0);
});

test("without the file there is no sync", (t) => {
  const sync = new RealBackgroundSync(temporaryFolder(t, "background-sync"), () => performance.now());
  assert.equal(sync.begin("missing"), false);
  sync.close();
});
