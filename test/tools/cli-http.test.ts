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
    const queue = await connect(`127.0.0.1:${server!.port}`);
    t.after(() => queue.close());
    const { id } = await queue.put("cli-held", "x");
    queue.watch("cli-held");
    const job = await queue.reserve();
    const holding = ["connections", "--state", "holding", "--tube", "cli-held"];
    const [head = "", row = ""] = (await say(...holding)).split("\n");
    assert.equal(head.split("\t").slice(0, 5).join(), "id,address,age,uses,watches");
    assert.match(row, /^\S+\t127\.0\.0\.1:\d+\t.*\tcli-held\tfalse\t1\t/);
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
    assert.match(closed, /^id\taddress\tclosedFor\treason\t.*\n\S+\t\S+\t[\d.]+\tadmin\t/);
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
