// Tests of the metrics of batches and schedules, over several shards and a restart.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { eventually } from "../../support/eventually.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { type HttpServer, startHttpServer } from "../../support/server/http-server.ts";
import { WireClient } from "../../support/server/wire-client.ts";

/** Values by name and label, as in `batches open`. */
type Figures = Readonly<Record<string, number>>;

async function figuresOf(server: HttpServer): Promise<Figures> {
  const { text } = await server.ask("/metrics");
  const lines = text.matchAll(/^runnerbean_((?:batch|schedule)\w*)(?:\{\w+="(\w+)"\})? (\S+)$/gm);
  return Object.fromEntries(
    Array.from(lines, ([, name, label, value]) => [
      label === undefined ? name! : `${name} ${label}`,
      Number(value),
    ]),
  );
}

/** Waits until these figures have these values, and returns all. */
async function have(server: HttpServer, wanted: Figures): Promise<Figures> {
  let figures: Figures = {};
  return await eventually(
    () => JSON.stringify(figures),
    async () => {
      figures = await figuresOf(server);
      return Object.entries(wanted).every(([name, value]) => figures[name] === value) ? figures : undefined;
    },
  );
}

/** A server with a log, and a connection to it. */
async function start(
  t: TestContext,
  log: string,
): Promise<{ server: HttpServer; say: (line: string) => Promise<string>; stop: () => Promise<unknown> }> {
  const server = await startHttpServer("--shards", "3", "--acceptors", "1", "-b", log);
  const client = await WireClient.connect(server.process.address);
  t.after(async () => {
    client.close();
    await server.process.stop();
  });
  return {
    server,
    say: async (line) => (await client.ask(line)).line,
    stop: async () => {
      client.close();
      await server.process.stop();
    },
  };
}

function emptyLog(t: TestContext): string {
  const log = join(temporaryFolder(t, "flow-metrics"), "log");
  mkdirSync(log);
  return log;
}

describe("metrics of flows", () => {
  it("count batches, their members and callbacks, and say how old the oldest is", async (t) => {
    const log = emptyLog(t);
    const { server, say, stop } = await start(t, log);
    await have(server, { "batches open": 0, batch_open_seconds: 0, batch_unfinished_seconds: 0 });
    for (const name of ["good", "bad", "gone", "left"])
      assert.equal(await say(`open-batch ${name}`), "OPENED");
    const ids: string[] = [];
    for (const [tube, options] of [
      ["a", "batch=good"],
      ["b", "batch=bad"],
      ["c", "batch=gone"],
      ["d", "after=good"],
      ["e", "after=bad"],
      ["f", "after-any=bad"],
    ])
      ids.push((await say(`put-in-tube ${tube} 0 0 60 1 ${options}\r\nx`)).split(" ")[1]!);
    const open = await have(server, {
      ...{ "batches open": 4, "batches committed": 0, "batches complete": 0, batches_opened_total: 4 },
      ...{ batch_members: 3, batch_callbacks_waiting: 3, "batch_members_ended_total done": 0 },
    });
    assert.ok(open["batch_open_seconds"]! > 0);
    assert.ok(open["batch_unfinished_seconds"]! >= open["batch_open_seconds"]!);
    assert.equal(await say("commit-batch good"), "COMMITTED");
    assert.equal(await say("commit-batch bad"), "COMMITTED");
    await have(server, { "batches open": 2, "batches committed": 2 });
    await say("watch a");
    assert.match(await say("reserve"), /^RESERVED/);
    assert.equal(await say(`delete ${ids[0]}`), "DELETED");
    // Not deleted by a worker.
    assert.equal(await say(`delete ${ids[1]}`), "DELETED");
    assert.equal(await say("cancel-batch gone"), "CANCELLED");
    await have(server, {
      ...{ "batches open": 1, "batches committed": 0, "batches cancelled": 0, "batches complete": 3 },
      ...{ "batches_completed_total success": 1, "batches_completed_total cancelled": 1 },
      ...{ "batches_completed_total failure": 1, batch_members: 0, batch_callbacks_waiting: 0 },
      ...{ "batch_members_ended_total done": 1, "batch_members_ended_total failed": 2 },
      ...{ "batch_callbacks_total released": 2, "batch_callbacks_total buried": 1 },
    });
    assert.equal(await say("commit-batch left"), "COMMITTED");
    await have(server, { "batches open": 0, "batches complete": 4, batch_unfinished_seconds: 0 });
    assert.match(await say("open-batch young"), /OPENED/);
    assert.match(await say("put-in-tube g 0 0 60 1 batch=young after=left\r\nx"), /^INSERTED/);
    await stop();
    const again = await start(t, log);
    const after = await have(again.server, {
      ...{ "batches open": 1, "batches complete": 4, batches_opened_total: 0, batch_members: 1 },
      ...{ "batches_completed_total success": 0, "batch_members_ended_total done": 0 },
    });
    assert.ok(after["batch_open_seconds"]! > 0, "its age is not that of this run");
  });

  it("forget a batch that is forgotten", async (t) => {
    const { server, say } = await start(t, emptyLog(t));
    assert.equal(await say("open-batch short keep=0"), "OPENED");
    assert.equal(await say("commit-batch short"), "COMMITTED");
    await have(server, { batches_opened_total: 1, "batches open": 0, "batches complete": 0 });
  });

  it("count schedules and their ticks, and say which are refused, and since when", async (t) => {
    const { server, say } = await start(t, emptyLog(t));
    const none = await have(server, { "schedules active": 0, schedule_late_seconds: 0 });
    assert.ok(!("schedule_next_seconds" in none));
    for (const name of ["yearly", "paused"])
      assert.equal(await say(`set-schedule ${name} t 0 0 60 1 cron=@yearly\r\nx`), "SET");
    assert.equal(await say("pause-schedule paused"), "PAUSED");
    assert.match(await say("run-schedule yearly"), /^INSERTED/);
    const { schedule_next_seconds: next } = await have(server, {
      ...{ "schedules active": 1, "schedules paused": 1, schedule_runs_total: 1 },
      ...{ "schedule_ticks_total put": 0 },
    });
    assert.ok(next! > 0 && next! <= 366 * 86_400);

    assert.match(await say("set-tube full max-jobs=1"), /^SET/);
    assert.equal(await say("set-schedule often full 0 0 60 1 every=1\r\nx"), "SET");
    await have(server, { "schedule_ticks_total put": 1 });
    const refused = await eventually("it is refused and late", async () => {
      const figures = await figuresOf(server);
      const isLate = figures["schedules refused"] === 1 && figures["schedule_late_seconds"]! > 0.2;
      return isLate && figures["schedule_ticks_total missed"]! > 0 ? figures : undefined;
    });
    assert.equal(refused["schedules active"], 1);
    assert.ok(refused["schedule_refusals_total"]! > 0);
    assert.equal(await say("pause-schedule often"), "PAUSED");
    await have(server, { "schedules refused": 0, "schedules paused": 2, schedule_late_seconds: 0 });
    assert.equal(await say("clear-tube full"), "CLEARED 1");
    assert.equal(await say("resume-schedule often"), "RESUMED");
    await have(server, { "schedule_ticks_total put": 2 });
    for (const name of ["often", "paused", "yearly"]) await say(`delete-schedule ${name}`);
    await have(server, { "schedules active": 0, "schedules paused": 0, "schedules refused": 0 });
  });
});
