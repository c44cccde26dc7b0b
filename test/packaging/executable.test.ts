// Tests of the executable that `npm run build:executable` makes: it needs no file beside it, no
// variable and no launcher.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { before, describe, it, type TestContext } from "node:test";
import { bundledFiles } from "../../packaging/bundle/bundle.ts";
import { writeBundle } from "../../packaging/bundle/write-bundle.ts";
import { makeExecutable } from "../../packaging/executable/executable.ts";
import { type Architecture, HERE } from "../../packaging/node.ts";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { ServerProcess } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("the executable", () => {
  let files: Map<string, Uint8Array>;

  before(async () => {
    files = await bundledFiles();
  });

  function executable(t: TestContext, architecture: Architecture = HERE): string {
    const folder = temporaryFolder(t, "executable");
    writeBundle(files, join(folder, "bundle"));
    makeExecutable(join(folder, "bundle"), join(folder, "runnerbean"), architecture);
    return join(folder, "runnerbean");
  }

  it("serves both protocols and runs the tools, and takes no code from where it is started", async (t) => {
    const program = executable(t);
    assert.ok(!readFileSync(program).includes(dirname(program)), "it is the same wherever it is built");
    const cwd = temporaryFolder(t, "elsewhere");
    for (const name of ["msgpackr-extract", "piscina", "yaml"]) {
      mkdirSync(join(cwd, "node_modules", name), { recursive: true });
      writeFileSync(join(cwd, "node_modules", name, "index.js"), "process.exit(9);");
    }
    const tool = spawnSync(program, ["config", "print"], { cwd, env: {}, encoding: "utf8" });
    assert.equal(tool.status, 0, tool.stderr);
    const flags = ["-p", "0", "-b", cwd, "--http", "127.0.0.1:0"];
    const server = new ServerProcess("ours", spawn(program, flags, { cwd, env: {} }), 0, undefined);
    t.after(() => server.kill());
    const where = /serves on [\d.]+:(\d+) and (http:\S+)/;
    const [, port, url] = await eventually(
      () => server.stderr,
      () => where.exec(server.stderr) ?? undefined,
    );
    const client = await WireClient.connect({ port: Number(port) });
    assert.equal((await client.ask("put 0 0 60 5\r\nhello")).line, "INSERTED 1");
    client.socket.destroy();
    const page = await fetch(`${url}/assets/app.js`);
    assert.equal(page.status, 200);
    // It executed itself once only: no launcher, and malloc's threshold is set in the process.
    assert.equal(readFileSync(`/proc/${server.pid}/cmdline`, "utf8").split("\0")[0], program);
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
    assert.doesNotMatch(server.stderr, /Warning/);
  });

  it("serves on arm64, as far as an emulator tells", async (t) => {
    if (process.env["PACKAGING"] !== "whole") {
      t.skip("fetches Node for arm64: npm run packaging");
      return;
    }
    if (!canRun(t, NEEDS.qemuArm64, NEEDS.librariesArm64)) return;
    const program = executable(t, "arm64");
    const emulated = ["-L", "/usr/aarch64-linux-gnu", program];
    const version = spawnSync(NEEDS.qemuArm64.path, [...emulated, "--version"], { encoding: "utf8" });
    assert.match(version.stdout, /^runnerbean \d/, version.stderr);
    const flags = ["-p", "0", "-b", temporaryFolder(t, "arm64-log"), "--transport", "libuv"];
    const server = new ServerProcess(
      "ours",
      spawn(NEEDS.qemuArm64.path, [...emulated, ...flags]),
      0,
      undefined,
    );
    t.after(() => server.kill());
    const [, port] = await eventually(
      () => server.stderr,
      () => /serves on [\d.]+:(\d+)/.exec(server.stderr) ?? undefined,
    );
    const client = await WireClient.connect({ port: Number(port) });
    assert.equal((await client.ask("put 0 0 60 5\r\nhello")).line, "INSERTED 1");
    assert.equal((await client.ask("reserve")).line, "RESERVED 1 5");
    assert.equal((await client.ask("delete 1")).line, "DELETED");
    client.socket.destroy();
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });
});
