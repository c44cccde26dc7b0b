// Tests of the round trip of jobs through records, the log, a dump, and beanstalkd's format.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { Memory } from "../../src/base/bytes.ts";
import { exportForBeanstalkd } from "../../src/binlog/beanstalkd/beanstalkd-export.ts";
import { readBeanstalkdFile, readBeanstalkdLog } from "../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { Storage } from "../../src/binlog/live/storage.ts";
import { appendBatch, appendSetting, appendWholeJob } from "../../src/binlog/live/whole-job.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { emptyLog } from "../../src/binlog/segments/books.ts";
import { recordChecksum } from "../../src/binlog/segments/segment-format.ts";
import { batchLine, dumpLines, readDump, restoreJob } from "../../src/binlog/tools/dump.ts";
import type { LoggedBatch } from "../../src/message/flow-record.ts";
import {
  applyUpdate,
  decodeFields,
  emptyRecordFields,
  encodePutHead,
  encodeUpdate,
  mergeHead,
  putRecordBytes,
  RECORD_FIXED_BYTES,
  type RecordFields,
  RecordState,
  recordHeadBytes,
  tubeBytesOf,
  UPDATE_BYTES_MAX,
} from "../../src/message/record.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  findAttribute,
} from "../../src/protocol/job-attribute.ts";
import { BatchOutcome, BatchState } from "../../src/schema/batch.ts";
import { eachJobCounter, fixedCounters, JobCounter } from "../../src/schema/job.ts";
import { jobsOfLog, jobText, recoveredTexts } from "./model.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
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
    counters: fc
      .record({ ...eachJobCounter(() => u32), buries: fc.integer({ min: 1, max: 0xffff_ffff }) })
      .map(fixedCounters),
    burySequence: fc.integer({ min: 0, max: 2 ** 50 }),
  },
  { noNullPrototype: true },
);
const tubeOf = fc.stringMatching(/^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}$/);
const bodyOf = fc.uint8Array({ maxLength: 400 });
const keyOf = fc.uint8Array({ minLength: 1, maxLength: 200 });
/** The attributes of a job, padded. */
const attributesOf = fc
  .record({
    ...{ key: fc.option(keyOf), weight: fc.option(fc.nat(1000)), expiresAt: fc.option(timeMs) },
    // With more than three pieces, the list is a long one.
    pieces: fc.array(fc.uint8Array({ minLength: 1, maxLength: 255 }), { maxLength: 22 }),
  })
  .map(({ key, weight, expiresAt, pieces }) => {
    const writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
    if (key !== null) writer.text(Attribute.UniqueKey, key, 0, key.length);
    if (weight !== null) writer.uint16(Attribute.Weight, weight);
    if (expiresAt !== null) writer.float64(Attribute.ExpiresAt, expiresAt);
    for (const piece of pieces) writer.text(Attribute.Failures, piece, 0, piece.length);
    return Buffer.from(writer.bytes.subarray(0, writer.pad()));
  });
const job = { fields: fieldsOf, tube: tubeOf, body: bodyOf, attributes: attributesOf };
const jobsOf = fc.uniqueArray(fc.record(job), {
  maxLength: 12,
  selector: (job) => job.fields.id,
});

interface Job {
  fields: RecordFields;
  tube: string;
  body: Uint8Array;
  attributes: Buffer;
}

function encoded({ fields, tube, body, attributes }: Job): Memory {
  const record = Memory.ofSize(putRecordBytes(tube.length, body.length, attributes.length));
  const name = Buffer.from(tube, "latin1");
  record.bytes.set(body, encodePutHead(record, 0, fields, name, body.length, attributes));
  return record;
}

function textOf({ fields, tube, body, attributes }: Job): [number, string] {
  const text = Buffer.from(body).toString("latin1");
  return [fields.id, jobText(fields, tube, text, attributes.toString("hex"))];
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
      const { view } = encoded({ fields, tube, body, attributes: Buffer.alloc(0) });
      const found = emptyRecordFields();
      decodeFields(view, 0, found);
      assert.deepEqual(found, fields);
      const update = Memory.ofSize(100);
      encodeUpdate(update, 3, { ...later, id: fields.id });
      applyUpdate(view, 0, update.view, 3);
      decodeFields(view, 0, found);
      assert.deepEqual(found, { ...later, id: fields.id, createdAtMs: fields.createdAtMs });
    }),
  );
});

