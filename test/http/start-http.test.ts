// Tests of starting and stopping the HTTP side: its addresses, what it refuses, and that the
// protocol is unaffected.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startHttpServer } from "../support/server/http-server.ts";
import { launch, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

describe("--http", { concurrency: 3 }, () => {
  it("refuses a reachable address without tokens, and says what to do", async () => {
    const server = await launch({ kind: "ours", flags: ["--http", "0.0.0.0:0"] });
    assert.equal((await server.refused()).code, 5);
    assert.match(server.stderr, /--http-insecure/);
  });

  it("names a socket path that is too long, for each protocol and in the file", async (t) => {
    const folder = temporaryFolder(t);
    const path = join(folder, "x".repeat(120));
    const http = join(folder, "http.toml");
    writeFileSync(http, `[http]\nlisten = "unix:${path}"\n`);
    const listener = join(folder, "listener.toml");
    writeFileSync(listener, `[[listener]]\naddress = "unix:${path}"\n`);
    for (const flags of [
      ["-l", `unix:${path}`],
      ["--http", `unix:${path}`],
      ["--config", http],
      ["--config", listener],
    ]) {
      const { code, stderr } = await runTool(["-p", `${await freePort()}`, ...flags]);
      assert.notEqual(code, 0, `${flags}`);
      assert.match(stderr, /socket path \S+x is too long \(\d+ characters\), where maximum allowed is 107/);
      assert.doesNotMatch(stderr, /\bat .*:\d+:\d+/, "no stack");
    }
  });

  it("ends the start with exit code 111 if the address is taken", async () => {
    const first = await startHttpServer();
    try {
      const second = await launch({ kind: "ours", flags: ["--http", `127.0.0.1:${first.port}`] });
      assert.equal((await second.refused()).code, 111);
      assert.match(second.stderr, /cannot listen for HTTP on 127\.0\.0\.1:[0-9]+: .*EADDRINUSE/);
    } finally {
      await first.process.stop();
    }
  });

  it("serves before a client gets in over the protocol, also while a log is read", async (t) => {
    const folder = temporaryFolder(t, "log");
    const log = ["-b", folder, "-f", "0"];
    const before = await startServer({ kind: "ours", flags: log });
    const first = await WireClient.connect(before.address);
    await first.ask("put 0 0 60 1\r\nx");
    await before.stop();
    for (const flags of [log, ["--acceptors", "2", "--shards", "2"]]) {
      const [http, port] = [await freePort(), await freePort()];
      const where = ["-p", `${port}`, "--http", `127.0.0.1:${http}`];
      const server = await launch({ kind: "ours", flags: [...where, ...flags] });
      t.after(() => server.kill());
      const client = await eventually("the port is open", () =>
        WireClient.connect({ port, host: "127.0.0.1" }).catch(() => undefined),
      );
      const status = async (path: string): Promise<number> =>
        (await fetch(`http://127.0.0.1:${http}${path}`)).status;
      assert.equal(await status("/livez"), 200);
      assert.match((await client.ask("list-tube-used")).line, /^USING/);
      assert.equal(await status("/v1/stats"), 200);
      assert.equal(await status("/readyz"), 200);
      client.close();
      await server.stop();
    }
  });

  it("opens neither address, and leaves no socket, if that of the protocol is taken", async (t) => {
    const first = await startServer({ kind: "ours" });
    t.after(() => first.kill());
    const path = join(temporaryFolder(t), "http.sock");
    const flags = ["-p", `${first.port}`, "--http", `unix:${path}`];
    const second = await launch({ kind: "ours", flags });
    assert.equal((await second.refused()).code, 111);
    assert.match(second.stderr, /cannot listen on 127\.0\.0\.1 port [0-9]+: Address already in use/);
    assert.ok(!existsSync(path));
  });

  it("listens on a unix socket of mode 0600, and replaces one that a killed server left", async (t) => {
    const path = join(temporaryFolder(t), "http.sock");
    const first = await startServer({ kind: "ours", flags: ["--http", `unix:${path}`] });
    t.after(() => first.kill());
    await eventually("it listens", () => existsSync(path) && (statSync(path).mode & 0o777) === 0o600);
    await first.kill();
    const second = await startServer({ kind: "ours", flags: ["--http", `unix:${path}`] });
    t.after(() => second.kill());
    const text = await eventually(
      "it answers",
      () =>
        new Promise<string | undefined>((resolve) => {
          const asked = request({ socketPath: path, path: "/readyz" }, (answer) => {
            answer.setEncoding("utf8").on("data", resolve);
          });
          asked.on("error", () => resolve(undefined));
          asked.end();
        }),
    );
    assert.equal(text, "ok\n");
    await second.stop();
    assert.ok(!existsSync(path), "an orderly stop removes it");
  });

  it("stops in order with the server, also with an open connection", async () => {
    const server = await startHttpServer("--http-insecure");
    assert.equal((await server.ask("/livez", { headers: { connection: "keep-alive" } })).status, 200);
    assert.deepEqual(await server.process.stop(), { code: 0, signal: null });
  });

  it("stops without cutting other clients when one stalls in its request", async (t) => {
    const server = await startHttpServer();
    t.after(() => server.process.kill());
    const client = connect(server.port, "127.0.0.1");
    client.on("error", () => {});
    const head = "POST /v1/tubes/mail/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\nexpect: 100-continue\r\n";
    client.write(`${head}content-type: application/octet-stream\r\ncontent-length: 100\r\n\r\n`);
    // The server has the request, and waits for its body.
    const [said] = (await once(client, "data")) as [Buffer];
    assert.match(said.toString(), /^HTTP\/1.1 100 /);
    client.write("ten bytes.");
    assert.deepEqual(await server.process.stop(), { code: 0, signal: null });
    // The server's own bound comes later than that of the HTTP side, and says so.
    assert.doesNotMatch(server.process.stdout + server.process.stderr, /connections were closed/);
    if (!client.destroyed) await once(client, "close");
  });
});

/**
 * Program for a server whose HTTP thread waits while a file exists: `bind` before it opens its
 * ports, `load` before it loads its code. `localhost` has two addresses.
 */
const held = (folder: string): string => `
import dns from "node:dns";
import { existsSync, writeFileSync } from "node:fs";
import { registerHooks, syncBuiltinESMExports } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, workerData } from "node:worker_threads";
globalThis.passes = async (name) => {
  const gate = ${JSON.stringify(folder)} + "/" + name;
  if (existsSync(gate)) writeFileSync(gate + ".reached", "");
  while (existsSync(gate)) await sleep(5);
};
const BOTH = ["127.0.0.1", "127.0.0.2"].map((address) => ({ address, family: 4 }));
const { lookup, promises } = dns;
const { lookup: lookUp } = promises;
dns.lookup = (name, options, done = options) => {
  if (name !== "localhost") lookup(name, options, done);
  else if (options.all) process.nextTick(done, null, BOTH);
  else process.nextTick(done, null, BOTH[0].address, 4);
};
promises.lookup = async (name, options) =>
  name !== "localhost" ? await lookUp(name, options) : options?.all ? BOTH : BOTH[0];
syncBuiltinESMExports();
registerHooks({
  load(url, context, next) {
    if (!url.endsWith("/http-thread.ts")) return next(url, context);
    const source = 'await globalThis.passes("load"); export const { HttpThread } = await import("' + url + '?loaded");';
    return { format: "module", shortCircuit: true, source };
  },
});
if (!isMainThread && workerData?.hosts !== undefined) await globalThis.passes("bind");`;

describe("the HTTP side while it starts", { concurrency: 3 }, () => {
  interface Held {
    readonly server: ServerProcess;
    readonly port: number;
    /** Lets the HTTP thread go on. */
    go(): void;
  }

  async function startHeld(
    t: TestContext,
    gate: "bind" | "load",
    flags: (port: number, folder: string) => readonly string[],
  ): Promise<Held> {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, gate), "");
    const port = await freePort();
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(held(folder))}` };
    const server = await launch({ kind: "ours", flags: flags(port, folder), env });
    t.after(() => server.kill());
    await eventually("the HTTP thread waits", () => {
      assert.ok(!server.hasExited, server.stderr);
      return existsSync(join(folder, `${gate}.reached`));
    });
    return { server, port, go: () => rmSync(join(folder, gate)) };
  }

  const clientOf = (server: ServerProcess): Promise<WireClient> =>
    eventually("the protocol is served", () => {
      assert.ok(!server.hasExited, server.stderr);
      return WireClient.connect(server.address).catch(() => undefined);
    });

  it("takes connections before its code is loaded, and answers them then", async (t) => {
    const { server, port, go } = await startHeld(t, "load", (port) => ["--http", `127.0.0.1:${port}`]);
    const client = await clientOf(server);
    assert.match((await client.put("x")).line, /^INSERTED/);
    client.close();
    const answers = Array.from({ length: 20 }, () => fetch(`http://127.0.0.1:${port}/v1/stats`));
    const gone = connect(port, "127.0.0.1");
    await once(gone, "connect");
    gone.resetAndDestroy();
    assert.doesNotMatch(server.stderr, /serves on/);
    go();
    for (const answer of await Promise.all(answers)) assert.equal(answer.status, 200);
    await server.stop();
  });

  const addresses = {
    "a port": (port: number) => ["--http", `127.0.0.1:${port}`],
    localhost: (port: number) => ["--http", `localhost:${port}`],
    "a unix socket": (_: number, folder: string) => ["--http", `unix:${folder}/http.sock`],
  };
  for (const [what, flags] of Object.entries(addresses))
    it(`stops in order while the code for ${what} is loaded`, async (t) => {
      const { server, port, go } = await startHeld(t, "load", flags);
      if (what !== "a unix socket") (await clientOf(server)).close();
      server.signal("SIGTERM");
      await untilItSays(server, /SIGTERM: stopping/);
      go();
      assert.deepEqual(await server.exited, { code: 0, signal: null });
      assert.doesNotMatch(server.stderr, /serves on|cannot listen|"level":[56]0/);
      await assert.rejects(fetch(`http://127.0.0.1:${port}/livez`));
    });

  it("ends with exit code 111 if the port is taken before it is bound", async (t) => {
    const { server, port, go } = await startHeld(t, "bind", (port) => ["--http", `127.0.0.1:${port}`]);
    const taker = createServer().listen(port, "127.0.0.1");
    t.after(() => taker.close());
    await once(taker, "listening");
    go();
    assert.equal((await server.refused()).code, 111, server.stderr);
    assert.match(server.stderr, /cannot listen for HTTP on 127\.0\.0\.1:[0-9]+: .*EADDRINUSE/);
  });

  it("obeys its rules at each address of localhost", async (t) => {
    const PROXY = "127.0.0.9";
    const { server, port, go } = await startHeld(t, "load", (port) => [
      ...["--http", `localhost:${port}`, "--http-proxy-from", PROXY],
    ]);
    go();
    await untilItSays(server, /serves on/);
    for (const host of ["127.0.0.1", "127.0.0.2"]) {
      const client = await WireClient.connect({ port, host, localAddress: PROXY });
      client.send(
        "PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
      );
      assert.match((await client.readUntil("\r\n")).toString(), /^HTTP\/1.1 200/, host);
      client.close();
    }
    // The last connections are for probes, however many addresses there are.
    const open = Array.from({ length: 960 }, (_, at) => connect(port, `127.0.0.${1 + (at % 2)}`));
    t.after(() => {
      for (const socket of open) socket.destroy();
    });
    await Promise.all(open.map((socket) => once(socket, "connect")));
    for (const host of ["127.0.0.1", "127.0.0.2"]) {
      assert.equal((await fetch(`http://${host}:${port}/v1/stats`)).status, 503, host);
      assert.equal((await fetch(`http://${host}:${port}/livez`)).status, 200, host);
    }
    assert.equal((await server.stop()).code, 0);
  });
});
