// Tests of the arguments of operator commands, checked before anything is sent.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun } from "../support/machine/need.ts";
import { runTool } from "../support/server/tool.ts";
import { everySecond } from "../support/whole.ts";
import { onEachServer } from "./on-each-server.ts";

onEachServer(({ kind, need }) => {
  it("refuses bad arguments before it connects", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    for (const [args, allowed] of everySecond([
      [
        ["put", "bad name", "x"],
        /'bad name' is invalid for argument 'tube'. Allowed: a tube name: 1 to 200 characters of.*\nSee runnerbean put --help$/m,
      ],
      [["put", "\u001b[31m", "x"], /'\\u001b\[31m' is invalid/],
      [["proxy", "--listen", "127.0.0.1:65536"], /is not a valid address/],
      [["stats", "--url", "127.0.0.1:65536"], /is not a valid address/],
      [["health", "--url", "http://"], /is not a valid address/],
      [["stats", "--token", "a\r\ndelete 1"], /a token is one line/],
      [["health", "--token", "", "--url", "http://127.0.0.1:1"], /a token is one line/],
    ] as [string[], RegExp][])) {
      // No server listens: a command that connects would end with 3.
      const { code, stderr } = await runTool(args, { env: { RUNNERBEAN_URL: "127.0.0.1:1" } });
      assert.equal(code, 5, `${args.join(" ")}: ${stderr}`);
      assert.match(stderr, allowed, args.join(" "));
      assert.doesNotMatch(stderr, /\n {4}at /);
    }
  });
});
