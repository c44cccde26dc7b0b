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
});
