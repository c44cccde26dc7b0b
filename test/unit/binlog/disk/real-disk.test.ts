// Tests of syncs on another thread, on a real disk.

import assert from "node:assert/strict";
import fs, {
  closeSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { DescriptorReserve, RealBackgroundSync } from "../../../../src/binlog/disk/real-disk.ts";
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

// Tests of the reserve of descriptors, while other threads take all that are free.

/** Lets only so many descriptors be free. */
function limited(t: TestContext, free: number): { free: number } {
  const { openSync, closeSync } = fs;
  const table = { free };
  t.mock.method(fs, "openSync", (...words: Parameters<typeof openSync>) => {
    if (table.free <= 0) throw Object.assign(new Error("EMFILE: too many open files"), { code: "EMFILE" });
    const handle = openSync(...words);
    table.free--;
    return handle;
  });
  t.mock.method(fs, "closeSync", (handle: number) => {
    closeSync(handle);
    table.free++;
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  return table;
}

const open = (reserve: DescriptorReserve): number => reserve.open("/dev/zero", "r");

test("the reserve gives what is spare, keeps files open in a shortage, and fills up after it", (t) => {
  const table = limited(t, 3);
  const reserve = new DescriptorReserve(2);
  assert.deepEqual([reserve.count, table.free], [2, 1]);
  const first = open(reserve);
  assert.deepEqual([reserve.count, table.free], [2, 0], "a free one is taken first");
  const second = open(reserve);
  assert.deepEqual([reserve.count, table.free], [1, 0]);
  reserve.close(first);
  assert.deepEqual([reserve.count, table.free], [2, 0], "it stays open instead of a spare one");
  const third = open(reserve);
  const fourth = open(reserve);
  assert.deepEqual([reserve.count, table.free], [0, 0]);
  assert.throws(() => open(reserve), { code: "EMFILE" });
  reserve.close(second);
  assert.deepEqual([reserve.count, table.free], [1, 0]);
  table.free += 2;
  reserve.close(third);
  assert.deepEqual([reserve.count, table.free], [2, 2], "the file kept open is closed for a spare one");
  reserve.close(fourth);
  assert.deepEqual([reserve.count, table.free], [2, 3]);
});

test("the reserve gives nothing for a file that isn't there, and is smaller if there are few", (t) => {
  const table = limited(t, 1);
  const reserve = new DescriptorReserve(2);
  assert.deepEqual([reserve.count, table.free], [1, 0]);
  table.free = 1;
  assert.throws(() => reserve.open("/dev/null/none", "r"), { code: "ENOTDIR" });
  assert.equal(reserve.count, 1);
});
