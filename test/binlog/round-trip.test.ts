// Whatever a job is, it comes back the same: out of the records, the log, a dump, and beanstalkd's format.

import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { Memory } from "../../src/base/memory.ts";
import { exportForBeanstalkd } from "../../src/binlog/beanstalkd/beanstalkd-export.ts";
import { readBeanstalkdFile, readBeanstalkdLog } from "../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { emptyLog } from "../../src/binlog/books/log-state.ts";
import { recordChecksum } from "../../src/binlog/format/record-checksum.ts";
import { Storage } from "../../src/binlog/live/storage.ts";
import { appendWholeJob } from "../../src/binlog/live/whole-job.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { dumpLines, readDump, restoreJob } from "../../src/binlog/tools/dump.ts";
import {
  applyUpdate,
  decodeFields,
  emptyRecordFields,
  encodePutHead,
  encodeUpdate,
  putRecordBytes,
  type RecordFields,
  RecordState,
} from "../../src/message/record.ts";
import { jobText, recoveredTexts } from "./model.ts";
import { virtualOptions } from "./sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
const timeMs = fc.integer({ min: 1_000_000_000_000, max: 3_000_000_000_000 });
const fieldsOf = fc.record<RecordFields>(
  {
    id: fc.integer({ min: 1, max: 2 ** 40 }),
    state: fc.constantFrom(RecordState.ready, RecordState.delayed, RecordState.buried),
    pri: u32,
    delaySeconds: u32,
    ttrSeconds: u32,
    createdAtMs: timeMs,
    deadlineAtMs: timeMs,
    reserves: u32,
    timeouts: u32,
    releases: u32,
    buries: fc.integer({ min: 1, max: 0xffff_ffff }),
    kicks: u32,
    burySequence: fc.integer({ min: 0, max: 2 ** 50 }),
  },
  { noNullPrototype: true },
);
const tubeOf = fc.stringMatching(/^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}$/);
const bodyOf = fc.uint8Array({ maxLength: 400 });
const jobsOf = fc.uniqueArray(fc.record({ fields: fieldsOf, tube: tubeOf, body: bodyOf }), {
  maxLength: 12,
  selector: (job) => job.fields.id,
});

interface Job {
  fields: RecordFields;
  tube: string;
  body: Uint8Array;
}

function encoded({ fields, tube, body }: Job): Memory {
  const record = Memory.ofSize(putRecordBytes(tube.length, body.length));
  record.bytes.set(body, encodePutHead(record, 0, fields, Buffer.from(tube, "latin1"), body.length));
  return record;
}

function textOf({ fields, tube, body }: Job): [number, string] {
  return [fields.id, jobText(fields, tube, Buffer.from(body).toString("latin1"))];
}

async function logOf(jobs: readonly Job[]): Promise<VirtualDisk> {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  for (const job of jobs) {
    appendWholeJob(storage, encoded(job), 0);
  }
  storage.close(0);
  return disk;
}

test("recordChecksum is zlib's crc32, for short ranges and long ones", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 500 }), fc.nat(20), u32, (bytes, start, seed) => {
      const from = Math.min(start, bytes.length);
      assert.equal(recordChecksum(bytes, from, bytes.length, seed), crc32(bytes.subarray(from), seed));
    }),
    { numRuns: 500 },
  );
});

test("a record decodes to what was encoded, and an update brings a put to its state", () => {
  fc.assert(
    fc.property(fieldsOf, fieldsOf, tubeOf, bodyOf, (fields, later, tube, body) => {
      const { view } = encoded({ fields, tube, body });
      const found = emptyRecordFields();
      decodeFields(view, 0, found);
      assert.deepEqual(found, fields);
      const update = new DataView(new ArrayBuffer(100));
      encodeUpdate(update, 3, { ...later, id: fields.id });
      applyUpdate(view, 0, update, 3);
      decodeFields(view, 0, found);
      assert.deepEqual(found, { ...later, id: fields.id, createdAtMs: fields.createdAtMs });
    }),
  );
});

test("jobs come back from the log as they were", async () => {
  await fc.assert(
    fc.asyncProperty(jobsOf, async (jobs) => {
      const disk = await logOf(jobs);
      const opened = await openBinlog(virtualOptions(disk));
      const expected = new Map(jobs.map(textOf));
      const found = recoveredTexts(opened, 1);
      // A Map compares without order here.
      assert.deepEqual(found, expected);
      opened.storage.close(0);
    }),
    { numRuns: 60 },
  );
});

test("jobs come back from a dump as they were", async () => {
  await fc.assert(
    fc.asyncProperty(jobsOf, async (jobs) => {
      const opened = await openBinlog(virtualOptions(await logOf(jobs)));
      const text = [
        ...dumpLines(
          opened.jobs(() => 0),
          opened.nextId,
        ),
      ].join("");
      opened.storage.close(0);
      const disk = new VirtualDisk();
      const storage = new Storage({ ...virtualOptions(disk), log: emptyLog() });
      async function* lines() {
        yield* text.split("\n").slice(0, -1);
      }
      for await (const part of readDump(lines())) {
        if (typeof part === "number") storage.index.maxId = part - 1;
        else restoreJob(storage, part.job, part.body);
      }
      storage.close(0);
      const again = await openBinlog(virtualOptions(disk));
      assert.deepEqual(recoveredTexts(again, 1), new Map(jobs.map(textOf)));
      assert.equal(again.nextId, opened.nextId);
      again.storage.close(0);
    }),
    { numRuns: 60 },
  );
});

test("jobs come back from beanstalkd's format as they were", async () => {
  await fc.assert(
    fc.asyncProperty(jobsOf, async (jobs) => {
      const opened = await openBinlog(virtualOptions(await logOf(jobs)));
      const out = new VirtualDisk();
      exportForBeanstalkd(
        opened.jobs(() => 0),
        out,
      );
      opened.storage.close(0);
      const found = readBeanstalkdLog(out, false);
      assert.equal(found.jobs.size, jobs.length);
      for (const { fields, tube, body } of jobs) {
        const job = found.jobs.get(fields.id)!;
        const file = readBeanstalkdFile(out, job.file);
        assert.deepEqual(
          Buffer.from(file.subarray(job.bodyAt, job.bodyAt + job.bodyBytes)),
          Buffer.from(body),
        );
        assert.equal(Buffer.from(job.tube).toString("latin1"), tube);
        const buried = fields.state === RecordState.buried;
        const expected = {
          ...fields,
          buries: buried ? fields.buries - 1 : fields.buries,
          deadlineAtMs: fields.state === RecordState.delayed ? fields.deadlineAtMs : 0,
          burySequence: job.fields.burySequence,
        };
        assert.deepEqual(job.fields, expected);
      }
      const order = (list: readonly RecordFields[]) =>
        list
          .filter((one) => one.state === RecordState.buried)
          .sort((a, b) => a.burySequence - b.burySequence)
          .map((one) => one.id);
      const sequences = new Set(jobs.map((job) => job.fields.burySequence));
      if (sequences.size === jobs.length) {
        assert.deepEqual(
          order([...found.jobs.values()].map((job) => job.fields)),
          order(jobs.map((job) => job.fields)),
        );
      }
    }),
    { numRuns: 60 },
  );
});
