// What is set for tubes, and what jobs have besides their old fields, is there again after a kill, at any number of shards; and
// what `--tubes` says.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ExitCode } from "../src/server/operator-error.ts";
import { parseOptions } from "../src/server/options.ts";
import { canRun, NEEDS } from "./support/need.ts";
import { type ServerProcess, startServer } from "./support/server-process.ts";
import { temporaryFolder } from "./support/temporary-folder.ts";
import { WireClient } from "./support/wire-client.ts";

async function say(server: ServerProcess, lines: readonly [line: string, reply: string][]): Promise<void> {
  const client = await WireClient.connect(server.address);
  for (const [line, reply] of lines) {
    const [command, body] = line.split(" + ");
    const found =
      body === undefined
        ? await client.ask(command!)
        : await client.ask(`${command} ${body.length}\r\n${body}`);
    const text = reply.includes(":") ? found.body?.toString() : found.line;
    assert.ok(text?.includes(reply), `${line}: ${found.line} ${found.body?.toString() ?? ""}, not ${reply}`);
  }
  client.close();
}

describe("after a kill, with -f 0", () => {
  // More shards than before, and fewer.
  for (const [before, after] of [
    [4, 7],
    [7, 2],
  ])
    it(`${before} shards and then ${after} know settings, keys, attempts and deaths`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const folder = temporaryFolder(t);
      const start = (shards: number): Promise<ServerProcess> =>
        startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", String(shards)] });
      const first = await start(before!);
      try {
        await say(first, [
          ["set-tube mail* max-attempts=2 max-jobs=5", "SET"],
          ["set-tube * max-jobs=3", "SET"],
          ["set-tube * max-jobs=", "SET"],
          ["set-tube gone ttl=5", "SET"],
          ["set-tube gone ttl=", "SET"],
          ["put-in-tube mails 0 0 60 + one", "INSERTED 1"],
          ["put-in-tube mails 0 0 60 + two", "INSERTED 2"],
          ["reserve-job 1", "RESERVED 1"],
          ["release 1 0 0", "RELEASED"],
          ["reserve-job 2", "RESERVED 2"],
          ["release 2 0 0", "RELEASED"],
          ["reserve-job 2", "RESERVED 2"],
          ["release 2 0 0", "RELEASED"],
          ["stats-job 2", "state: buried"],
        ]);
        const client = await WireClient.connect(first.address);
        await client.ask("put-in-tube keys 0 0 60 3 unique=k unique-for=1000\r\nabc");
        await client.ask("put-in-tube keys 0 0 60 3 unique=l ttl=1000\r\nabc");
        assert.equal((await client.ask("delete 3")).line, "DELETED");
        assert.equal((await client.ask("put-in-tube mails 0 0 60 4\r\nmove")).line, "INSERTED 5");
        assert.equal((await client.ask("move-jobs mails morgue6 contains=move")).line, "MOVED 1");
        client.close();
      } finally {
        await first.kill();
      }
      const second = await start(after!);
      try {
        await say(second, [
          ["stats-job 5", "tube: morgue6"],
          ["reserve-job 1", "RESERVED 1"],
          ["release 1 0 0", "RELEASED"],
          ["stats-job 1", "state: buried"],
          ["kick-job 2", "KICKED"],
          ["reserve-job 2", "RESERVED 2"],
          ["release 2 0 0", "RELEASED"],
          ["stats-job 2", "state: ready"],
        ]);
        const client = await WireClient.connect(second.address);
        for (const [key, reply] of [
          ["k", "DUPLICATE 3"],
          ["l", "DUPLICATE 4"],
        ])
          assert.equal((await client.ask(`put-in-tube keys 0 0 60 1 unique=${key}\r\nx`)).line, reply);
        assert.equal((await client.ask("delete 4")).line, "DELETED");
        assert.match((await client.ask("put-in-tube keys 0 0 60 1 unique=l\r\nx")).line, /^INSERTED/);
        // Two are there, and five may be.
        const lines: string[] = [];
        for (let i = 0; i < 4; i++)
          lines.push((await client.ask("put-in-tube mails 0 0 60 0\r\n")).line.split(" ")[0]!);
        assert.deepEqual(lines, ["INSERTED", "INSERTED", "INSERTED", "TUBE_FULL"]);
        client.close();
      } finally {
        await second.kill();
      }
    });
});

describe("--tubes", () => {
  it("holds at each start, over the log", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t);
    const file = join(temporaryFolder(t), "tubes");
    writeFileSync(file, "# for all\n* max-jobs=1\n\nmails max-jobs=2 max-attempts=3\n");
    const flags = ["-b", folder, "--shards", "3", "--tubes", file];
    for (const set of ["set-tube mails max-jobs=9", ""]) {
      const server = await startServer({ kind: "ours", flags });
      try {
        const client = await WireClient.connect(server.address);
        const puts: string[] = [];
        for (const tube of ["mails", "mails", "mails", "x", "x"])
          puts.push((await client.ask(`put-in-tube ${tube} 0 0 60 0\r\n`)).line.split(" ")[0]!);
        const taken = set === "" ? "TUBE_FULL" : "INSERTED";
        assert.deepEqual(puts, [taken, taken, "TUBE_FULL", taken, "TUBE_FULL"]);
        if (set !== "") assert.equal((await client.ask(set)).line, "SET");
        client.close();
      } finally {
        await server.stop();
      }
    }
  });

  for (const [line, message] of [
    ["mails max-job=1", /line 2: max-job can't be set \(max-attempts, /],
    ["mails max-jobs=x", /line 2: max-jobs=x is not what can be set: max-jobs=<n>/],
    ["ma*ls max-jobs=1", /line 2: ma\*ls is no name of a tube/],
    ["mails", /line 2: nothing is set for mails/],
    ["mails ttl=1 ttl=2", /line 2: ttl is set twice/],
  ] as const)
    it(`ends the start with exit code 5 for "${line}"`, (t) => {
      const file = join(temporaryFolder(t), "tubes");
      writeFileSync(file, `a* max-jobs=1\n${line}\n`);
      const exit = parseOptions(["--tubes", file], "runnerbean");
      assert.ok("exitCode" in exit);
      assert.equal(exit.exitCode, ExitCode.Usage);
      assert.match(exit.stderr, message);
    });

  it("says which file it can't read", (t) => {
    const exit = parseOptions(["--tubes", join(temporaryFolder(t), "none")], "runnerbean");
    assert.ok("exitCode" in exit && exit.exitCode === ExitCode.Usage);
    assert.match(exit.stderr, /--tubes .*none: ENOENT/);
  });
});
