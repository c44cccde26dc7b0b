// Tests of a backup in a group: of the primary, restored as a server that stands alone; a standby
// refuses.

import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { missingNats, NatsCluster } from "../support/server/nats-cluster.ts";
import { GroupServer } from "../support/server/server-group.ts";
import { startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { WireClient } from "../support/server/wire-client.ts";

it("a backup of the primary has its jobs; a standby refuses", {
  skip: missingNats(),
}, async (t) => {
  const cluster = await NatsCluster.start(t, 1);
  const made = await runTool([
    "replica",
    "init",
    cluster.url("test"),
    "--replicas",
    "1",
    "--max-bytes",
    "128M",
  ]);
  assert.equal(made.code, 0, made.stderr);
  const serverAt = async (name: string): Promise<{ server: GroupServer; http: string }> => {
    const http = `127.0.0.1:${await freePort()}`;
    const flags = ["--replicate", cluster.url("test"), "--http", http];
    const server = new GroupServer(await freePort(), temporaryFolder(t, name), flags);
    t.after(() => server.end());
    server.start();
    return { server, http: `http://${http}` };
  };
  const readiness = async (http: string): Promise<string> =>
    (await fetch(`${http}/readyz`).catch(() => undefined))?.text() ?? "";
  const a = await serverAt("a");
  await eventually("it leads", async () => /^ok/.test(await readiness(a.http)));
  const b = await serverAt("b");
  await eventually("it follows", async () => /^standby/.test(await readiness(b.http)));
  const client = await WireClient.connect({ host: "127.0.0.1", port: a.server.port });
  for (let i = 0; i < 50; i++) assert.match((await client.put(`job ${i}`)).line, /^INSERTED/);
  const folder = temporaryFolder(t, "backup");
  const refused = await runTool(["backup", b.http, join(folder, "b.tar")]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /another server of the group has the lead/);
  const backup = await runTool(["backup", a.http, join(folder, "a.tar")]);
  assert.equal(backup.code, 0, backup.stderr);
  const restored = await runTool(["restore", join(folder, "a.tar"), join(folder, "log")]);
  assert.match(restored.stderr, /^Restored 50 jobs/, restored.stderr);
  const alone = await startServer({ kind: "ours", flags: ["-b", join(folder, "log")] });
  t.after(() => alone.kill());
  const there = await WireClient.connect(alone.address);
  assert.match((await there.ask("stats-tube default")).body!.toString(), /^current-jobs-ready: 50$/m);
  client.socket.destroy();
  there.socket.destroy();
});
