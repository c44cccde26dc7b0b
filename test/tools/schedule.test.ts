// Tests of `runnerbean schedule`.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";

describe("cli: schedule", () => {
  let server: ServerProcess;
  before(async () => {
    server = await startServer({ kind: "ours", flags: ["--shards", "2"] });
  });
  after(() => server?.stop());

  const at = (port: number, args: readonly string[], input = ""): Promise<ToolResult> =>
    runTool(["schedule", ...args], { input, env: { RUNNERBEAN_URL: `beanstalk://127.0.0.1:${port}` } });
  const run = (...args: string[]): Promise<ToolResult> => at(server.port, args);
  const say = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(...args);
    assert.equal(code, 0, stderr);
    return Buffer.from(stdout, "latin1").toString();
  };

  it("sets, shows, lists, runs and removes", async () => {
    assert.equal((await run()).code, 1, "there is none");
    const nightly = [
      "set",
      "nightly",
      "reports",
      "hello",
      "--cron",
      "30 2 * * MON-FRI",
      "--tz",
      "Europe/Berlin",
    ];
    const more = [
      "--missed",
      "all",
      "--pri",
      "7",
      "--delay",
      "1.5",
      "--ttr",
      "9",
      "--ttl",
      "60",
      "--group",
      "g",
    ];
    const rest = ["--overlap", "skip", "--weight", "2", "--meta", "tenant:köln", "--meta", "a:b"];
    assert.match(
      await say(...nightly, ...more, ...rest),
      /^set nightly, next 20\d\d-\d\d-\d\dT0[01]:30:00\.000Z\n$/,
    );
    const shown = JSON.parse(await say("show", "nightly", "--json"));
    const { next, nextRuns, ...one } = shown;
    assert.deepEqual(one, {
      ...{ name: "nightly", tube: "reports", cron: "30 2 * * MON-FRI", tz: "Europe/Berlin", missed: "all" },
      ...{ paused: false, fired: 0, missedTicks: 0, refusals: 0, bytes: 5, runs: 0, duplicates: 0 },
      ...{ overlap: "skip", skipped: 0 },
      ...{ pri: 7, delay: 1.5, ttr: 9, ttl: 60, group: "g", weight: 2 },
      ...{ meta: { tenant: "köln", a: "b" }, body: "hello" },
    });
    assert.equal(nextRuns[0], next);
    assert.match(await say("show", "nightly"), /^times\t30 2 \* \* MON-FRI Europe\/Berlin$/m);
    const piped = await at(server.port, ["set", "often", "beats", "--every", "3600.5"], "from stdin");
    assert.equal(piped.code, 0, piped.stderr);
    assert.match(await say("show", "often"), /^body\tfrom stdin$/m);
    const id = (await say("run", "often")).trim();
    assert.match(id, /^\d+$/);
    assert.equal(await say("pause", "often"), "paused often\n");
    const [head, first, second, ...others] = (await say("list")).trimEnd().split("\n");
    assert.equal(head, "name\ttube\ttimes\tnext\tlast\tfired\tmissed-ticks\trefusals\tskipped");
    assert.equal(first, `nightly\treports\t30 2 * * MON-FRI Europe/Berlin\t${next}\tnever\t0\t0\t0\t0`);
    assert.equal(second, "often\tbeats\tevery 3600.5 s\tpaused\tnever\t0\t0\t0\t0");
    assert.deepEqual(others, []);
    assert.equal((await say("--tube", "beats", "--json")).trimEnd().split("\n").length, 1);
    assert.equal(await say("resume", "often"), "resumed often\n");
    assert.equal(await say("remove", "often"), "removed often\n");
    assert.equal((await run("remove", "often")).code, 1);
    assert.match((await run("show", "often")).stderr, /there is no schedule often/);
  });

  const wrong: [args: string[], said: RegExp][] = [
    [["set", "a", "t", "x"], /either --cron or --every/],
    [["set", "a", "t", "x", "--cron", "@daily", "--every", "5"], /either --cron or --every/],
    [["set", "a", "t", "x", "--cron", "61 * * * *"], /61/],
    [["set", "a", "t", "x", "--cron", "@daily", "--tz", "Mars"], /Mars/],
    [["set", "a", "t", "x", "--cron", "@daily", "--missed", "some"], /once, all, none/],
    [["set", "a", "t", "x", "--cron", "@daily", "--meta", "a"], /name:value/],
    [["set", "a", "t", "x", "--cron", "@daily", "--meta", "a:b c"], /meta "a": "b c"/],
    [["set", "a b", "t", "x", "--cron", "@daily"], /1 to 128 bytes/],
    [["set", "a", "b c", "x", "--cron", "@daily"], /a tube name/],
  ];
  for (const [args, said] of wrong)
    it(`refuses ${args.slice(1).join(" ")}`, async () => {
      const { code, stderr } = await run(...args);
      assert.equal(code, 5, stderr);
      assert.match(stderr, said);
    });

  it("tells that beanstalkd has none", async (t) => {
    if (!canRun(t, NEEDS.beanstalkd)) return;
    const plain = await startServer({ kind: "beanstalkd-1.12" });
    t.after(() => plain.stop());
    const { code, stderr } = await at(plain.port, ["list"]);
    assert.equal(code, 1);
    assert.match(stderr, /has no set-schedule/);
  });
});
