// Tests of `runnerbean check`, on our server and on beanstalkd.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun } from "../support/machine/need.ts";
import { everySecond } from "../support/whole.ts";
import { onEachServer } from "./on-each-server.ts";

onEachServer(({ kind, need, run, say }) => {
  it("pauses, resumes and checks a tube", async (t) => {
    if (!canRun(t, need)) return;
    await say("put", "cli-pause", "x");
    await say("pause", "cli-pause", "1000");
    assert.equal((await run(["reserve", "cli-pause", "--wait", "0"])).code, 1);
    await say("resume", "cli-pause");
    assert.equal(await say("reserve", "cli-pause", "--wait", "0", "--delete"), "x");
    assert.equal((await run(["pause", "cli-nothing", "1"])).code, 1);
    await say("put", "cli-check", "x");
    const checks: [string[], number, RegExp][] = [
      [["--ready-warn", "2"], 0, /^RUNNERBEAN OK - cli-check: .* \| ready=1;2;;0 /],
      [["--ready-warn", "1", "--ready-crit", "5"], 1, /^RUNNERBEAN WARNING - cli-check: 1 ready \(>= 1\)/],
      [["--ready-crit", "1", "--waiting-warn", "1"], 2, /^RUNNERBEAN CRITICAL/],
      [["--waiting-warn", "1"], 1, /0 waiting \(< 1\)/],
      [["--oldest-crit", "1"], 3, /UNKNOWN - .*HTTP/],
      [["--ready-warn", "many"], 3, /UNKNOWN/],
    ];
    for (const [flags, code, line] of checks) {
      const result = await run(["check", "--tube", "cli-check", ...flags]);
      assert.equal(result.code, code, result.stdout);
      assert.match(result.stdout, line);
    }
  });

  it("pauses a tube until it is resumed, also where a pattern pauses it", async (t) => {
    if (!canRun(t, need)) return;
    await say("put", "cli-halt", "x");
    if (kind !== "ours") {
      assert.match((await run(["pause", "cli-halt"])).stderr, /a pause without a time/);
      return;
    }
    const pauses = async (): Promise<string> =>
      (await say("tubes", "cli-halt*", "--sort", "pause", "--json"))
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
        .map(({ tube, pause }) => `${tube} ${pause}`)
        .join(", ");
    const isHeld = async (): Promise<boolean> =>
      (await run(["reserve", "cli-halt", "--wait", "0"])).code === 1;
    assert.equal(await say("pause", "cli-halt"), 'paused until "runnerbean resume cli-halt"\n');
    assert.ok(await isHeld());
    // A shorter pause doesn't end it.
    await say("pause", "cli-halt", "1");
    await say("put", "cli-halt-too", "x");
    await say("put", "cli-halt-more", "x");
    await say("pause", "cli-halt-too", "1000");
    assert.match(await pauses(), /^cli-halt yes, cli-halt-too \d+, cli-halt-more 0$/);
    assert.equal(await say("resume", "cli-halt"), "resumed\n");
    assert.match(await pauses(), /^cli-halt-too \d+, cli-halt 0, cli-halt-more 0$/);
    assert.equal(await say("pause", "cli-halt", "--json"), '{"paused":"yes"}\n');
    await say("settings", "set", "cli-ha*", "paused=yes");
    const { code, stdout, stderr } = await run(["resume", "cli-halt"]);
    assert.deepEqual([code, stdout], [0, "resumed\n"]);
    assert.match(stderr, /cli-halt has paused=no of its own now; the other tubes of cli-ha\* stay paused/);
    assert.equal(await pauses(), "cli-halt-more yes, cli-halt-too yes, cli-halt 0");
    assert.equal(await say("reserve", "cli-halt", "--wait", "0", "--delete"), "x");
    assert.equal((await run(["pause", "cli-nothing"])).code, 1);
    // Settings need no jobs.
    await say("settings", "set", "cli-nothing", "paused=yes");
    assert.equal(await say("resume", "cli-nothing"), "resumed\n");
    assert.equal((await run(["resume", "cli-nothing"])).code, 1);
  });

  it("prints every problem on stdout for checks", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    for (const args of everySecond([
      [],
      ["--tube", "a b"],
      ["--tube", "a", "--nonsense"],
      ["--tube", "a", "--url", "x:0"],
    ])) {
      const { code, stdout } = await run(["check", ...args]);
      assert.equal(code, 3, stdout);
      assert.match(stdout, /^RUNNERBEAN UNKNOWN - [^\n|]+\n$/);
    }
    assert.equal((await run(["check", "--help"])).code, 0);
  });
});
