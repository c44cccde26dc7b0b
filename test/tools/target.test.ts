// Tests of the server and the token that an operator command uses.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun } from "../support/machine/need.ts";
import { runTool } from "../support/server/tool.ts";
import { everySecond } from "../support/whole.ts";
import { onEachServer } from "./on-each-server.ts";

onEachServer(({ kind, need, run, url }) => {
  it("treats an empty variable as unset, and says so if no token is needed", async (t) => {
    if (!canRun(t, need)) return;
    const there = ["--url", url()];
    const none = { RUNNERBEAN_TOKEN: "", RUNNERBEAN_URL: "" };
    assert.equal((await runTool(["stats", ...there], { env: none })).code, 0);
    const { code, stderr } = await run(["stats", "--token", "x"]);
    assert.deepEqual([code, stderr], [1, "runnerbean: this address takes no token: leave out --token\n"]);
    // That of the environment is for all servers that take one.
    const usual = await runTool(["put", "mails", "x", ...there], { env: { RUNNERBEAN_TOKEN: "x" } });
    assert.deepEqual([usual.code, usual.stderr], [0, ""]);
  });

  it("says what to do where no server listens", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    for (const [args, advice] of everySecond([
      [["stats"], /connect ECONNREFUSED 127\.0\.0\.1:1: no server listens there; start one .* --url/],
      [["redrive", "a", "--yes"], /no server listens there; start one with runnerbean, or name/],
      [["stats", "--url", "unix:/nowhere/x"], /connect ENOENT \/nowhere\/x: no server listens there/],
      [["health", "--url", "http://127.0.0.1:1"], /REFUSED 127\.0\.0\.1:1; start the server with --http/],
      [["settings", "--url", "http://127.0.0.1:1"], /start the server with --http.*RUNNERBEAN_HTTP_URL$/m],
    ] as [string[], RegExp][])) {
      const { code, stderr } = await runTool(args, { env: { RUNNERBEAN_URL: "127.0.0.1:1" } });
      assert.equal(code, 3, stderr);
      assert.match(stderr, advice);
    }
  });
});
