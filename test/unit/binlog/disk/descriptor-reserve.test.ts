// Tests of the reserve of descriptors, while other threads take all that are free.

import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { type TestContext, test } from "node:test";
import { DescriptorReserve } from "../../../../src/binlog/disk/real-disk.ts";

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
