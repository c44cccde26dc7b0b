// Tests of a restore interrupted at any moment: the result is refused, or it is the whole dump.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { settingsOf } from "../../../src/binlog/recovery/log-recovery.ts";
import { readLog, segmentNumbers } from "../../../src/binlog/recovery/read-log.ts";
import { recoveredJobs } from "../../../src/binlog/recovery/recovered-jobs.ts";
import { dumpLines, restoreLog } from "../../../src/binlog/tools/dump.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { recoveredTexts } from "../model.ts";
import { largerLog, virtualOptions } from "../sample/sample-log.ts";
import { VirtualDisk } from "../virtual-disk.ts";

const WAYS: Readonly<Record<string, (disk: VirtualDisk, call: number) => void>> = {
  "a kill": (disk) => disk.kill(),
  "a power cut": (disk, call) => disk.crash(new SeededRandom(call)),
};

async function dumped(disk: VirtualDisk): Promise<string[]> {
  const { verdict, books } = await readLog(virtualOptions(disk), false);
  const batches = recoveredJobs({ disk, scans: verdict.kept, index: books.index }, 1, () => 0);
  const extras = { settings: settingsOf(books), batches: books.index.batches.list(), hasAttributes: true };
  return [...dumpLines(batches, books.index.maxId + 1, extras)].map((line) => line.trimEnd());
}

async function* each(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

describe("a restore", () => {
  for (const [way, end] of Object.entries(WAYS)) {
    it(`that ends by ${way} at any disk call leaves no partial log`, async () => {
      const { disk: original, jobs } = await largerLog();
      const lines = await dumped(original);
      let refused = 0;
      for (let cutAt = 0; ; cutAt++) {
        const disk = new VirtualDisk();
        disk.fault = () => {
          if (disk.calls > cutAt) throw Object.assign(new Error("cut"), { code: "CUT" });
        };
        const ended = await restoreLog(virtualOptions(disk), each(lines)).then(
          () => true,
          () => false,
        );
        disk.fault = () => {};
        end(disk, cutAt);
        if (segmentNumbers(disk).length > 0) {
          const opened = await openBinlog(virtualOptions(disk)).catch((error) => {
            assert.equal(error.code, "BINLOG_MISSING_FILE", `cut at call ${cutAt}: ${error.message}`);
            assert.match(error.nextStep, /restore again/);
            assert.ok(!ended, "a finished restore is in place");
            refused++;
          });
          if (opened !== undefined) {
            assert.deepEqual(recoveredTexts(opened, 1), jobs, `cut at call ${cutAt}`);
            assert.ok(opened.nextId > Math.max(...jobs.keys()));
          }
        } else assert.ok(!ended, "a finished restore is in place");
        if (ended) break;
      }
      assert.ok(refused > 20, `${refused} refused`);
    });
  }
});
