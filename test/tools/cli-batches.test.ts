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
    assert.equal(await say("batch", "commit", "import"), "committed import\n");
    assert.match((await run("put", "rows", "4", "--batch", "import")).stderr, /BATCH_COMMITTED/);
    assert.equal(await say("reserve", "rows", "--max", "3", "--delete"), "1\n2\n3\n");
    assert.equal(await say("reserve", "reports", "--wait", "10", "--delete"), "report");
    assert.match(await say("batch", "show", "import"), /^outcome\tsuccess$/m);
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
    assert.equal((await run("batch", "open", "other")).code, 1);
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
