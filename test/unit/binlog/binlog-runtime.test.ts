// Tests of what opens the log for its thread: the jobs that each shard gets, the news for the main
// thread, and refusals.

import assert from "node:assert/strict";
import { once } from "node:events";
import { it, type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { MessageChannel } from "node:worker_threads";
import { type BinlogNews, BinlogRuntime, ShardFeed } from "../../../src/binlog/binlog-runtime.ts";
import { DirectoryLock } from "../../../src/binlog/disk/directory-lock.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { Point } from "../../../src/loop/role.ts";
import { ControlWord, createTopology } from "../../../src/message/topology.ts";
import { wallOffsetMs } from "../../../src/ring/monotonic-clock.ts";
import { ControlWords, FileTable, isLent, LentIds, LogWord } from "../../../src/ring/shared-words.ts";
import { recoveredTexts } from "../../binlog/model.ts";
import { realOptions } from "../../binlog/sample/real-options.ts";
import { JobWriter } from "../../binlog/sample/sample-log.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";

const SHARDS = 2;

/** What a shard gets while the log is opened: the ids of its jobs, and the settings and the end. */
interface Loaded {
  readonly ids: number[];
  readonly others: unknown[];
}

function scene(t: TestContext, directory: string) {
  const topology = createTopology({
    shards: SHARDS,
    acceptors: 1,
    jobBytesMax: 65_535,
    ringBytes: 4096,
    binlog: { repliesWaitFor: LogWord.Synced, segmentBytes: 1 << 20 },
  });
  const news: BinlogNews[] = [];
  const shards: Loaded[] = [];
  const recovery = Array.from({ length: SHARDS }, () => {
    const { port1: log, port2: shard } = new MessageChannel();
    const loaded: Loaded = { ids: [], others: [] };
    shards.push(loaded);
    shard.on("message", (message: "end" | { bytes?: Uint8Array; offsets?: Uint32Array }) => {
      if (message === "end" || message.offsets === undefined) loaded.others.push(message);
      else {
        const view = new DataView(message.bytes!.buffer, message.bytes!.byteOffset);
        for (const offset of message.offsets) loaded.ids.push(view.getFloat64(offset + 8, true));
      }
      const isSettings = message !== "end" && message.offsets === undefined;
      if (message === "end") shard.postMessage({ warnings: [`shard ${shards.indexOf(loaded)}`] });
      else if (!isSettings) shard.postMessage("loaded");
    });
    t.after(() => shard.close());
    return log;
  });
  const data = {
    topology,
    directory,
    segmentBytes: 1 << 20,
    syncEvery: 0,
    salvage: false,
    instanceId: "0123456789abcdef",
  } as const;
  const runtime = new BinlogRuntime({ ...data, recovery, group: undefined }, (each) => news.push(each));
  const control = new ControlWords(topology.control);
  const named = (name: BinlogNews["news"]): BinlogNews[] => news.filter((each) => each.news === name);
  return { topology, runtime, control, shards, news, named };
}

/** A log of 100 jobs in ten tubes, and a setting. */
async function logIn(directory: string): Promise<number[]> {
  const { storage } = await openBinlog(realOptions(directory));
  const writer = new JobWriter(storage);
  const ids = Array.from({ length: 100 }, (_, index) => index + 1);
  for (const id of ids) writer.put(id, "x".repeat(id), `tube-${id % 10}`);
  writer.set("m*", "max-attempts=3");
  storage.close(0);
  return ids;
}

test("an opened log gives each shard its jobs, tells the main thread, and is closed at the end", async (t) => {
  const directory = temporaryFolder(t);
  const ids = await logIn(directory);
  const { topology, runtime, control, shards, news, named } = scene(t, directory);
  const loop = await runtime.open();
  assert.ok(loop !== undefined);
  assert.deepEqual(
    shards.flatMap((each) => each.ids).sort((a, b) => a - b),
    ids,
  );
  for (const { ids: its, others } of shards) {
    assert.ok(its.length > 0);
    const [{ clockOffsetMs, ...first }, ...rest] = others as [Record<string, unknown>, unknown];
    assert.deepEqual([first, ...rest], [{ settings: [["m*", "max-attempts=3"]], batches: [] }, "end"]);
    assert.ok(Math.abs(Number(clockOffsetMs) - wallOffsetMs()) < 1000, "the log's clock is the wall clock");
  }
  const [recovered] = named("recovered");
  assert.ok(recovered?.news === "recovered" && recovered.jobs === 100 && recovered.ms >= 0);
  assert.ok(named("progress").length > 0);
  assert.deepEqual(
    named("notice").map((each) => each.news === "notice" && each.notice.message),
    ["shard 0", "shard 1"],
  );
  assert.equal(new FileTable(topology.binlog!.files).find(50), 1);
  const { low } = new LentIds(control.words, ControlWord.IdsLent);
  assert.ok(isLent(low, 100));
  assert.throws(() => DirectoryLock.take(directory), { code: "BINLOG_LOCKED" });
  control.set(ControlWord.BinlogStop);
  while (loop.next() !== Point.Ended);
  runtime.close();
  const last = news.at(-1);
  assert.ok(last?.news === "closed" && last.timings.length > 0, JSON.stringify(last));
  DirectoryLock.take(directory).release();
});

test("a log that another server has is refused, with what to do", async (t) => {
  const directory = temporaryFolder(t);
  const lock = DirectoryLock.take(directory);
  const { runtime, news, control } = scene(t, directory);
  assert.equal(await runtime.open(), undefined);
  lock.release();
  const [refused] = news;
  assert.ok(refused?.news === "refused" && refused.code === "BINLOG_LOCKED" && refused.nextStep !== "");
  assert.match(refused.message, /is locked by/);
  assert.equal(control.isSet(ControlWord.NoMoreReplies), false);
});

test("a stop while the log is opened ends that, and the next start finds all jobs", async (t) => {
  const directory = temporaryFolder(t);
  const ids = await logIn(directory);
  const { runtime, control, news, shards } = scene(t, directory);
  control.set(ControlWord.BinlogStop);
  assert.equal(await runtime.open(), undefined);
  assert.equal(news.at(-1)?.news, "closed");
  assert.deepEqual(
    shards.map((each) => each.ids),
    [[], []],
  );
  assert.equal(recoveredTexts(await openBinlog(realOptions(directory)), 1).size, ids.length + 1);
});

// Tests of what sends the jobs of a recovered log to a shard: how far ahead it is, and its end.

it("a shard gets two batches ahead, its warnings are told, and the end waits for all of it", async () => {
  const { port1: log, port2: shard } = new MessageChannel();
  const warnings: string[] = [];
  const feed = new ShardFeed(log, (warning) => warnings.push(warning));
  const done: string[] = [];
  const send = (number: number): Promise<void> =>
    feed
      .send({ bytes: Uint8Array.of(number), offsets: Uint32Array.of(0) })
      .then(() => void done.push(`${number}`));
  const closed = once(shard, "close");
  const got: unknown[] = [];
  shard.on("message", (message: { bytes: Uint8Array } | "end") =>
    got.push(message === "end" ? message : message.bytes[0]),
  );
  await send(1);
  await send(2);
  const third = send(3);
  while (got.length < 3) await turn();
  assert.deepEqual(done, ["1", "2"], "a third waits until one is loaded");
  shard.postMessage("loaded");
  await third;
  const end = feed.end().then(() => void done.push("end"));
  while (got.length < 4) await turn();
  shard.postMessage({ warnings: ["odd", "strange"] });
  shard.postMessage("loaded");
  while (warnings.length < 2) await turn();
  await turn();
  assert.deepEqual(done, ["1", "2", "3"], "the end waits for the last batch");
  shard.postMessage("loaded");
  await end;
  assert.deepEqual(
    [got, warnings],
    [
      [1, 2, 3, "end"],
      ["odd", "strange"],
    ],
  );
  await closed;
});
