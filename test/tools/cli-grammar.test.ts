// Tests of what all tools understand alike: times and sizes with units, -p and --url, the options
// of a put, and hints after a mistake.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";

describe("what all tools understand", () => {
  const folder = temporaryFolder({ after }, "grammar");
  let server: ServerProcess;
  before(async () => {
    const tubes = join(folder, "tubes");
    writeFileSync(tubes, "from-file backoff=5m max-bytes=64K rate=100/1m\n");
    server = await startServer({ kind: "ours", flags: ["--tubes", tubes] });
  });
  after(() => server.stop());

  const run = (...args: string[]): Promise<ToolResult> => runTool(args, { env: {} });
  const here = (...args: string[]): Promise<ToolResult> => run(...args, "-p", `${server.port}`);
  const say = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await here(...args);
    assert.equal(code, 0, stderr);
    return stdout;
  };

  it("takes times with units, to the millisecond where the server does", async () => {
    for (const [given, seconds] of [
      ["5m", 300],
      ["90", 90],
      ["2h", 7200],
      ["1.5m", 90],
    ] as const) {
      const id = (await say("put", "times", "x", "--delay", given, "--ttr", given)).trim();
      const stats = await say("peek", id, "--stats");
      assert.match(stats, new RegExp(`^delay\\t${seconds}$`, "m"));
      assert.match(stats, new RegExp(`^ttr\\t${seconds}$`, "m"));
    }
    for (const given of ["250ms", "0.25"]) {
      await say("put", `short-${given}`, "x", "--delay", given);
      assert.equal(await say("reserve", `short-${given}`, "--wait", "1m", "--delete"), "x");
    }
    assert.equal(await say("pause", "times", "1m"), "paused for 60 s\n");
    assert.equal(await say("resume", "times"), "resumed\n");
    assert.equal((await here("jobs", "times", "--older", "1h", "--timeout", "5s")).code, 1);
  });

  it("refuses other times with the value and what is allowed", async () => {
    for (const [args, message] of [
      [["put", "x", "y", "--delay", "5x"], /'5x' is invalid.*such as 30, 0.5, 250ms, 5m or 2h/],
      [["put", "x", "y", "--delay", "0.0005"], /'0.0005' is invalid/],
      [["put", "x", "y", "--ttr", "0.5"], /'0.5' is invalid.*whole seconds/],
      [["pause", "x", "250ms"], /'250ms' is invalid.*whole seconds/],
      [["schedule", "set", "s", "x", "y", "--every", "-1"], /'-1' is invalid/],
      [
        ["settings", "set", "x", "backoff=5x"],
        /Allowed: backoff=<duration>, a time such as 30, 0.5, 250ms or 5m/,
      ],
      [["settings", "set", "x", "max-bytes=5x"], /Allowed: max-bytes=<n>, a size such as 4096, 64K or 8G/],
    ] as const) {
      const { code, stderr } = await here(...args);
      assert.equal(code, 5, stderr);
      assert.match(stderr, message);
    }
  });

  it("takes the server once, as --url or -p", async () => {
    const both = await here("stats", "--url", `beanstalk://127.0.0.1:${server.port}`);
    assert.equal(both.code, 5);
    assert.match(both.stderr, /give either --url or -p/);
    const wrong = await here("health");
    assert.equal(wrong.code, 3);
    assert.match(wrong.stderr, /speaks no HTTP: this tool takes the address of --http/);
    const twice = await run("backup", "http://127.0.0.1:1", join(folder, "backup"), "-p", "1");
    assert.match(twice.stderr, /give the server once/);
    const refused = await run("backup", join(folder, "backup"), "-p", "1");
    assert.match(refused.stderr, /no answer from http:\/\/127\.0\.0\.1:1: /);
  });

  it("puts jobs with all options of put-in-tube", async () => {
    const options = ["--unique", "k1", "--unique-for", "1h", "--ttl", "2h", "--group", "g"];
    const more = ["--weight", "3", "--cost", "4", "--meta", "a:b", "--meta", "c:d"];
    const first = await here("put", "options", "x", ...options, ...more);
    const id = first.stdout.trim();
    assert.match(id, /^\d+$/, first.stderr);
    const again = await here("put", "options", "x", "--unique", "k1");
    assert.equal(again.stdout.trim(), id);
    assert.match(again.stderr, /^runnerbean: duplicate: job \d+ has this key$/m);
    const kept = await say("put", "options", "x", "--unique", "k1", "--on-duplicate", "keep", "--json");
    assert.deepEqual(JSON.parse(kept), { id: Number(id), outcome: "kept" });
    const listed = await here("jobs", "options", "--group", "g", "--json");
    assert.equal(listed.stdout.trim().split("\n").length, 1);
    const alone = await here("put", "options", "x", "--unique-for", "1h");
    assert.equal(alone.code, 5);
    assert.match(alone.stderr, /--unique-for needs --unique/);
    const bad = await here("put", "options", "x", "--group", "two words");
    assert.equal(bad.code, 5);
    assert.match(bad.stderr, /^error: group must have 1 to 200 bytes/);
  });

  it("shows and changes settings over the protocol where the server has no HTTP", async () => {
    await say("settings", "set", "set-*", "ttl=1h");
    await say("settings", "set", "set-a", "backoff=5m", "max-bytes=1G", "rate=100/1m", "dead-letter=dead");
    await say("put", "set-a", "x");
    assert.equal(
      await say("settings", "show", "set-a", "--json"),
      `${JSON.stringify({
        pattern: "set-a",
        settings: { deadLetter: "dead", backoff: 300, maxBytes: 2 ** 30, rate: "100/60" },
      })}\n`,
    );
    assert.match(await say("settings", "show", "set-a", "--in-effect"), /^ttl\t3600\tset-\*$/m);
    const list = await say("settings");
    assert.match(list, /^set-\*\tttl=3600$/m);
    assert.match(list, /^set-a\tdead-letter=dead backoff=300 max-bytes=1073741824 rate=100\/60$/m);
    const pattern = await here("settings", "show", "set-*");
    assert.equal(pattern.code, 5);
    assert.match(pattern.stderr, /name a tube, or start the server with --http/);
    assert.equal(await say("settings", "remove", "set-a"), "removed set-a\n");
    assert.equal((await here("settings", "show", "set-a")).code, 1);
    assert.match(
      await say("settings", "show", "from-file"),
      /^backoff\t300\nmax-bytes\t65536\nrate\t100\/60$/m,
    );
  });

  it("hints at the option that was meant", async () => {
    for (const [args, option] of [
      [["tubes", "-l", "x"], "--url"],
      [["tubes", "--host", "x"], "--url"],
      [["put", "a", "b", "--priority", "3"], "--pri"],
      [["put", "a", "b", "--dellay", "3"], "--delay"],
    ] as const) {
      const { code, stderr } = await run(...args);
      assert.equal(code, 5);
      assert.match(stderr, new RegExp(`^error: unknown option "[^"]+": did you mean ${option}\\?$`, "m"));
    }
  });
});
