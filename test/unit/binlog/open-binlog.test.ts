// Tests that nothing of any kind of record is lost or changed, whatever becomes of a log: a start,
// compaction, a rewrite, a salvage, a dump, a group, an export.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { segmentName } from "../../../src/base/text.ts";
import { exportForBeanstalkd } from "../../../src/binlog/beanstalkd/beanstalkd-export.ts";
import { readBeanstalkdLog } from "../../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { openFollowLog } from "../../../src/binlog/following.ts";
import { LENT_IDS } from "../../../src/binlog/live/log-writer.ts";
import type { Storage } from "../../../src/binlog/live/storage.ts";
import { appendSetting } from "../../../src/binlog/live/whole-job.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { settingsOf } from "../../../src/binlog/recovery/log-recovery.ts";
import type { OpenOptions } from "../../../src/binlog/recovery/open-options.ts";
import { readLog, segmentNumbers } from "../../../src/binlog/recovery/read-log.ts";
import { recoveredJobs } from "../../../src/binlog/recovery/recovered-jobs.ts";
import { rewriteLog } from "../../../src/binlog/recovery/salvage.ts";
import { dumpLines, restoreLog } from "../../../src/binlog/tools/dump.ts";
import { inspectLog } from "../../../src/binlog/tools/inspect-log.ts";
import { logBatchesOf } from "../../../src/message/log-batch.ts";
import { RecordState } from "../../../src/message/record.ts";
import { Attribute, countAttributes, findAttribute } from "../../../src/protocol/job-attribute.ts";
import {
  contentAfterStart,
  LASTS,
  type Last,
  SHARDS,
  writeEveryRecord,
} from "../../binlog/sample/every-record.ts";
import { virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";

const optionsOf = (disk: VirtualDisk): OpenOptions => ({ ...virtualOptions(disk), shards: SHARDS });

/** A closed log with every record, and its content. */
async function everyRecord(last: Last = "job") {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(optionsOf(disk));
  const content = writeEveryRecord(storage, last);
  storage.close(0);
  return { disk, content };
}

/** What becomes of a log, and where it is then. */
type Way = (disk: VirtualDisk) => Promise<VirtualDisk>;

const FILLER = "x".repeat(2000);
const EXTENT_BYTES = 8192;

const compacted: Way = async (disk) => {
  compact((await openBinlog(optionsOf(disk))).storage);
  return disk;
};

/** Writes until no record that was there is in its place any more, and closes the log. */
function compact(storage: Storage): void {
  const before = storage.tail.segments.current.number;
  while (storage.table.oldest!.number <= before) {
    appendSetting(storage, "filler", FILLER);
    storage.flush(0);
    while (storage.work(0)) storage.flush(0);
  }
  appendSetting(storage, "filler", "");
  assert.equal(storage.failure, undefined);
  storage.close(0);
}

const rewritten: Way = async (disk) => {
  const old = segmentNumbers(disk);
  const { verdict, books } = await readLog(optionsOf(disk), false);
  rewriteLog(optionsOf(disk), verdict, books);
  for (const number of old) disk.unlink(segmentName(number));
  return disk;
};

/** The damage hits a record that no longer counts. */
const salvaged: Way = async (disk) => {
  const { storage } = await openBinlog(optionsOf(disk));
  const name = segmentName(storage.tail.segments.current.number);
  appendSetting(storage, "filler", FILLER);
  appendSetting(storage, "filler", "");
  storage.close(0);
  const bytes = disk.contentOf(name);
  bytes[Buffer.from(bytes).indexOf(FILLER) + 1000]! ^= 1;
  await assert.rejects(openBinlog(optionsOf(disk)), { code: "BINLOG_CORRUPT" });
  (await openBinlog({ ...optionsOf(disk), salvage: true })).storage.close(0);
  return disk;
};

const dumped: Way = async (disk) => {
  const { verdict, books } = await readLog(optionsOf(disk), false);
  const extras = {
    settings: settingsOf(books),
    batches: books.index.batches.list(),
    hasAttributes: verdict.kept.some((scan) => scan.hasAttributes),
  };
  const jobs = recoveredJobs({ disk, scans: verdict.kept, index: books.index }, 1, () => 0);
  const lines = [...dumpLines(jobs, books.index.maxId + 1, extras)];
  async function* read() {
    yield* lines.map((line) => line.slice(0, -1));
  }
  const other = new VirtualDisk();
  await restoreLog(optionsOf(other), read());
  return other;
};

/** The log leads a group, and another node follows it from the beginning. */
const followed: Way = async (disk) => {
  const { verdict } = await readLog(optionsOf(disk), false);
  const leader = await openFollowLog(optionsOf(disk), verdict.lastSequence, EXTENT_BYTES);
  const other = new VirtualDisk();
  const standby = await openFollowLog(optionsOf(other), 0, EXTENT_BYTES);
  const lead = logBatchesOf(leader.leadBatch(1, 1001))![0]!;
  for (const log of [leader, standby]) log.apply(lead);
  const { place, rewriteBelow } = leader;
  leader.close();
  const sink = {
    ...{ hasRoom: true, acknowledged: place.n, acknowledgedMessage: 0 },
    take: (bytes: Uint8Array): void => {
      for (const batch of logBatchesOf(bytes)!) standby.apply(batch);
      sink.acknowledged = standby.place.n;
    },
  };
  let tag = 1001;
  const chain = { place, node: 1, rewriteBelow, randomTag: () => ++tag, sink };
  const { storage } = await openBinlog({ ...optionsOf(disk), chain });
  for (let nowMs = 0; storage.table.oldest!.number < rewriteBelow; nowMs += 10) {
    storage.flush(nowMs);
    storage.work(nowMs);
    assert.ok(nowMs < 1e6, "the segments from before are written again");
  }
  storage.close(1e6);
  standby.close();
  return other;
};

const WAYS: Readonly<Record<string, Way>> = {
  "a start": async (disk) => disk,
  "two starts": async (disk) => {
    (await openBinlog(optionsOf(disk))).storage.close(0);
    return disk;
  },
  compaction: compacted,
  "compaction twice": async (disk) => compacted(await compacted(disk)),
  "a rewrite": rewritten,
  "a dump and a restore": dumped,
  "a group": followed,
  "a group that is led by the standby": async (disk) => followed(await followed(disk)),
};

describe("every record", () => {
  for (const [way, go] of Object.entries(WAYS))
    for (const last of LASTS)
      it(`is there after ${way}, and the id of a last ${last} is not given again`, async () => {
        const { disk, content } = await everyRecord(last);
        assert.deepEqual(await contentAfterStart(optionsOf(await go(disk))), content);
      });

  for (const last of LASTS)
    it(`is there after compaction in the same run, and the id of a last ${last} is not given again`, async () => {
      const disk = new VirtualDisk();
      const { storage } = await openBinlog(optionsOf(disk));
      const content = writeEveryRecord(storage, last);
      compact(storage);
      assert.deepEqual(await contentAfterStart(optionsOf(disk)), content);
    });

  it("is there after a salvage, and ids go on behind those that the damage may hide", async () => {
    for (const last of LASTS) {
      const { disk, content } = await everyRecord(last);
      const found = await contentAfterStart(optionsOf(await salvaged(disk)));
      assert.deepEqual(found, { ...content, nextId: content.nextId + LENT_IDS }, last);
    }
  });

  it("is there after all of this, one after the other", async () => {
    const { disk, content } = await everyRecord();
    const ways = [followed, compacted, dumped, salvaged, followed, rewritten, compacted, dumped];
    let at = disk;
    for (const way of ways) at = await way(at);
    const found = await contentAfterStart(optionsOf(at));
    assert.deepEqual(found, { ...content, nextId: content.nextId + LENT_IDS });
  });

  it("is there after a kill at any moment of a compaction", async () => {
    const { disk, content } = await everyRecord();
    const { storage } = await openBinlog(optionsOf(disk));
    const before = storage.tail.segments.current.number;
    const text = (): string => (content.settings.get("filler") ?? "") + 1;
    for (let turn = 0; storage.table.oldest!.number < before; turn++) {
      content.settings.set("filler", text().slice(-1000).padStart(1000, "x"));
      appendSetting(storage, "filler", content.settings.get("filler")!);
      storage.flush(turn);
      storage.work(turn);
      storage.flush(turn);
      assert.deepEqual(await contentAfterStart(optionsOf(disk.clone())), content, `turn ${turn}`);
    }
  });
});

describe("a log with every record", () => {
  it("is counted by an inspection", async () => {
    const { disk, content } = await everyRecord();
    const { verdict, books } = await readLog(optionsOf(disk), false);
    const report = inspectLog(disk, verdict, books);
    const states = [...content.jobs.values()].map((text) => Number(text.split(" ")[1]));
    const countOf = (state: RecordState): number => states.filter((each) => each === state).length;
    const sum = (of: "ready" | "delayed" | "buried" | "remembered" | "schedules"): number =>
      report.tubes.reduce((all, tube) => all + tube[of], 0);
    assert.deepEqual(
      [sum("ready"), sum("delayed"), sum("buried"), sum("remembered"), sum("schedules")],
      Object.values(RecordState).map(countOf),
    );
    const { jobs, remembered, schedules, nextId, settings } = report;
    assert.deepEqual(
      [jobs, remembered, schedules, nextId],
      [content.jobCount, countOf(RecordState.remembered), countOf(RecordState.schedule), content.nextId],
    );
    assert.deepEqual(new Map(settings.map(({ pattern, text }) => [pattern, text])), content.settings);
  });

  it("is exported with all that beanstalkd can express, and the rest is told", async () => {
    const { disk, content } = await everyRecord();
    const { verdict, books } = await readLog(optionsOf(disk), false);
    const jobs = recoveredJobs({ disk, scans: verdict.kept, index: books.index }, 1, () => 0);
    const out = new VirtualDisk();
    const result = exportForBeanstalkd(jobs, out, content.settings.size);
    const ours = [...content.jobs.values()].map(partsOf);
    const exported = ours.filter(({ state }) => state <= RecordState.buried);
    const withAttributes = exported.filter(({ attributes }) => attributes.length > 0);
    const waiting = withAttributes.filter(({ attributes }) => has(attributes, Attribute.After));
    assert.ok(exported.length > withAttributes.length && waiting.length > 1);
    assert.deepEqual(result, {
      ...{ jobs: content.jobCount, files: 1, neededMaxJobBytes: 0 },
      attributesDropped: exported.reduce((sum, { attributes }) => sum + count(attributes), 0),
      jobsWithAttributes: withAttributes.length,
      keysDropped: ours.filter(({ state }) => state === RecordState.remembered).length,
      settingsDropped: content.settings.size,
      schedulesDropped: ours.filter(({ state }) => state === RecordState.schedule).length,
      waitsBuried: waiting.length,
      cancelledDropped: 0,
    });
    const theirs = readBeanstalkdLog(out, false).jobs;
    assert.equal(theirs.size, exported.length);
    for (const job of exported) {
      const state = waiting.includes(job) ? RecordState.buried : job.state;
      const { fields, tube } = theirs.get(job.id)!;
      const buries = job.counts[3]! - (state === RecordState.buried ? 1 : 0);
      assert.deepEqual(
        [
          fields.state,
          fields.pri,
          fields.delaySeconds,
          fields.ttrSeconds,
          fields.createdAtMs,
          ...fields.counters,
        ],
        [state, ...job.numbers, ...job.counts.with(3, buries)],
      );
      if (state === RecordState.delayed) assert.equal(fields.deadlineAtMs, job.deadlineAtMs);
      assert.equal(Buffer.from(tube).toString(), job.tube);
    }
    // Those that waited come behind all that were buried.
    const order = [...theirs.values()]
      .map(({ fields }) => fields)
      .filter(({ state }) => state === RecordState.buried)
      .sort((a, b) => a.burySequence - b.burySequence)
      .map(({ id }) => id);
    const buried = exported.filter((job) => job.state === RecordState.buried && !waiting.includes(job));
    const first = buried.sort((a, b) => a.burySequence - b.burySequence).map(({ id }) => id);
    assert.deepEqual(order.slice(0, first.length), first);
    assert.equal(order.length, first.length + waiting.length);
  });
});

/** The parts of a job's text in the content of a log. */
function partsOf(text: string) {
  const words = text.split(" ");
  const [id, state, pri, delay, ttr, created, deadlineAtMs] = words.map(Number) as number[];
  const counts = words[7]!.split(",").map(Number);
  return {
    ...{ id: id!, state: state!, deadlineAtMs: deadlineAtMs!, tube: words[8]! },
    numbers: [pri!, delay!, ttr!, created!],
    counts: counts.slice(0, 5),
    burySequence: counts[5]!,
    attributes: Buffer.from(words.at(-1)!, "hex"),
  };
}

const has = (attributes: Uint8Array, tag: Attribute): boolean =>
  findAttribute(attributes, 0, attributes.length, tag) >= 0;
const count = (attributes: Uint8Array): number => countAttributes(attributes, 0, attributes.length);