test("an update with a tube name and attributes brings a put to its state, in another length", () => {
  fc.assert(
    fc.property(jobsOf, fieldsOf, fc.option(tubeOf), attributesOf, (jobs, later, tube, attributes) => {
      for (const before of jobs) {
        const put = encoded(before);
        const update = Memory.ofSize(UPDATE_BYTES_MAX);
        const name = Buffer.from(tube ?? "", "latin1");
        encodeUpdate(update, 0, { ...later, id: before.fields.id }, name, attributes);
        const merged = Memory.ofSize(UPDATE_BYTES_MAX);
        const bodyAt = mergeHead(merged, put, 0, update, 0);
        assert.equal(bodyAt, recordHeadBytes(merged.view, 0));
        const found = emptyRecordFields();
        decodeFields(merged.view, 0, found);
        const { id, createdAtMs } = before.fields;
        assert.deepEqual(found, { ...later, id, createdAtMs });
        const attributesAt = RECORD_FIXED_BYTES + tubeBytesOf(merged.view, 0);
        const head = Buffer.from(merged.bytes.subarray(0, bodyAt));
        assert.equal(head.toString("latin1", RECORD_FIXED_BYTES, attributesAt), tube ?? before.tube);
        const has = (bytes: Uint8Array, tag: number): string => hexOf(bytes, tag);
        const after = head.subarray(attributesAt);
        for (const tag of [Attribute.UniqueKey, Attribute.Weight])
          assert.equal(has(after, tag), has(before.attributes, tag));
        assert.equal(has(after, Attribute.ExpiresAt), has(attributes, Attribute.ExpiresAt));
      }
    }),
    { numRuns: 60 },
  );
});

/** The value of an attribute in hex, or "none". */
function hexOf(bytes: Uint8Array, tag: number): string {
  const at = findAttribute(bytes, 0, bytes.length, tag);
  return at < 0 ? "none" : Buffer.from(bytes.subarray(at, at + bytes[at - 1]!)).toString("hex");
}

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

test("megabytes of jobs of one segment come back after all have changed their length", async () => {
  const options = { ...virtualOptions(new VirtualDisk()), segmentBytes: 16 << 20 };
  const { storage } = await openBinlog(options);
  const writer = new JobWriter(storage);
  for (let id = 1; id <= 250; id++) writer.put(id, `${id} `.repeat(3000));
  for (let id = 1; id <= 250; id++) writer.move(id, `a-longer-name-${id}`, 9e12);
  writer.settle(10);
  storage.close(20);
  assert.deepEqual(await jobsOfLog(options), writer.jobs);
});

/** Returns an open batch with tallies and a complete one, if that many ids were given. */
function batchesBelow(nextId: number): LoggedBatch[] {
  const times = { keepMs: 1500, openedAtMs: 1_790_000_000_000.25, completeAtMs: 0, allDone: 0, allFailed: 0 };
  const open = { name: "open/1", state: BatchState.Open, outcome: BatchOutcome.None, ...times };
  const ended = { ...open, name: "ended", state: BatchState.Complete, outcome: BatchOutcome.Failure };
  const all: LoggedBatch[] = [
    {
      facts: { ...open, number: 1 },
      tallies: [
        { number: 1, shard: 0, done: 7, failed: 1 },
        { number: 1, shard: 5, done: 0, failed: 2 },
      ],
    },
    {
      facts: { ...ended, number: 2, completeAtMs: 1_790_000_000_001, allDone: 3, allFailed: 4 },
      tallies: [],
    },
  ];
  return all.filter(({ facts }) => facts.number < nextId);
}

