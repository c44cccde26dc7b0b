// Tests of `runnerbean doctor`: each check says what it found, and a fault what to do.

import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { freePort } from "../support/machine/free-port.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
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
