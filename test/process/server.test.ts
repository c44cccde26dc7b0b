// Tests of difficult starts: V8 flags, a removed directory, a stop during the start, another user.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { atBestBelow } from "../support/machine/at-best-below.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { OUR_MAIN, ServerProcess } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

function run(t: TestContext, command: readonly string[], cwd = ROOT): ServerProcess {
  const child = spawn(command[0]!, command.slice(1), { stdio: ["ignore", "pipe", "pipe"], cwd });
  const server = new ServerProcess("ours", child, 0, undefined);
  t.after(() => server.kill());
  return server;
}

async function servesAndStops(server: ServerProcess): Promise<void> {
  await untilItSays(server, /serves on/);
  server.signal("SIGTERM");
  assert.deepEqual(await server.exited, { code: 0, signal: null });
}

const OURS = [process.execPath, OUR_MAIN, "-p", "0"];

describe("a start", () => {
  it("accepts options of V8", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await servesAndStops(
      run(t, [process.execPath, "--max-old-space-size=300", "--expose-gc", ...OURS.slice(1)]),
    );
  });

  it("sets the malloc threshold that returns the memory of deleted jobs", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = run(t, OURS);
    await untilItSays(server, /serves on/);
    const environment = readFileSync(`/proc/${server.pid}/environ`, "latin1").split("\0");
    assert.ok(environment.includes("MALLOC_MMAP_THRESHOLD_=262144"));
  });

  const removed = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"';

  it("works without its working directory", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await servesAndStops(run(t, ["/bin/sh", "-c", removed, "sh", ...OURS], temporaryFolder(t)));
  });

  it("refuses relative paths if its working directory was removed", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const command = ["/bin/sh", "-c", removed, "sh", ...OURS, "-b", "log"];
    const server = run(t, command, temporaryFolder(t));
    assert.deepEqual(await server.exited, { code: 5, signal: null });
    assert.match(server.stderr, /directory has been removed, so log leads nowhere/);
  });

  it("that is interrupted ends with 0 and never reports that it serves", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await atBestBelow(3000, async () => {
      for (;;) {
        const server = run(t, [...OURS, "-V", "-b", temporaryFolder(t)]);
        await untilItSays(server, /^bind /m);
        const startedAt = performance.now();
        server.signal("SIGTERM");
        assert.deepEqual(await server.exited, { code: 0, signal: null });
        const isTooLate = /serves on.*SIGTERM: stopping/s.test(server.stderr);
        if (isTooLate) continue;
        assert.doesNotMatch(server.stderr, /serves on/);
        return performance.now() - startedAt;
      }
    });
  });

  it("switches to a user that may not read the program", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    if (process.getuid!() !== 0) return t.skip("only root may become another user");
    const folder = temporaryFolder(t);
    cpSync(join(ROOT, "src"), join(folder, "src"), { recursive: true });
    cpSync(join(ROOT, "package.json"), join(folder, "package.json"));
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const main = join(folder, "src", "server", "main.ts");
    const command = [process.execPath, main, "-p", "0", "-u", "nobody", "--shards", "2"];
    // The folder is root's and of mode 0700.
    await servesAndStops(run(t, command));
    const log = temporaryFolder(t);
    assert.equal(spawnSync("chown", ["nobody", log]).status, 0);
    await servesAndStops(run(t, [...command, "-b", log]));
  });

  it("leaves nothing in its working directory if the cache of compiled code has an empty name", (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const cwd = temporaryFolder(t);
    const env = { ...process.env, NODE_COMPILE_CACHE: "" };
    const { status, stderr } = spawnSync(process.execPath, [OUR_MAIN, "-v"], { cwd, env, encoding: "utf8" });
    assert.equal(status, 0, stderr);
    assert.deepEqual(readdirSync(cwd), []);
  });

  it("by the launcher in a checkout runs the bundle unless a source is newer", (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t);
    for (const name of ["bin", "src", "packaging", "package.json", "package-lock.json"])
      cpSync(join(ROOT, name), join(folder, name), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    mkdirSync(join(folder, "dist"));
    const bundle = join(folder, "dist", "runnerbean.cjs");
    writeFileSync(bundle, "process.exit(3);");
    const launched = (): number | null => spawnSync(join(folder, "bin", "runnerbean"), ["-v"]).status;
    const now = Date.now() / 1000;
    utimesSync(bundle, now + 60, now + 60);
    assert.equal(launched(), 3);
    for (const source of ["package-lock.json", "src/base/bytes.ts"]) {
      utimesSync(join(folder, source), now + 120, now + 120);
      assert.equal(launched(), 0, source);
      utimesSync(join(folder, source), now, now);
    }
  });
});
