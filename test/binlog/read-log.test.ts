// Tests of a server that is stopped while it reads its log or takes over another's: it ends soon
// and leaves everything unchanged.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exportForBeanstalkd } from "../../src/binlog/beanstalkd/beanstalkd-export.ts";
import { beanstalkdFileName } from "../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { StartInterrupted } from "../../src/binlog/recovery/open-options.ts";
import { END_BYTES } from "../../src/binlog/segments/segment-format.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { jobsOfLog } from "./model.ts";
import { JobWriter, largerLog, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

/**
 * Opens the log with a stop at the n-th look, for n = 0, 1, 2 … until none comes; returns how often
 * it was interrupted.
 */
async function interruptEverywhere(disk: VirtualDisk): Promise<number> {
  for (let interrupted = 0; ; interrupted++) {
    let looks = 0;
    const stopping = () => looks++ >= interrupted;
    try {
      const { storage } = await openBinlog({ ...virtualOptions(disk), stopping });
      storage.close(0);
      return interrupted;
    } catch (error) {
      assert.ok(error instanceof StartInterrupted);
      assert.equal(disk.openHandles, 0, "no file is left open");
    }
  }
}

const jobsOf = (disk: VirtualDisk): Promise<Map<number, string>> => jobsOfLog(virtualOptions(disk));

test("a stop interrupts reading between any two segments", async () => {
  const { disk, jobs } = await largerLog();
  assert.ok((await interruptEverywhere(disk)) > 3);
  assert.deepEqual(await jobsOf(disk), jobs);
});

test("a takeover that stops between any two files is repeated", async () => {
  const { disk: source, jobs } = await largerLog();
  const opened = await openBinlog(virtualOptions(source));
  const disk = new VirtualDisk();
  const result = exportForBeanstalkd(
    opened.jobs(() => 0),
    disk,
  );
  for (const id of jobs.keys()) if (id < 0) jobs.delete(id);
  assert.equal(result.jobs, jobs.size);
  assert.ok(result.jobsWithAttributes > 5 && result.attributesDropped === result.jobsWithAttributes);
  assert.ok(disk.names().includes(beanstalkdFileName(1)));
  assert.ok((await interruptEverywhere(disk)) >= 2);
  assert.deepEqual([...(await jobsOf(disk)).keys()].sort(), [...jobs.keys()].sort());
});

test("an END that a killed server wrote without a sync is durable before new records are", async () => {
  const { disk: closed } = await largerLog();
  // A start releases the space behind the last END.
  await openBinlog(virtualOptions(closed));
  closed.kill();
  const endsFull = (each: string): boolean => closed.contentOf(each).at(-1) !== 0;
  const name = closed.names().sort().findLast(endsFull)!;
  const whole = closed.contentOf(name).slice();
  const at = whole.length - END_BYTES;
  for (let seed = 1; seed <= 20; seed++) {
    const disk = closed.clone();
    disk.put(name, whole.slice(0, at));
    const handle = disk.open(name, "write");
    disk.write(handle, whole, at, whole.length - at, at);
    disk.kill();
    const { storage } = await openBinlog(virtualOptions(disk));
    const writer = new JobWriter(storage);
    writer.put(1000, "new");
    writer.settle(10);
    disk.crash(new SeededRandom(seed));
    const jobs = await jobsOf(disk);
    assert.ok(jobs.has(1000), `seed ${seed}`);
    for (const [id, job] of writer.jobs) assert.equal(jobs.get(id), job);
  }
});
