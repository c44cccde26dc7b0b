// Rows of protocol.md, section 16, that show at the process and not on the wire: 8b, 22 and 25.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { launch, startServer } from "./support/server-process.ts";
import { WireClient } from "./support/wire-client.ts";

const LIMIT_MS = 15_000;

/** Waits until `found` finds something. */
async function eventually<T>(found: () => T | undefined): Promise<T> {
  const deadline = performance.now() + LIMIT_MS;
  for (;;) {
    const result = found();
    if (result !== undefined) return result;
    assert.ok(performance.now() < deadline, "it did not happen in time");
    await sleep(20);
  }
}

test("row 8b: a client that waits over a stall of the server gets its own expired job, and is told so", async () => {
  const server = await startServer({ kind: "ours", flags: ["--shards", "1", "--acceptors", "1"] });
  try {
    const client = await WireClient.connect(server.address);
    await client.put("x", { ttr: 3 });
    assert.equal((await client.ask("reserve")).line, "RESERVED 1 1");
    client.send("reserve\r\n");
    await client.expectNothing(200);
    server.signal("SIGSTOP");
    await sleep(3500);
    server.signal("SIGCONT");
    assert.equal((await client.readReply()).line, "RESERVED 1 1");
    const stats = (await client.ask("stats-job 1")).body!.toString();
    assert.match(stats, /^reserves: 2$/m);
    assert.match(stats, /^timeouts: 1$/m);
  } finally {
    await server.kill();
  }
});

test("row 22: -V prints the IPv6 address that it listens on", async (t) => {
  const server = await launch({ kind: "ours", flags: ["-l", "::1", "-V"] });
  try {
    const line = await eventually(
      () => /^bind .*$/m.exec(server.stdout)?.[0] ?? (server.hasExited ? "" : undefined),
    );
    if (/EADDRNOTAVAIL|Cannot assign|EAFNOSUPPORT/.test(server.stderr)) {
      t.skip("SKIPPED: this machine has no IPv6 loopback");
      return;
    }
    assert.equal(line.replace(/^bind \d+ /, ""), `[::1]:${server.port}`);
  } finally {
    await server.kill();
  }
});

test("row 25: -u leaves root's groups behind", async (t) => {
  if (process.getuid?.() !== 0) {
    t.skip("SKIPPED: only root can become somebody else");
    return;
  }
  const server = await startServer({ kind: "ours", flags: ["-u", "nobody"] });
  try {
    const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
    const field = (name: string): string =>
      new RegExp(`^${name}:\\s*(.*?)\\s*$`, "m").exec(status)?.[1] ?? "";
    assert.match(field("Uid"), /^65534\s+65534\s+65534\s+65534$/);
    assert.ok(!field("Gid").split(/\s+/).includes("0"), field("Gid"));
    assert.ok(!field("Groups").split(/\s+/).includes("0"), `groups: ${field("Groups")}`);
  } finally {
    await server.kill();
  }
});
