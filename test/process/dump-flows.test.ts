// Tests that batches and schedules go on after a dump and its restore, with other shards.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";

interface Running {
  /** Says a line, and its body behind \r\n; returns the line and the body of the reply. */
  say(line: string): Promise<string>;
  stop(): Promise<unknown>;
}

async function start(t: TestContext, log: string, shards: number): Promise<Running> {
  const server = await startServer({ kind: "ours", flags: ["-b", log, "--shards", `${shards}`] });
  t.after(() => server.stop());
  const client = await WireClient.connect(server.address);
  t.after(() => client.close());
  return {
    say: async (line) => {
      const { line: reply, body } = await client.ask(line);
      return body === undefined ? reply : `${body}`;
    },
    stop: () => server.stop(),
  };
}

async function tool(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runTool(["binlog", ...args]);
  assert.equal(code, 0, stderr);
  return stdout + stderr;
}

it("batches and schedules go on after a dump and a restore", async (t) => {
  const folder = temporaryFolder(t, "dump-flows");
  const [log, again, file] = ["log", "again", "jobs.jsonl"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const path of [log, again]) mkdirSync(path);
  const first = await start(t, log, 4);
  for (const name of ["import", "ended", "open"])
    assert.equal(await first.say(`open-batch ${name} keep=1000`), "OPENED");
  const put = async (tube: string, options: string): Promise<string> => {
    const reply = await first.say(`put-in-tube ${tube} 0 0 60 1 ${options}\r\nx`);
    assert.match(reply, /^INSERTED/);
    return reply.split(" ")[1]!;
  };
  const ids: string[] = [];
  for (const tube of ["a", "b", "c", "d", "e", "f"]) ids.push(await put(tube, "batch=import"));
  const done = await put("reports", "after-any=import");
  const hoped = await put("hopes", "after=import");
  await put("g", "batch=open");
  const end = async (to: Running, id: string): Promise<void> => {
    assert.match(await to.say(`reserve-job ${id}`), /./);
    assert.equal(await to.say(`delete ${id}`), "DELETED");
  };
  for (const id of ids.slice(0, 3)) await end(first, id);
  // Not held, so it has failed.
  assert.equal(await first.say(`delete ${ids[3]}`), "DELETED");
  for (const name of ["import", "ended"]) assert.equal(await first.say(`commit-batch ${name}`), "COMMITTED");
  assert.equal(
    await first.say("set-schedule nightly t 0 0 60 1 cron=30_2_*_*_* tz=Europe/Berlin\r\nx"),
    "SET",
  );
  const report = async (of: Running, name: string): Promise<string> =>
    (await of.say(`inspect-batch ${name}`)).replace(/^(?:age|forgets-in): \d+\n/gm, "");
  const before = await eventually("one is complete", async () => {
    const text = await report(first, "ended");
    return /^state: complete$/m.test(text) ? [await report(first, "import"), text] : undefined;
  });
  assert.match(before[0]!, /^members: 6\nopen: 2\ndone: 3\nfailed: 1$/m);
  const schedule = await first.say("inspect-schedule nightly");
  await first.stop();

  await tool("dump", log, file);
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  assert.deepEqual(
    lines.flatMap((line) => JSON.parse(line).batch?.name ?? []),
    ["import", "ended", "open"],
  );
  assert.equal(JSON.parse(lines[0]!).runnerbeanDump, 3);
  await tool("restore", file, again);
  const exported = await tool("export", "--beanstalkd", log, join(folder, "beanstalkd"));
  assert.match(exported, /^Buried 2 jobs that wait for a batch: .* so kick them$/m);
  assert.match(exported, /^Dropped 1 schedules/m);

  const second = await start(t, again, 2);
  assert.deepEqual([await report(second, "import"), await report(second, "ended")], before);
  assert.match(await report(second, "open"), /^state: open\noutcome: none\nmembers: 1\nopen: 1$/m);
  assert.equal(await second.say("inspect-schedule nightly"), schedule);
  assert.equal(await second.say("open-batch import"), "BATCH_EXISTS");
  for (const id of ids.slice(4)) await end(second, id);
  await eventually("the batch is complete", async () =>
    /^state: complete\noutcome: failure\nmembers: 6\nopen: 0\ndone: 5\nfailed: 1$/m.test(
      await report(second, "import"),
    ),
  );
  const stateOf = async (id: string): Promise<string | undefined> =>
    /^state: (\w+)$/m.exec(await second.say(`stats-job ${id}`))?.[1];
  await eventually("the callbacks are released", async () => (await stateOf(done)) === "ready");
  await eventually("or buried", async () => (await stateOf(hoped)) === "buried");
});
