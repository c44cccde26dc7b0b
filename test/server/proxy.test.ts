// Tests of `runnerbean proxy`: clients that support neither TLS nor tokens reach a listener that
// demands both.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { CLIENTS } from "../clients/all-clients.ts";
import { makeCertificates } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { canRun, missing, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { GuardedServer, newToken } from "../support/server/guarded-server.ts";
import { ourMain, TEST_ENV } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

interface Proxy {
  readonly process: ChildProcess;
  readonly port: number;
  said(): string;
}

async function startProxy(args: readonly string[]): Promise<Proxy> {
  const child = spawn(process.execPath, [ourMain(TEST_ENV), "proxy", "--listen", "127.0.0.1:0", ...args], {
    env: TEST_ENV,
  });
  let stderr = "";
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  const port = await eventually(
    () => `the proxy to listen: ${stderr}`,
    () => /listens on 127\.0\.0\.1:(\d+)/.exec(stderr)?.[1],
  );
  return { process: child, port: Number(port), said: () => stderr };
}

describe("proxy with TLS and a token", { skip: missing(NEEDS.openssl) ?? false }, () => {
  const folder = temporaryFolder({ after }, "proxy");
  const operator = newToken("old", "operator");
  const secretFile = join(folder, "secret");
  const files = makeCertificates(folder);
  writeFileSync(secretFile, `${operator.secret}\n`);

  const startGuarded = (where: string): Promise<GuardedServer> =>
    GuardedServer.start(
      where,
      operator.line,
      1,
      ([port]) => `[[listener]]
address = "127.0.0.1:${port}"
auth = "token"
tls = { cert = "${files.cert}", key = "${files.key}" }
`,
    );
  const to = (guarded: GuardedServer): string[] => [
    ...["--to", `tls://localhost:${guarded.ports[0]}`, "--ca", files.ca],
  ];

  let guarded: GuardedServer;
  let proxy: Proxy;
  before(async () => {
    guarded = await startGuarded(folder);
    proxy = await startProxy([...to(guarded), "--token-file", secretFile]);
  });
  after(async () => {
    proxy.process.kill();
    await guarded.server.stop();
  });

  it("forwards bytes both ways, also large bodies and half-closes", async () => {
    const client = await WireClient.connect({ port: proxy.port, host: "127.0.0.1" });
    const body = "x".repeat(65_000);
    client.send("use proxy-a\r\nwatch proxy-a\r\n");
    for (let job = 0; job < 50; job++) client.send(`put 0 0 60 ${body.length}\r\n${body}\r\n`);
    for (let reply = 0; reply < 52; reply++)
      assert.match((await client.readReply()).line, /^(USING|WATCHING|INSERTED)/);
    for (let job = 0; job < 50; job++) client.send("reserve\r\n");
    client.halfClose();
    for (let job = 0; job < 50; job++) assert.equal((await client.readReply()).body?.length, body.length);
    await client.expectEnd();
    // With its end the jobs have gone back.
    const other = await WireClient.connect({ port: proxy.port, host: "127.0.0.1" });
    const { body: stats } = await other.ask("stats-tube proxy-a");
    assert.match(`${stats}`, /current-jobs-ready: 50\n/);
    other.close();
  });

  it("closes the connection if the server refuses the token, and says why", async () => {
    const wrong = `rb1_wrong${"x".repeat(38)}`;
    writeFileSync(join(folder, "wrong"), `${wrong}\n`);
    const bad = await startProxy([...to(guarded), "--token-file", join(folder, "wrong")]);
    const client = await WireClient.connect({ port: bad.port, host: "127.0.0.1" });
    await client.expectEnd();
    await eventually(
      () => bad.said(),
      () => (/the server rejects the token: UNAUTHORIZED/.test(bad.said()) ? true : undefined),
    );
    assert.ok(!bad.said().includes(wrong));
    bad.process.kill();
  });

  it("trusts no server without its authority's signature", async () => {
    const strangers = makeCertificates(temporaryFolder({ after }, "strangers"));
    const bad = await startProxy([
      "--to",
      `tls://localhost:${guarded.ports[0]}`,
      "--ca",
      strangers.ca,
      "--token-file",
      secretFile,
    ]);
    const client = await WireClient.connect({ port: bad.port, host: "127.0.0.1" });
    await client.expectEnd();
    await eventually(
      () => bad.said(),
      () => (/certificate/.test(bad.said()) ? true : undefined),
    );
    bad.process.kill();
  });

  for (const [index, client] of CLIENTS.entries()) {
    it(`serves ${client.name}`, { skip: skipVariant(index, 2) }, async (t) => {
      if (!canRun(t, NEEDS.ours, ...client.needs)) return;
      // They count ids from 1.
      const own = await startGuarded(temporaryFolder(t, "proxy-client"));
      t.after(() => own.server.stop());
      const beside = await startProxy([...to(own), "--token-file", secretFile]);
      t.after(() => void beside.process.kill());
      await client.cycle(beside.port);
    });
  }
});
