// Tests of `runnerbean batch`, and of puts that name batches.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";

describe("cli: batch", () => {
  let server: ServerProcess;
  before(async () => {
    server = await startServer({ kind: "ours", flags: ["--shards", "2"] });
  });
  after(() => server?.stop());

  const at = (port: number, args: readonly string[], input = ""): Promise<ToolResult> =>
    runTool(args, { input, env: { RUNNERBEAN_URL: `beanstalk://127.0.0.1:${port}` } });
  const run = (...args: string[]): Promise<ToolResult> => at(server.port, args);
  const say = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(...args);
    assert.equal(code, 0, stderr);
    return stdout;
  };

  it("opens, fills, commits, shows and cancels", async () => {
    assert.equal((await run("batch")).code, 1, "there is none");
    assert.equal(await say("batch", "open", "import", "--keep", "60"), "opened import\n");
    await say("put", "rows", "1", "--batch", "import");
    await at(server.port, ["put", "rows", "--lines", "--batch", "import"], "2\n3\n");
    await say("put", "reports", "report", "--after", "import");
    await say("put", "cleaning", "clean up", "--after-any", "import");
    const opened = JSON.parse(await say("batch", "show", "import", "--json"));
    assert.deepEqual([opened.state, opened.members, opened.waiting, opened.keep], ["open", 3, 2, 60]);
    assert.equal(opened["forgets-in"], null);
    assert.equal(await say("batch", "commit", "import"), "committed import\n");
    assert.match((await run("batch", "show", "import")).stdout, /^forgets-in\tnot complete yet$/m);
    const tooLate = (await run("put", "rows", "4", "--batch", "import")).stderr;
    assert.match(tooLate, /BATCH_COMMITTED \(the batch was committed or cancelled, .*: open another one\)/);
    assert.equal(await say("reserve", "rows", "--max", "3", "--delete"), "1\n2\n3\n");
    assert.equal(await say("reserve", "reports", "--wait", "10", "--delete"), "report");
    const shown = await say("batch", "show", "import");
    assert.match(shown, /^outcome\tsuccess$/m);
    assert.match(shown, /^forgets-in\t\d+(?:\.\d+)?$/m);
    await say("batch", "open", "other");
    assert.equal(await say("batch", "cancel", "other"), "cancelled other\n");
    const [head, ...rows] = (await say("batch", "list")).trimEnd().split("\n");
    assert.equal(head, "name\tstate\toutcome");
    assert.deepEqual(rows, ["import\tcomplete\tsuccess", "other\tcomplete\tcancelled"]);
    assert.match((await run("batch", "commit", "none")).stderr, /there is no batch none/);
    const wrong = await run("batch", "open", "a b");
    assert.deepEqual([wrong.code, wrong.stderr.includes("a batch name: 1 to 200")], [5, true]);
    const both = await run("put", "t", "x", "--after", "other", "--after-any", "other");
    assert.deepEqual([both.code, both.stderr.includes("either --after or --after-any")], [5, true]);
    const twice = await run("batch", "open", "other");
    assert.deepEqual([twice.code, twice.stderr.includes("choose another name")], [1, true]);
    assert.match((await run("batch", "commit", "other")).stderr, /BATCH_CANCELLED \(.*: open another one\)/);
    assert.match((await run("batch", "cancel", "import")).stderr, /BATCH_COMPLETE \(the batch is complete/);
    const nowhere = await run("put", "t", "x", "--after", "nowhere");
    assert.match(nowhere.stderr, /BATCH_NOT_FOUND \(.*: open it first\)/);
    for (const name of ["older", "newer"]) await say("batch", "open", name);
    const circle = await run("put", "t", "x", "--batch", "older", "--after", "newer");
    assert.match(circle.stderr, /BATCH_ORDER \(a member may only wait/);
  });

  for (const [group, actions] of [
    ["batch", "list, show, open, commit, cancel"],
    ["schedule", "list, show, set, remove, pause, resume, run"],
    ["settings", "list, show, set, remove"],
  ] as const)
    it(`names the unknown action of ${group}, and all that there are`, async () => {
      const { code, stderr } = await run(group, "foo", "bar");
      assert.equal(code, 5);
      assert.equal(
        stderr,
        `error: unknown action "foo" of ${group}: one of ${actions}\nSee runnerbean ${group} --help\n`,
      );
      assert.match((await run(group, "list", "bar")).stderr, /too many arguments for 'list'/);
    });

  it("tells that beanstalkd has none", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const plain = await startServer({ kind: "beanstalkd-1.12" });
    t.after(() => plain.stop());
    for (const args of [
      ["batch", "list"],
      ["put", "t", "x", "--batch", "b"],
    ]) {
      const { code, stderr } = await at(plain.port, args);
      assert.equal(code, 1);
      assert.match(stderr, /has no open-batch/);
    }
  });
});
