// Tests of the operator commands against our server and, if they use its protocol, against
// beanstalkd.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { printable } from "../../src/base/text.ts";
import { rowsText } from "../../src/cli/output.ts";
import { connect } from "../../src/client/client.ts";
import { canRun } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { ourMain, TEST_ENV } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { everySecond } from "../support/whole.ts";
import { onEachServer } from "./on-each-server.ts";

onEachServer(({ kind, need, run, say, url }) => {
  it("puts, shows, takes and deletes jobs, bytes unchanged", async (t) => {
    if (!canRun(t, need)) return;
    const body = Buffer.from([0, 255, 13, 10, 128]);
    const put = await run(["put", "cli-bytes", "-", "--pri", "7", "--ttr", "9"], body);
    const id = put.stdout.trim();
    assert.match(id, /^\d+$/, put.stderr);
    assert.equal(await say("peek", "cli-bytes"), body.toString("latin1"));
    assert.match(await say("peek", id, "--stats"), /^pri\t7$/m);
    const seen = JSON.parse(await say("peek", id, "--json"));
    assert.equal(seen.bodyBase64, body.toString("base64"));
    assert.match(await say("tube", "cli-bytes"), /^current-jobs-ready\t1$/m);
    const reserved = await run(["reserve", "cli-bytes", "--wait", "0"]);
    assert.equal(reserved.stdout, body.toString("latin1"));
    assert.match(reserved.stderr, /go back to the queue/);
    assert.equal(await say("reserve", "cli-bytes", "--delete"), body.toString("latin1"));
    assert.equal((await run(["peek", id])).code, 1);
    assert.equal((await run(["delete", id])).code, 1);
  });

  it("deletes no job that it couldn't print to a full disk or a closed pipe", async (t) => {
    if (!canRun(t, need)) return;
    await run(["put", "cli-unread", "--lines"], "one\ntwo\n");
    const reserve = [ourMain(TEST_ENV), "reserve", "cli-unread", "--wait", "0", "--max", "0", "--delete"];
    const env = { ...TEST_ENV, RUNNERBEAN_URL: url() };
    const full = openSync("/dev/full", "w");
    const refused = spawnSync(process.execPath, reserve, {
      env,
      stdio: ["ignore", full, "pipe"],
      encoding: "utf8",
    });
    closeSync(full);
    assert.equal(refused.status, 1, refused.stderr);
    assert.match(
      refused.stderr,
      /^runnerbean: cannot write the output: ENOSPC: no space left on device, write\n$/,
    );
    const unread = spawn(process.execPath, reserve, { env, stdio: ["ignore", "pipe", "inherit"] });
    unread.stdout.destroy();
    const [code] = (await once(unread, "exit")) as [number];
    assert.equal(code, 0);
    assert.match(await say("tube", "cli-unread"), /^current-jobs-ready\t2$/m);
    assert.equal(await say("reserve", "cli-unread", "--wait", "0", "--max", "0", "--delete"), "one\ntwo\n");
  });

  it("puts a job for each line in order, and lists tubes for programs", async (t) => {
    if (!canRun(t, need)) return;
    const lines = Array.from({ length: 2500 }, (_, line) => `line ${line}`);
    const { stdout, code } = await run(["put", "cli-lines", "--lines"], `${lines.join("\n")}\n`);
    assert.equal(code, 0);
    const ids = stdout.trim().split("\n").map(Number);
    assert.deepEqual(
      [...ids].sort((a, b) => a - b),
      ids,
    );
    assert.equal(ids.length, lines.length);
    const [head, row] = (await say("tubes", "cli-l*")).split("\n");
    assert.equal(head!.split("\t")[0], "tube");
    assert.equal(row!.split("\t").slice(0, 2).join(), "cli-lines,2500");
    assert.equal(JSON.parse(await say("tubes", "cli-lines", "--json")).ready, 2500);
    assert.equal((await run(["tubes", "no-such-*"])).code, 1);
  });

  it("puts a job for each line byte for byte, whatever the line has", async (t) => {
    if (!canRun(t, need)) return;
    const lines = ['{"text":"a\u2028b\u2029c\u0085d"}', "a\rb", "", "\xff\xfe", "x".repeat(60_000)];
    const bytes = lines.map((line) => Buffer.from(line, line === "\xff\xfe" ? "latin1" : "utf8"));
    const ends = [..."\n\n\n"].map((end) => Buffer.from(end)).concat(Buffer.from("\r\n"));
    const input = Buffer.concat(bytes.flatMap((line, at) => [line, ends[at] ?? Buffer.alloc(0)]));
    const { stdout, code } = await run(["put", "cli-odd-lines", "--lines"], input);
    assert.equal(code, 0);
    const ids = stdout.trim().split("\n");
    assert.equal(ids.length, lines.length);
    for (const [at, id] of ids.entries())
      assert.equal(await say("peek", id), bytes[at]!.toString("latin1"), `line ${at}`);
  });

  it("runs a command for jobs: 0 deletes, 75 releases, others bury; kicks them", async (t) => {
    if (!canRun(t, need)) return;
    for (const body of ["good", "later", "bad"]) await say("put", "cli-work", body, "--pri", "3");
    const script =
      'read body; echo "$JOB_TUBE $body"; case $body in good) exit 0;; later) exit 75;; esac; exit 1';
    // "later" comes again at once, so it is done once more in the place of a fourth.
    const done = await run(["reserve", "cli-work", "--wait", "0", "--max", "2", "--", "sh", "-c", script]);
    assert.equal(done.code, 2, done.stderr);
    assert.equal(done.stdout, "cli-work good\ncli-work later\n");
    const rest = await run(["reserve", "cli-work", "--wait", "0", "--max", "1", "--", "sh", "-c", "exit 3"]);
    assert.equal(rest.code, 1);
    assert.match(await say("tubes", "cli-work"), /^cli-work\t1\t1\t0\t0\t1\t3\t1\t/m);
    assert.equal(await say("kick", "cli-work"), "kicked 1\n");
    assert.equal((await run(["reserve", "cli-work", "--", "/nonexistent"])).code, 5);
  });

  it("refreshes the server's view", async (t) => {
    if (!canRun(t, need)) return;
    const shown = await say("top", "-n", "2", "--every", "0.05");
    assert.equal(shown.match(/^ready \d+ {2}reserved/gm)?.length, 2);
    assert.match(await say("stats"), /^current-connections\t\d+$/m);
  });

  it("reports the kind of error by its exit code", async (t) => {
    // It has nothing to do with which server it is.
    if (kind !== "ours" || !canRun(t, need)) return;
    for (const [args, code] of everySecond([
      [["stats", "--url", "beanstalk://127.0.0.1:1"], 3],
      [["stats", "--url", "gopher://x"], 5],
      [["stats", "--url", "http://127.0.0.1:1"], 5],
      [["health", "--url", "http://127.0.0.1:1"], 3],
      [["health"], 5],
      [["stats", "--nonsense"], 5],
      [["put"], 5],
      [["tubes", "--sort", "nonsense"], 5],
      [["put", "bad name", "x"], 5],
      [["stats", "--token", "@/nonexistent"], 5],
      [["stats", "--token", "x"], 1],
    ] as [string[], number][])) {
      const result = await run(args);
      assert.equal(result.code, code, `${args.join(" ")}: ${result.stderr}`);
      assert.notEqual(result.stderr, "");
      assert.doesNotMatch(result.stderr, /\n {4}at /, "no stack traces");
    }
  });

  it("finds long texts in bodies, and jobs of a group", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    const text = "a text that is longer than a third of two hundred bytes, with 100 % of its marks";
    await say("put", "cli-text", `before ${text} behind`);
    const queue = await connect(url());
    t.after(() => queue.close());
    await queue.put("cli-text", "x", { group: "50%" });
    assert.match(await say("jobs", "cli-text", "--text", text), /\tbefore a text/);
    assert.match(await say("jobs", "cli-text", "--group", "50%"), /\tx\n$/);
  });

  it("shows the help of a tool, or of the server", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    const help = await say("help");
    assert.match(help, /^Use: runnerbean \[OPTIONS\]\n(?:.*\n)*Commands that clients send:\n/);
    assert.equal(await say("help", "help"), help);
    for (const words of [["put"], ["settings", "set"], ["binlog", "check"]])
      assert.equal(await say("help", ...words), await say(...words, "--help"));
    const { code, stderr } = await run(["help", "redrve"]);
    assert.deepEqual(
      [code, stderr.split("\n")[0]],
      [5, "runnerbean: unknown command: redrve: did you mean redrive?"],
    );
  });

  it("prints its results as JSON, too, and takes no argument for a command", async (t) => {
    if (kind !== "ours" || !canRun(t, need)) return;
    const put = await say("put", "cli-json", "x", "--json", "--delay", "1000");
    const { id } = JSON.parse(put);
    assert.equal(put, `{"id":${id}}\n`);
    assert.equal(await say("pause", "cli-json", "9", "--json"), '{"paused":9}\n');
    assert.equal(await say("kick", `${id}`, "--json"), '{"kicked":1}\n');
    assert.equal(await say("kick", "cli-json", "--json"), '{"kicked":0}\n');
    for (const args of [
      ["tube", `cli-json\r\ndelete ${id}`],
      ["kick", "cli-json", `1\r\ndelete ${id}`],
    ])
      assert.equal((await run(args)).code, 5);
    assert.equal(await say("delete", `${id}`, "--json"), '{"deleted":1}\n');
  });
});

