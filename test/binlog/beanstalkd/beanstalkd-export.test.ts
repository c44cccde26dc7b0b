// Tests of exports to beanstalkd 1.12, which reads them, and of the way back.

import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { exportBeanstalkd } from "../../../src/binlog/tools/tools.ts";
import { RecordState } from "../../../src/message/record.ts";
import { canRun, NEEDS } from "../../support/machine/need.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { startServer } from "../../support/server/server-process.ts";
import { WireClient } from "../../support/server/wire-client.ts";
import { recoveredTexts } from "../model.ts";
import { realOptions } from "../sample/real-options.ts";
import { JobWriter } from "../sample/sample-log.ts";
import { ourLog, partsOf, statsJob, takeOver, withBeanstalkd } from "./beanstalkd-logs.ts";

test("export writes a log that beanstalkd 1.12 reads: ids, states, counts, order, bodies", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const jobs = await ourLog(path);
  const out = join(temporaryFolder(t), "out");
  const result = await exportBeanstalkd({ path }, out);
  assert.deepEqual(result, {
    jobs: jobs.size,
    files: 1,
    neededMaxJobBytes: 300_002,
    attributesDropped: 0,
    jobsWithAttributes: 0,
    keysDropped: 0,
    settingsDropped: 0,
    schedulesDropped: 0,
    waitsBuried: 0,
    cancelledDropped: 0,
  });
  const stderr = await withBeanstalkd(out, ["-z", "300002"], async (client) => {
    for (const text of jobs.values()) {
      const job = partsOf(text);
      const stats = await statsJob(client, job.id);
      const state =
        job.state === RecordState.buried ? "buried" : job.state === RecordState.delayed ? "delayed" : "ready";
      assert.deepEqual(
        [stats["state"], stats["tube"], Number(stats["pri"]), Number(stats["ttr"]), Number(stats["delay"])],
        [state, job.tube, job.pri, job.ttr, job.delay],
      );
      assert.deepEqual(
        ["reserves", "timeouts", "releases", "buries", "kicks"].map((key) => Number(stats[key])),
        [job.reserves, job.timeouts, job.releases, job.buries, job.kicks],
      );
      if (job.id === 5) assert.ok(Number(stats["time-left"]) > 980);
      assert.equal((await client.ask(`peek ${job.id}`)).body!.toString("latin1"), job.body);
    }
    await client.ask("use even");
    assert.match((await client.ask("peek-buried")).line, /^FOUND 12 /);
    assert.equal((await client.put("next")).line, "INSERTED 24");
  });
  assert.equal(stderr, "");
});

test("a takeover and an export back to beanstalkd give the same jobs", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const jobs = await ourLog(path);
  const out = join(temporaryFolder(t), "out");
  await exportBeanstalkd({ path }, out);
  const opened = await openBinlog(realOptions(out));
  const back = recoveredTexts(opened, 1);
  opened.storage.close(0);
  assert.equal(back.size, jobs.size);
  for (const [id, text] of jobs) {
    const [there, here] = [partsOf(back.get(id)!), partsOf(text)];
    // A burial is one more in beanstalkd after it reads the job, so the file says one less.
    if (here.state === RecordState.buried) there.buries! += 1;
    if (here.state !== RecordState.delayed) here.deadline = 0;
    assert.ok(
      Math.abs(there.created - here.created) < 0.01 && Math.abs(there.deadline - here.deadline) < 0.01,
    );
    assert.deepEqual({ ...there, created: 0, deadline: 0 }, { ...here, created: 0, deadline: 0 });
  }
});

test("beanstalkd reads exported bodies of 65,534 and 65,535 bytes with the -z that export names", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const opened = await openBinlog(realOptions(path));
  const writer = new JobWriter(opened.storage);
  writer.put(1, "a".repeat(65_534));
  writer.put(2, "b".repeat(65_535));
  writer.settle();
  opened.storage.close(0);
  const out = join(temporaryFolder(t), "out");
  const { neededMaxJobBytes } = await exportBeanstalkd({ path }, out);
  assert.equal(neededMaxJobBytes, 65_537);
  await withBeanstalkd(out, ["-z", String(neededMaxJobBytes)], async (client) => {
    assert.equal((await client.ask("peek 1")).body!.length, 65_534);
    assert.equal((await client.ask("peek 2")).body!.length, 65_535);
  });
});

test("a job that waits for a batch is exported as buried, behind all that were", async (t) => {
  const path = temporaryFolder(t);
  const server = await startServer({ kind: "ours", flags: ["-b", path] });
  t.after(() => server.kill());
  const client = await WireClient.connect(server.address);
  assert.equal((await client.ask("open-batch rows")).line, "OPENED");
  assert.equal((await client.ask("put-in-tube calls 0 0 60 1 after=rows\r\nx")).line, "INSERTED 2");
  assert.equal((await client.ask("put-in-tube calls 0 0 60 1\r\ny")).line, "INSERTED 3");
  await client.ask("watch calls");
  assert.match((await client.ask("reserve")).line, /^RESERVED 3 /);
  assert.equal((await client.ask("bury 3 0")).line, "BURIED");
  await server.stop();
  const out = join(temporaryFolder(t), "out");
  await exportBeanstalkd({ path }, out);
  const opened = await openBinlog(realOptions(out));
  const texts = recoveredTexts(opened, 1);
  const [waited, buried] = [partsOf(texts.get(2)!), partsOf(texts.get(3)!)];
  opened.storage.close(0);
  assert.equal(waited.state, RecordState.buried);
  assert.ok(waited.burySequence! > buried.burySequence!, "kicks take first what was buried before");
});

test("export begins another file of beanstalkd before one is longer than 10 MiB", async (t) => {
  const path = temporaryFolder(t);
  const opened = await openBinlog(realOptions(path));
  const writer = new JobWriter(opened.storage);
  for (let id = 1; id <= 220; id++) writer.put(id, "x".repeat(60_000));
  writer.settle();
  opened.storage.close(0);
  const out = join(temporaryFolder(t), "out");
  const { jobs, files } = await exportBeanstalkd({ path }, out);
  assert.deepEqual([jobs, files], [220, 2]);
  const [first, second] = [1, 2].map((number) => statSync(join(out, `binlog.${number}`)).size);
  assert.ok(first! > 10 * 2 ** 20 - 70_000 && first! <= 10 * 2 ** 20, `${first} bytes`);
  assert.ok(first! + second! > 220 * 60_000);
  assert.equal((await takeOver(out)).ids.length, 220);
});
