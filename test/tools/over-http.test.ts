// Tests of the operator's commands that speak HTTP.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { connect } from "../../src/client/client.ts";
import { eventually } from "../support/eventually.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";
import { everySecond } from "../support/whole.ts";

describe("cli over HTTP", () => {
  let server: ServerProcess | undefined;
  let httpPort = "";
  const folder = mkdtempSync(join(tmpdir(), "runnerbean-cli-"));
  before(async () => {
    server = await startServer({ kind: "ours", flags: ["--http", "127.0.0.1:0", "-b", folder] });
    httpPort = /http:\/\/127\.0\.0\.1:(\d+)/.exec(server.stderr)?.[1] ?? assert.fail(server.stderr);
  });
  after(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true });
  });

  const run = (...args: string[]): Promise<ToolResult> =>
    runTool(args, {
      env: {
        RUNNERBEAN_URL: `beanstalk://127.0.0.1:${server!.port}`,
        RUNNERBEAN_HTTP_URL: `http://127.0.0.1:${httpPort}`,
      },
    });
  const say = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(...args);
    assert.equal(code, 0, stderr);
    return stdout;
  };

  it("shows health, threads and the log, and checks the age of jobs", async () => {
    assert.equal(await say("health"), "ok\n");
    assert.equal(JSON.parse(await say("health", "--for", "put", "--json")).status, "ok");
    assert.match(await say("threads"), /^thread\t.*\n(?:.*\n)*acceptor 0\t/);
    assert.equal(JSON.parse(await say("binlog", "status", "--json")).full, false);
    await say("put", "cli-log", "x");
    assert.match(await say("binlog", "status"), /^batchRecords\t[\d:, more]*\d+: \d+/m);
    const url = ["--url", `http://127.0.0.1:${httpPort}`];
    const check = await run("check", "--tube", "x", "--oldest-crit", "5", ...url);
    assert.match(check.stdout, /^RUNNERBEAN OK - x: .*oldest=0s;;5;0$/m);
    assert.equal((await run("stats", ...url)).code, 5);
  });

  it("shows holders, takes jobs from them and ends connections", async (t) => {
    const queue = await connect(`127.0.0.1:${server!.port}`, { name: "cli-holder" });
    t.after(() => queue.close());
    const { id } = await queue.put("cli-held", "x");
    queue.watch("cli-held");
    const job = await queue.reserve();
    const holding = ["connections", "--state", "holding", "--tube", "cli-held"];
    const [head = "", row = ""] = (await say(...holding)).split("\n");
    assert.equal(head.split("\t").slice(0, 5).join(), "id,name,address,age,uses");
    assert.match(row, /^\S+\tcli-holder\t127\.0\.0\.1:\d+\t.*\tcli-held\tfalse\t1\t/);
    const connection = JSON.parse(await say(...holding, "--json"));
    assert.deepEqual(
      connection.holds.map((held: { id: number }) => held.id),
      [id],
    );
    assert.equal(await say("release", `${id}`), "released\n");
    await assert.rejects(job.touch());
    assert.equal((await run("release", `${id}`)).code, 1);
    assert.equal((await run(...holding)).code, 1);
    assert.deepEqual(JSON.parse(await say("close", connection.id, "--json")), { id: connection.id });
    await eventually(
      "it is closed",
      async () => !(await say("connections", "--json", "--limit", "1000")).includes(`"${connection.id}"`),
    );
    assert.equal((await run("close", connection.id)).code, 1);
    const closed = await say("connections", "--state", "closed", "--tube", "cli-held");
    assert.match(closed, /^id\tname\taddress\tclosedFor\treason\t.*\n\S+\tcli-holder\t\S+\t[\d.]+\tadmin\t/);
  });

  it("lists, shows, changes and removes settings of tubes", async () => {
    assert.equal((await run("settings")).code, 1);
    await say("put", "cli-set-a", "x");
    await say("put", "cli-set-b", "x");
    const set = await say("settings", "set", "cli-set-*", "max-attempts=5", "backoff=1.5", "dead-letter=7");
    assert.match(set, /^key\tvalue\npattern\tcli-set-\*\nmax-attempts\t5\ndead-letter\t7\nbackoff\t1\.5\n/);
    await say("settings", "set", "cli-set-a", "rate=100/60");
    // What is not named stays, and an empty value removes.
    await say("settings", "set", "cli-set-*", "backoff=", "max-jobs=9");
    const kept = { maxAttempts: 5, deadLetter: "7", maxJobs: 9 };
    await eventually("both tubes are counted", async () => {
      const shown = JSON.parse(await say("settings", "show", "cli-set-*", "--json"));
      assert.deepEqual(shown.settings, kept);
      return shown.tubes === 2;
    });
    const listed =
      "pattern\tsettings\ncli-set-*\tmax-attempts=5 dead-letter=7 max-jobs=9\ncli-set-a\trate=100/60\n";
    assert.equal(await say("settings"), listed);
    assert.equal(await say("settings", "list"), listed);
    const [first = ""] = (await say("settings", "--json")).split("\n");
    assert.deepEqual(JSON.parse(first), { pattern: "cli-set-*", settings: kept });
    const inEffect = await say("settings", "show", "cli-set-a", "--in-effect");
    assert.match(
      inEffect,
      /^setting\tvalue\tfrom\nmax-attempts\t5\tcli-set-\*\n(?:.*\n)*rate\t100\/60\tcli-set-a\n$/,
    );
    assert.equal(await say("settings", "remove", "cli-set-a"), "removed cli-set-a\n");
    await say("settings", "remove", "cli-set-*");
    const none = await run("settings", "show", "cli-set-*");
    assert.deepEqual([none.code, none.stdout.split("\n")[1]], [1, "pattern\tcli-set-*"]);
    for (const [args, said] of everySecond([
      [["set", "a"], /missing required argument/],
      [["set", "a b", "ttl=1"], /a tube name/],
      [["set", "a", "ttl"], /name=value, where the name is max-attempts, /],
      [["set", "a", "ttk=1"], /name=value/],
      [["set", "a", "ttl=soon"], /ttl=<duration>, a time such as 30/],
      [["set", "a", "max-attempts=0"], /"\/maxAttempts" must be at least 1, not 0/],
      [["set", "a", "ttl=0.0004"], /ttl=<duration>/],
      [["set", "a", "expire=keep"], /"\/expire" must be delete or bury/],
    ] as const)) {
      const refused = await run("settings", ...args);
      assert.equal(refused.code, 5, args.join(" "));
      assert.match(refused.stderr, said);
    }
  });

  it("returns dead jobs to where they died", async (t) => {
    await say("settings", "set", "cli-mail", "max-attempts=1", "dead-letter=cli-dead");
    const queue = await connect(`127.0.0.1:${server!.port}`);
    t.after(() => queue.close());
    queue.watch("cli-mail");
    for (const body of ["acme", "globex", "acme too"]) {
      await say("put", "cli-mail", body);
      await (await queue.reserve()).release();
    }
    await say("put", "cli-dead", "acme by hand");
    const redrive = (...args: string[]) => run("redrive", "cli-dead", ...args);
    assert.equal((await redrive("--dry-run")).stdout, "would redrive 3\n");
    assert.equal((await redrive("--dry-run", "--limit", "2", "--json")).stdout, '{"jobs":2}\n');
    const unasked = await redrive();
    assert.deepEqual([unasked.code, /redrive with --yes/.test(unasked.stderr)], [5, true]);
    assert.equal((await redrive("--text", "acme", "--limit", "1", "--yes")).stdout, "redriven 1\n");
    assert.equal((await redrive("--text", "acme", "--yes", "--json")).stdout, '{"redriven":1}\n');
    assert.equal((await redrive("--yes")).stdout, "redriven 1\n");
    assert.equal((await redrive("--yes")).stdout, "redriven 0\n");
    assert.match(await say("tube", "cli-mail"), /^current-jobs-ready\t3$/m);
    assert.match(await say("jobs", "cli-dead"), /\tacme by hand\n$/);
    // One that is buried where it died, too.
    await say("settings", "set", "cli-mail", "dead-letter=");
    await (await queue.reserve()).release();
    assert.match(await say("tube", "cli-mail"), /^current-jobs-buried\t1$/m);
    assert.equal((await run("redrive", "cli-mail", "--dry-run")).stdout, "would redrive 1\n");
    assert.equal((await run("redrive", "cli-mail", "--yes")).stdout, "redriven 1\n");
    assert.match(await say("tube", "cli-mail"), /^current-jobs-ready\t3$/m);
    await say("settings", "remove", "cli-mail");
  });

  it("shows leases, drains and undrains", async () => {
    await say("put", "cli-lease", "x");
    const none = await run("leases");
    assert.deepEqual([none.code, none.stdout], [1, "id\ttube\towner\taddress\tage\ttimeLeft\n"]);
    const answer = await fetch(`http://127.0.0.1:${httpPort}/v1/reserve`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"tubes":["cli-lease"]}',
    });
    assert.equal(answer.status, 200);
    assert.equal(JSON.parse(await say("leases", "--json")).tube, "cli-lease");
    assert.equal(await say("drain"), "takes no new jobs\n");
    assert.equal((await run("put", "cli-lease", "x")).code, 1);
    assert.equal((await run("health", "--for", "put")).code, 1);
    assert.equal(await say("undrain"), "takes new jobs\n");
    assert.equal(await say("reload"), "changed: nothing\n");
    await say("put", "cli-lease", "x");
  });
});