test("a dump with a batch that can't be is refused, with its line and what is wrong", async () => {
  const [open, ended] = batchesBelow(3).map(batchLine);
  const asked = async (...lines: unknown[]): Promise<string> => {
    const texts = [{ runnerbeanDump: 3, nextId: 3 }, ...lines].map((line) => JSON.stringify(line));
    try {
      for await (const part of readDump(Readable.from(texts))) assert.ok(part);
    } catch (error) {
      return (error as Error).message;
    }
    return "";
  };
  assert.match(await asked(open, ended), /Line 4 .* the end is missing/);
  const { batch, tallies } = open!;
  for (const [line, said] of [
    [{ batch: { ...batch, number: 3 }, tallies }, /number of the batch was never assigned/],
    [{ batch: { ...batch, number: 0 }, tallies }, /number of the batch was never assigned/],
    [{ batch: { ...batch, number: 1.5 }, tallies }, /batch's number/],
    [{ batch: { ...batch, name: "a b" }, tallies }, /name of the batch/],
    [{ batch: { ...batch, name: "a".repeat(201) }, tallies }, /name of the batch/],
    [{ batch: { ...batch, state: 0 }, tallies }, /forgotten/],
    [{ batch: { ...batch, state: 9 }, tallies }, /batch's state/],
    [{ batch: { ...batch, keepMs: null }, tallies }, /batch's keepMs/],
    [{ batch: 7, tallies }, /batch's number/],
    [{ batch }, /tallies of the batch are missing/],
    [{ batch, tallies: [{ number: 1, shard: 65_536, done: 0, failed: 0 }] }, /tally's shard/],
    [{ batch, tallies: [{ number: 1, shard: 0, done: -1, failed: 0 }] }, /tally's done/],
    [{ batch, tallies: [{ number: 2, shard: 0, done: 0, failed: 0 }] }, /another batch/],
  ] as const)
    assert.match(await asked(line), said);
  assert.match(await asked(open, { ...ended, batch: { ...ended!.batch, name: batch.name } }), /twice/);
  assert.match(await asked(open, { ...ended, batch: { ...ended!.batch, number: 1 } }), /twice/);
});

test("jobs come back from a dump as they were", async () => {
  await fc.assert(
    fc.asyncProperty(jobsOf, async (jobs) => {
      const opened = await openBinlog(virtualOptions(await logOf(jobs)));
      const batches = batchesBelow(opened.nextId);
      const text = [
        ...dumpLines(
          opened.jobs(() => 0),
          opened.nextId,
          { settings: new Map([["mail*", "max-jobs=5"]]), batches, hasAttributes: true },
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
        else if ("setting" in part) appendSetting(storage, part.setting, part.text);
        else if ("facts" in part) appendBatch(storage, part);
        else restoreJob(storage, part.job, part.body);
      }
      storage.close(0);
      const again = await openBinlog(virtualOptions(disk));
      assert.deepEqual([...again.settings], [["mail*", "max-jobs=5"]]);
      assert.deepEqual(again.batches, batches);
      const found = new Map([...recoveredTexts(again, 1)].filter(([id]) => id > 0));
      assert.deepEqual(found, new Map(jobs.map(textOf)));
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
      const { jobsWithAttributes } = exportForBeanstalkd(
        opened.jobs(() => 0),
        out,
      );
      assert.equal(jobsWithAttributes, jobs.filter(({ attributes }) => attributes.length > 0).length);
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
          counters: fields.counters.map((count, at) =>
            buried && at === JobCounter.buries ? count - 1 : count,
          ),
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

test("bodies that end with a line of the dump come back, and those a byte shorter or longer", async () => {
  const LINE_BYTES = 3 * 1024 * 1024;
  for (const bodyBytes of [LINE_BYTES - 1, LINE_BYTES, LINE_BYTES + 1, 2 * LINE_BYTES]) {
    const body = new Uint8Array(bodyBytes).fill(0x61);
    body[bodyBytes - 1] = 0x7a;
    const fields = { ...emptyRecordFields(), id: 7, createdAtMs: 1, deadlineAtMs: 1 };
    const record = encoded({ fields, tube: "t", body, attributes: Buffer.alloc(0) });
    const bytes = new Uint8Array(new SharedArrayBuffer(record.bytes.length));
    bytes.set(record.bytes);
    const recovered = [{ bytes, jobs: [Uint32Array.of(0)] }];
    const lines = [...dumpLines(recovered, 8)].map((line) => line.slice(0, -1));
    const bodies: Buffer[] = [];
    for await (const part of readDump(Readable.from(lines)))
      if (typeof part === "object" && "body" in part) bodies.push(part.body);
    assert.deepEqual(
      bodies.map((each) => each.equals(body)),
      [true],
      `${bodyBytes} bytes`,
    );
  }
});
