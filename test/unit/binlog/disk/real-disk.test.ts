// Tests of syncs on another thread, on a real disk.

import assert from "node:assert/strict";
import {
  closeSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { RealBackgroundSync } from "../../../../src/binlog/disk/real-disk.ts";
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

async function endOf(sync: RealBackgroundSync) {
  let ended: ReturnType<typeof sync.take>;
  await eventually("the sync has ended", () => (ended = sync.take()) !== undefined);
  return ended!;
}

test("a sync ends later, once, and keeps its file open until the next file or the end", async (t) => {
  const folder = temporaryFolder(t, "background-sync");
  const [first, second] = [join(folder, "first"), join(folder, "second")];
  const handles = [openSync(first, "w"), openSync(second, "w")] as const;
  t.after(() => handles.forEach(closeSync));
  for (const handle of handles) writeSync(handle, "x");
  const sync = new RealBackgroundSync(folder, () => performance.now());
  assert.equal(sync.take(), undefined);
  assert.equal(sync.begin("first", handles[0]), true);
  assert.equal(sync.take(), undefined, "the event loop tells of its end");
  const { tookMs, error } = await endOf(sync);
  assert.ok(tookMs >= 0 && error === undefined);
  assert.equal(sync.take(), undefined);
  assert.equal(opened(first), 2);
  assert.equal(sync.begin("second", handles[1]), true);
  assert.deepEqual([opened(first), opened(second)], [1, 2]);
  sync.close();
  assert.equal(opened(second), 2, "not before the sync is over");
  await eventually("the file is closed", () => opened(second) === 1);
});

test("a file that is forgotten is closed, after a sync under way, and opened again", async (t) => {
  const folder = temporaryFolder(t, "background-sync");
  const file = join(folder, "file");
  const handle = openSync(file, "w");
  t.after(() => closeSync(handle));
  const sync = new RealBackgroundSync(folder, () => performance.now());
  sync.forget();
  assert.equal(sync.begin("file", handle), true);
  sync.forget();
  assert.equal(opened(file), 2, "a sync is under way");
  assert.equal((await endOf(sync)).error, undefined);
  assert.equal(opened(file), 1);
  assert.equal(sync.begin("file", handle), true);
  await endOf(sync);
  assert.equal(opened(file), 2);
  sync.forget();
  assert.equal(opened(file), 1);
  sync.close();
});

test("without the file, or with another one of that name, there is no sync", (t) => {
  const folder = temporaryFolder(t, "background-sync");
  const file = join(folder, "file");
  const handle = openSync(file, "w");
  t.after(() => closeSync(handle));
  renameSync(file, join(folder, "moved"));
  const sync = new RealBackgroundSync(folder, () => performance.now());
  assert.equal(sync.begin("file", handle), false);
  writeFileSync(file, "x");
  assert.equal(sync.begin("file", handle), false);
  assert.equal(opened(file), 0);
  sync.close();
});
