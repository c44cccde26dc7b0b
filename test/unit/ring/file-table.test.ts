// Tests of the table of the files of recent jobs.

import assert from "node:assert/strict";
import { it } from "node:test";
import { FileTable } from "../../../src/ring/job-directory.ts";

const ENTRIES = 2 ** 20;

it("FileTable knows the file of a job until another job takes its place", () => {
  const table = new FileTable(new SharedArrayBuffer(FileTable.BYTES));
  assert.equal(table.find(ENTRIES + 5), 0);
  table.set(5, 1);
  table.set(6, 2 ** 24 - 1);
  table.set(ENTRIES - 1, 77);
  assert.deepEqual(
    [5, 6, ENTRIES - 1].map((id) => table.find(id)),
    [1, 2 ** 24 - 1, 77],
  );
  assert.equal(table.find(ENTRIES + 5), 0, "of another lap");
  table.set(ENTRIES + 5, 9);
  table.set(200 * ENTRIES + 6, 10);
  table.set(8, 2 ** 24 + 5);
  assert.equal(table.find(8), 5, "24 bits of a file's number");
  table.set(256 * ENTRIES + 7, 11);
  assert.equal(table.find(256 * ENTRIES + 7), 11, "of a lap whose number fills its bits");
  assert.deepEqual(
    [5, ENTRIES + 5, 6, 200 * ENTRIES + 6].map((id) => table.find(id)),
    [0, 9, 0, 10],
  );
});
