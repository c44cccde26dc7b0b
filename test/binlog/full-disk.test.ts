// A disk that is really full: a small tmpfs, where mounting is allowed.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { RealDisk } from "../../src/binlog/disk/real-disk.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import type { OpenOptions } from "../../src/binlog/recovery/open-options.ts";
import { recoveredTexts } from "./model.ts";
import { JobWriter } from "./sample-log.ts";

test("a full tmpfs: puts are refused, deletes go on, room comes back, a restart has all", async (t) => {
  const path = mkdtempSync(join(tmpdir(), "runnerbean-full-"));
  t.after(() => {
    spawnSync("umount", [path]);
    rmSync(path, { recursive: true, force: true });
  });
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=6m", "tmpfs", path]);
  if (mounted.status !== 0) {
    t.skip("mounting a tmpfs is not allowed here");
    return;
  }
  const notices: string[] = [];
  const options: OpenOptions = {
    disk: new RealDisk(path),
    shards: 1,
    segmentBytes: 1024 * 1024,
    syncEvery: 0,
    salvage: false,
    parallel: true,
    randomSalt: () => 7,
    wallMs: Date.now,
    clockMs: () => performance.now(),
    notice: (notice) => notices.push(notice.code),
    progress: () => {},
  };
  const { storage } = await openBinlog(options);
  const writer = new JobWriter(storage);
  let id = 0;
  const turn = () => {
    storage.flush(id);
    storage.work(id);
    assert.equal(storage.failure, undefined);
  };
  while (!storage.full) {
    writer.put(++id, "x".repeat(3000));
    if (id % 5 === 0) turn();
    assert.ok(id < 10_000);
  }
  assert.deepEqual(notices, ["BINLOG_FULL"]);
  // Somebody else takes what is left.
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
  for (let now = 1e6; storage.full && now < 2e6; now += 1000) while (storage.work(now)) {}
  assert.equal(storage.full, false);
  for (let i = 0; i < 300; i++) {
    writer.put(++id, "y".repeat(3000));
    turn();
  }
  storage.close(2e6);
  const again = await openBinlog(options);
  assert.deepEqual(recoveredTexts(again, 1), writer.jobs);
  again.storage.close(0);
});
