// Tests on a really full disk: a small tmpfs, if mounting is allowed.

import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { smallDisk } from "../support/machine/small-disk.ts";
import { jobsOfLog } from "./model.ts";
import { realOptions } from "./sample/real-options.ts";
import { JobWriter } from "./sample/sample-log.ts";

test("on a full tmpfs puts are refused and deletes work; after room comes back a restart has all jobs", async (t) => {
  const path = smallDisk(t, "6m");
  if (path === undefined) return;
  const notices: string[] = [];
  const options = realOptions(path, notices);
  const { storage } = await openBinlog(options);
  const writer = new JobWriter(storage);
  let id = 0;
  const turn = () => {
    storage.flush(id);
    storage.work(id);
    assert.equal(storage.failure, undefined);
  };
  while (!storage.room.full) {
    writer.put(++id, "x".repeat(3000));
    if (id % 5 === 0) turn();
    assert.ok(id < 10_000);
  }
  assert.equal(notices.length, 1);
  assert.match(notices[0]!, /^BINLOG_FULL /);
  // Another program takes the rest.
  assert.throws(() => writeFileSync(join(path, "other"), Buffer.alloc(6_000_000)), { code: "ENOSPC" });
  for (let round = 0; round < 20; round++) {
    for (const one of writer.jobs.keys()) {
      writer.update(one, { releases: round });
      turn();
    }
  }
  for (const one of [...writer.jobs.keys()].slice(0, -50)) {
    writer.delete(one);
    turn();
  }
  rmSync(join(path, "other"));
  for (let now = 1e6; storage.room.full && now < 2e6; now += 1000) while (storage.work(now)) {}
  assert.equal(storage.room.full, false);
  for (let i = 0; i < 300; i++) {
    writer.put(++id, "y".repeat(3000));
    turn();
  }
  storage.close(2e6);
  assert.deepEqual(await jobsOfLog(options), writer.jobs);
});
