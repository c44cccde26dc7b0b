// Tests of a log rewrite (manual compaction, salvage) interrupted at any moment: the old log counts
// until the new one is complete and durable, and no job is missing afterwards.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { readLog } from "../../src/binlog/recovery/read-log.ts";
import { rewriteLog } from "../../src/binlog/recovery/salvage.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { recoveredTexts } from "./model.ts";
import { largerLog, virtualOptions } from "./sample/sample-log.ts";
import type { VirtualDisk } from "./virtual-disk.ts";

/** The jobs of a log; a start that is refused is done again with `--salvage`. */
async function jobsOf(disk: VirtualDisk): Promise<Map<number, string>> {
  try {
    return recoveredTexts(await openBinlog(virtualOptions(disk)), 1);
  } catch {
    disk.kill();
    return recoveredTexts(await openBinlog({ ...virtualOptions(disk), salvage: true }), 1);
  }
}

async function rewrite(disk: VirtualDisk): Promise<void> {
  const options = virtualOptions(disk);
  const { verdict, books } = await readLog(options, false);
  assert.deepEqual(verdict.problems, []);
  rewriteLog(options, verdict, books);
}

const WAYS: Readonly<Record<string, (disk: VirtualDisk, call: number) => void>> = {
  "a kill": (disk) => disk.kill(),
  "a power cut": (disk, call) => disk.crash(new SeededRandom(call)),
};

describe("a rewrite of a log", () => {
  for (const [way, end] of Object.entries(WAYS)) {
    it(`that ends by ${way} at any disk call loses no job`, async () => {
      const { disk: original, jobs } = await largerLog();
      let calls = 0;
      for (let cutAt = 0; ; cutAt++) {
        const disk = original.clone();
        const first = disk.calls;
        disk.fault = () => {
          if (disk.calls - first > cutAt) throw Object.assign(new Error("cut"), { code: "CUT" });
        };
        const ended = await rewrite(disk).then(
          () => true,
          () => false,
        );
        disk.fault = () => {};
        end(disk, cutAt);
        assert.deepEqual(await jobsOf(disk), jobs, `cut at call ${cutAt}`);
        if (ended) break;
        calls++;
      }
      assert.ok(calls > 20, `${calls} calls`);
    });
  }

  it("that finds no room leaves the old log unchanged", async () => {
    const { disk, jobs } = await largerLog();
    const before = disk.names().filter((name) => name.endsWith(".log"));
    disk.capacityBytes = disk.usedBytes() + 40_000;
    await assert.rejects(rewrite(disk), /room|full|ENOSPC/i);
    disk.capacityBytes = Number.POSITIVE_INFINITY;
    disk.kill();
    assert.deepEqual(
      disk.names().filter((name) => name.endsWith(".log")),
      before,
    );
    assert.deepEqual(recoveredTexts(await openBinlog(virtualOptions(disk)), 1), jobs);
  });
});
