// Tests of the executable that `npm run build:executable` makes: it needs no file beside it, no
// variable and no launcher.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it, type TestContext } from "node:test";
import { bundledFiles } from "../../packaging/bundle/bundle.ts";
import { writeBundle } from "../../packaging/bundle/write-bundle.ts";
import { makeExecutable } from "../../packaging/executable/executable.ts";
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

  function executable(t: TestContext): string {
    const folder = temporaryFolder(t, "executable");
    writeBundle(files, join(folder, "bundle"));
    makeExecutable(join(folder, "bundle"), join(folder, "runnerbean"));
    return join(folder, "runnerbean");
  }

  it("serves both protocols and runs the tools, and takes no code from where it is started", async (t) => {
    const program = executable(t);
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

  it("for arm64 serves under emulation", async (t) => {
    if (process.env["PACKAGING"] !== "whole") return t.skip("fetches Node for arm64: npm run packaging");
    if (process.arch !== "x64") return t.skip("it is not foreign here");
    if (!canRun(t, NEEDS.qemu, NEEDS.arm64Libraries)) return;
    const folder = temporaryFolder(t, "arm64");
    writeBundle(files, join(folder, "bundle"));
    const program = join(folder, "runnerbean");
    makeExecutable(join(folder, "bundle"), program, "arm64");
    // Machine 183 in the header of an ELF file is AArch64.
    assert.equal(readFileSync(program).readUInt16LE(18), 183);
    // The emulator knows no io_uring.
    const args = ["-L", "/usr/aarch64-linux-gnu", program, "-p", "0", "-b", folder, "--transport", "libuv"];
    const server = new ServerProcess("ours", spawn(NEEDS.qemu.path, args, { env: {} }), 0, undefined);
    t.after(() => server.kill());
    const [, port] = await eventually(
      () => server.stderr,
      () =>
        server.hasExited
          ? assert.fail(server.stderr)
          : (/serves on [\d.]+:(\d+)/.exec(server.stderr) ?? undefined),
    );
    const client = await WireClient.connect({ port: Number(port) });
    assert.equal((await client.ask("put 0 0 60 5\r\nhello")).line, "INSERTED 1");
    assert.match(`${(await client.ask("stats")).body}`, /platform: "aarch64"/);
    client.socket.destroy();
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });
});
