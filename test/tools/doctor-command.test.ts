// Tests of `runnerbean doctor`: each check says what it found, and a fault what to do.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { ourMain, startServer, TEST_ENV } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";

interface Finding {
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly found: string;
  readonly todo?: string;
}

async function doctor(...args: string[]): Promise<{ code: number | null; findings: Finding[] }> {
  const { code, stdout, stderr } = await runTool(["doctor", "--json", ...args], { env: {} });
  assert.equal(stderr, "");
  const lines = stdout.trimEnd().split("\n");
  return { code, findings: lines.map((line) => JSON.parse(line) as Finding) };
}

describe("runnerbean doctor", () => {
  it("checks the machine, the port and the log's directory", async (t) => {
    const folder = temporaryFolder(t, "doctor");
    const { code, findings } = await doctor("--", "-p", `${await freePort()}`, "-b", folder);
    assert.deepEqual(
      [...new Set(findings.map(({ check }) => check))],
      ["kernel", "io_uring", "limits", "clock", "port", "disk", "fsync"],
    );
    const worst = Math.max(...findings.map(({ status }) => ["ok", "warn", "fail"].indexOf(status)));
    assert.equal(code, worst);
    for (const { status, todo } of findings) assert.equal(todo === undefined, status === "ok");
    assert.match(findings.at(-1)!.found, /^fsync takes [\d.]+ ms, at most [\d.]+ ms of 20$/);
  });

  it("fails for a port in use, unless runnerbean has it, and for log servers out of reach", async (t) => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    t.after(() => other.close());
    const { port } = other.address() as { port: number };
    const dead = `127.0.0.1:${await freePort()}`;
    const folder = temporaryFolder(t, "doctor");
    const flags = ["-p", `${port}`, "-b", folder, "--replicate", `nats://${dead}/g`];
    const { code, findings } = await doctor("--", ...flags);
    assert.equal(code, 2);
    const of = (check: string): Finding =>
      findings.find((each) => each.check === check) ?? assert.fail(check);
    assert.equal(of("port").status, "fail");
    assert.match(of("port").found, new RegExp(`^127.0.0.1:${port}: .* listens$`));
    assert.match(of("log server").found, new RegExp(`^${dead}: connection refused`));
    const server = await startServer({ kind: "ours" });
    t.after(() => server.stop());
    const beside = await doctor("--", "-p", `${server.port}`);
    assert.match(
      beside.findings.find(({ check }) => check === "port")?.found ?? "",
      /runnerbean \(process \d+\) listens$/,
    );
    assert.equal(beside.code, 1, "no log");
  });

  it("ends although a log server says nothing", async (t) => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    t.after(() => silent.close());
    const { port } = silent.address() as { port: number };
    const url = `nats://127.0.0.1:${port}/g`;
    const folder = temporaryFolder(t, "doctor");
    const { code, findings } = await doctor("--", "-p", "0", "-b", folder, "--replicate", url);
    assert.equal(code, 2);
    assert.match(findings.find(({ check }) => check === "log server")?.found ?? "", /: timeout$/);
    assert.equal((await runTool(["replica", "check", url], { env: {} })).code, 1);
  });

  it("fails for a full disk, and leaves nothing in the directory", (t) => {
    if (!canRun(t, NEEDS.unshare)) return;
    const folder = temporaryFolder(t, "doctor");
    const runs = `mount -t tmpfs -o size=64k tmpfs "$1" && head -c 65536 /dev/zero >"$1/full" &&
      { "$2" "$3" doctor --json -- -p 0 -b "$1"; echo $?; ls -A "$1"; }`;
    // Root needs no user namespace, and can't make one in a changed root directory.
    const asRoot = process.getuid!() === 0 ? [] : ["--map-root-user"];
    const namespace = ["--mount", ...asRoot, "sh", "-c", runs, "sh", folder];
    const program = [process.execPath, ourMain(TEST_ENV)];
    const { stdout, stderr } = spawnSync(NEEDS.unshare.path, [...namespace, ...program], {
      encoding: "utf8",
      env: TEST_ENV,
    });
    assert.equal(stderr, "");
    const lines = stdout.trimEnd().split("\n");
    assert.deepEqual(lines.slice(-2), ["2", "full"]);
    const [disk, fsync] = lines.slice(-4, -2).map((line) => JSON.parse(line) as Finding);
    assert.deepEqual([disk!.status, fsync!.status], ["fail", "fail"]);
    assert.match(fsync!.found, /^cannot write to .*: ENOSPC/);
  });

  it("judges the flags without a file, too", async (t) => {
    const folder = temporaryFolder(t, "doctor");
    const tokens = join(folder, "tokens");
    const { code, findings } = await doctor("--", "-p", "0", "-b", folder, "--token-file", tokens);
    assert.equal(code, 2);
    const { status, found } = findings.find(({ check }) => check === "config") ?? assert.fail();
    assert.deepEqual([status, found.includes(tokens)], ["fail", true]);
    const missing = await doctor("--config", join(folder, "none.toml"));
    const { found: twice } = missing.findings.at(-1)!;
    assert.equal(twice.split("none.toml").length, 2, twice);
  });

  it("fails for a directory that isn't there, and for a wrong configuration", async (t) => {
    const folder = temporaryFolder(t, "doctor");
    const missing = await doctor("--", "-p", `${await freePort()}`, "-b", join(folder, "none"));
    assert.equal(missing.code, 2);
    assert.match(missing.findings.at(-1)!.found, /none does not exist$/);
    const file = join(folder, "config.toml");
    writeFileSync(file, "prot = 1\n");
    const wrong = await doctor("--config", file);
    assert.equal(wrong.code, 2);
    assert.match(wrong.findings.at(-1)!.found, /unknown key prot: did you mean port\?/);
  });
});