describe("cli with a token", () => {
  it("signs in from the environment or a file, and reports forbidden commands", async (t) => {
    const folder = temporaryFolder(t, "cli");
    const viewer = newToken("eyes", "viewer");
    const guarded = await GuardedServer.start(
      folder,
      viewer.line,
      1,
      ([port]) => `[[listener]]\naddress = "127.0.0.1:${port}"\nauth = "token"\n`,
    );
    t.after(() => guarded.server.stop());
    const secretFile = join(folder, "secret");
    writeFileSync(secretFile, `${viewer.secret}\n`);
    const url = ["--url", `beanstalk://127.0.0.1:${guarded.ports[0]}`];
    for (const [env, code] of [
      [{ RUNNERBEAN_TOKEN: viewer.secret }, 0],
      [{ RUNNERBEAN_TOKEN: `@${secretFile}` }, 0],
      [{ RUNNERBEAN_TOKEN: "wrong" }, 4],
      [{}, 4],
    ] as const) {
      const result = await runTool(["stats", ...url], { env });
      assert.equal(result.code, code, result.stderr);
      assert.ok(!result.stderr.includes(viewer.secret));
    }
    const forbidden = await runTool(["put", "a", "x", ...url], { env: { RUNNERBEAN_TOKEN: viewer.secret } });
    assert.equal(forbidden.code, 4);
  });
});

describe("printed output", () => {
  it("contains no control character", () => {
    assert.equal(printable("a\u001b[2Jb\u202ec\nd"), "a\\u001b[2Jb\\u202ec\\u000ad");
    assert.equal(rowsText([{ a: "x\ty" }], ["a"], false), "a\nx\\u0009y\n");
  });

  it("is aligned, numbers to the right", () => {
    const rows = [
      { name: "a", n: 5 },
      { name: "long", n: 1234 },
    ];
    assert.equal(rowsText(rows, ["name", "n"], true), "name     n\na        5\nlong  1234\n");
  });
});
