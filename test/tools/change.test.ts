// Tests of commands that change the jobs of a tube, on our server and on beanstalkd.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun } from "../support/machine/need.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { onEachServer } from "./on-each-server.ts";

onEachServer(({ kind, need, url, run, say }) => {
  it("lists, moves, changes and clears jobs of a tube by what they are, where the server can", async (t) => {
    if (!canRun(t, need)) return;
    await run(["put", "cli-jobs", "--lines"], "one\ntwo\n\u00e9t\u00e9\n");
    const listed = await run(["jobs", "cli-jobs"]);
    if (kind !== "ours") {
      for (const args of [
        ["jobs"],
        ["clear", "--yes"],
        ["update", "--pri", "1"],
        ["move", "to"],
        ["redrive"],
      ]) {
        const refused = await run([args[0]!, "cli-jobs", ...args.slice(1)]);
        assert.equal(refused.code, 1, `${args}`);
        assert.match(refused.stderr, /works with runnerbean only/);
      }
      return;
    }
    assert.match(listed.stdout, /^id\tstate\tpri.*\n\d+\tready\t1024\t.*\tone\n/);
    assert.equal(JSON.parse(await say("jobs", "cli-jobs", "--text", "\u00e9", "--json")).bytes, 5);
    assert.equal(JSON.parse(await say("jobs", "*", "--text", "\u00e9", "--json")).tube, "cli-jobs");
    assert.equal(await say("clear", "cli-jobs", "--group", "t", "--dry-run"), "would clear 0\n");
    assert.equal(await say("clear", "cli-jobs", "--text", "t", "--dry-run"), "would clear 2\n");
    assert.equal(
      await say("move", "cli-jobs", "cli-there", "--limit", "1", "--dry-run", "--json", "--yes"),
      '{"jobs":1}\n',
    );
    const unasked = await run(["update", "cli-jobs", "--pri", "1"]);
    assert.deepEqual([unasked.code, /with --yes/.test(unasked.stderr)], [5, true]);
    assert.equal(await say("update", "cli-jobs", "--pri", "7", "--text", "t", "--yes"), "updated 2\n");
    assert.equal(await say("update", "cli-jobs", "--delay", "900", "--limit", "1", "--yes"), "updated 1\n");
    assert.equal(await say("move", "cli-jobs", "cli-there", "--state", "ready", "--yes"), "moved 2\n");
    assert.match(await say("jobs", "cli-jobs"), /^id.*\n\d+\tdelayed\t1024\t.*\tone\n$/);
    assert.equal(await say("move", "cli-jobs", "cli-there", "--as-ready", "--yes"), "moved 1\n");
    const pris = (await say("jobs", "cli-there", "--json")).trim().split("\n");
    assert.deepEqual(
      pris.map((line) => JSON.parse(line)).map(({ pri, state }) => `${pri} ${state}`),
      ["1024 ready", "7 ready", "7 ready"],
    );
    assert.equal(await say("clear", "cli-there", "--text", "t", "--yes"), "cleared 2\n");
    assert.equal(await say("clear", "cli-there", "--yes", "--json"), '{"cleared":1}\n');
    assert.equal((await run(["jobs", "cli-jobs"])).code, 1);
  });

  it("cancels jobs, and says which ones are still with their workers", async (t) => {
    if (!canRun(t, need)) return;
    const put = async (): Promise<string> => /\d+/.exec(await say("put", "cli-cancel", "x"))![0];
    const [first, second] = [await put(), await put()];
    if (kind !== "ours") {
      const refused = await run(["cancel", first]);
      assert.deepEqual([refused.code, /works with runnerbean only/.test(refused.stderr)], [1, true]);
      return;
    }
    const { hostname: host, port } = new URL(url());
    const client = await WireClient.connect({ host, port: Number(port) });
    assert.match((await client.ask(`reserve-job ${first}`)).line, /^RESERVED/);
    const done = await run(["cancel", first, second, "--reason", "wrong file"]);
    assert.deepEqual([done.code, done.stdout], [0, "cancelled 2\n"], done.stderr);
    assert.match(done.stderr, new RegExp(`told: ${first}\n`));
    const touched = await client.ask(`touch-job ${first} progress=40 note=page%203`);
    assert.equal(touched.line, "TOUCHED cancelled=wrong%20file");
    const { progress, note, cancelled } = JSON.parse(await say("jobs", "cli-cancel", "--json"));
    assert.deepEqual([progress, note, cancelled], [40, "page 3", "wrong file"]);
    assert.match(await say("jobs", "cli-cancel"), /^id\t.*\tbytes\tprogress\tbody\n.*\t1\t40\tx\n$/);
    client.close();
    const gone = await run(["cancel", second]);
    assert.deepEqual([gone.code, gone.stderr], [1, `runnerbean: missing: ${second}\n`]);
  });

  it("leaves buried jobs where they are unless the filter names them", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    await run(["put", "cli-aside", "--lines"], "a\nb\n");
    await run(["reserve", "cli-aside", "--", "false"]);
    const wait = ["update", "cli-aside", "--delay", "900", "--yes"];
    assert.equal(await say(...wait), "updated 1\n");
    assert.match(await say("jobs", "cli-aside", "--state", "buried"), /\tburied\t1024\t.*\ta\n$/);
    assert.equal(await say(...wait, "--state", "buried"), "updated 1\n");
    for (const args of [[], ["--pri", "1", "--limit", "0"]])
      assert.equal((await run(["update", "cli-aside", "--yes", ...args])).code, 5, `${args}`);
  });
});
