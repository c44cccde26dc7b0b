// Tests of the threads that read a large log: they find what one thread finds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { StartInterrupted } from "../../../../src/binlog/recovery/open-options.ts";
import { segmentNumbers } from "../../../../src/binlog/recovery/read-log.ts";
import { scanInPool } from "../../../../src/binlog/recovery/scan-pool.ts";
import { scanFile } from "../../../../src/binlog/recovery/segment-scan.ts";
import { realOptions } from "../../../binlog/sample/real-options.ts";
import { JobWriter, SAMPLE_SEGMENT_BYTES } from "../../../binlog/sample/sample-log.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

const STOPS = 12;

test("a pool finds in each segment what one thread finds, says how far it is, and stops when it must", async (t) => {
  const options = realOptions(temporaryFolder(t));
  const { storage } = await openBinlog({
    ...options,
    segmentBytes: SAMPLE_SEGMENT_BYTES,
    smallSegments: true,
  });
  const writer = new JobWriter(storage);
  for (let id = 1; storage.tail.segments.current.number < 4; id++) writer.put(id, "x".repeat(900));
  storage.close(0);
  const { disk } = options;
  const numbers = segmentNumbers(disk);
  assert.ok(numbers.length >= 4);
  const sizes = numbers.map((number) => 10 ** number);
  const total = sizes.reduce((sum, bytes) => sum + bytes);
  const told: number[] = [];
  const progress = (done: number, all: number): void => {
    assert.equal(all, total);
    told.push(done);
  };
  const found = await scanInPool({ ...options, progress }, numbers, sizes, total);
  assert.deepEqual(
    found,
    numbers.map((number) => scanFile(disk, number, false)),
  );
  // They end in any order.
  const steps = told.map((done, i) => done - (told[i - 1] ?? 0));
  assert.deepEqual(
    steps.sort((a, b) => a - b),
    sizes,
  );
  // The answers of other scans come while the pool ends, in some of the rounds.
  for (let round = 0; round < STOPS; round++)
    await assert.rejects(
      scanInPool({ ...options, stopping: () => true }, numbers, sizes, total),
      StartInterrupted,
    );
});
