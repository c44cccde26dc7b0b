// Tests of inherited sockets: systemd's own socket-activate creates them, waits for the first
// client and starts the server.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { OUR_MAIN, ServerProcess, startServer } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/runnerbean", import.meta.url));
const FROM_SOURCE = [process.execPath, OUR_MAIN];

/** Has systemd listen at `addresses`; the program replaces it when the first client comes. */
async function activate(
  t: TestContext,
  addresses: readonly string[],
  command: readonly string[],
  where: { port: number } | { unixPath: string },
): Promise<ServerProcess> {
  const listen = addresses.flatMap((address) => ["-l", address]);
  const child = spawn(NEEDS.socketActivate.path, [...listen, ...command], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const server =
    "port" in where
      ? new ServerProcess("ours", child, where.port, undefined)
      : new ServerProcess("ours", child, 0, where.unixPath);
  t.after(() => server.kill());
  await untilItSays(server, new RegExp(`(Listening on [^]*){${addresses.length}}`));
  return server;
}

/** A put, a reserve and a delete, by a client that may have come before the server. */
async function serves(server: ServerProcess): Promise<void> {
  const client = await WireClient.connect(server.address);
  assert.match((await client.put("x")).line, /^INSERTED \d+$/);
  const { line } = await client.ask("reserve");
  assert.match(line, /^RESERVED \d+ 1$/);
  assert.equal((await client.ask(`delete ${line.split(" ")[1]}`)).line, "DELETED");
  client.close();
}

describe("socket activation", () => {
  it("serves a TCP socket of systemd, first the client that started it, and stops in order", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.socketActivate)) return;
    const port = await freePort();
    // The launcher, because the process id that systemd names must stay the same on its way to the
    // server.
    const server = await activate(t, [`127.0.0.1:${port}`], [LAUNCHER], { port });
    await serves(server);
    await untilItSays(server, /serves on the inherited descriptor 3/);
    await serves(server);
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });

  it("shares a unix socket among acceptors, and leaves its file to systemd", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.socketActivate)) return;
    const unixPath = join(temporaryFolder(t), "socket");
    const command = [...FROM_SOURCE, "--acceptors", "3", "--shards", "2"];
    const server = await activate(t, [unixPath], command, { unixPath });
    await serves(server);
    await Promise.all(Array.from({ length: 20 }, () => serves(server)));
    server.signal("SIGTERM");
    assert.deepEqual(await server.exited, { code: 0, signal: null });
    assert.ok(existsSync(unixPath));
  });

  it("takes the first of two sockets, and reports that the rest, -l and -p are ignored", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.socketActivate)) return;
    const [port, second, flag] = [await freePort(), await freePort(), await freePort()];
    const addresses = [`127.0.0.1:${port}`, `127.0.0.1:${second}`];
    const command = [...FROM_SOURCE, "-l", "127.0.0.1", "-p", `${flag}`];
    const server = await activate(t, addresses, command, { port });
    await serves(server);
    assert.match(server.stderr, /inherited more than one listen socket; ignoring all but the first/);
    assert.match(server.stderr, /inherited listen fd; ignoring option: -l 127\.0\.0\.1/);
    assert.match(server.stderr, new RegExp(`inherited listen fd; ignoring option: -p ${flag}`));
    await assert.rejects(WireClient.connect({ host: "127.0.0.1", port: flag }), { code: "ECONNREFUSED" });
  });

  it("refuses a datagram socket with exit code 111", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.socketActivate)) return;
    const port = await freePort();
    const server = await activate(t, [`127.0.0.1:${port}`], ["-d", ...FROM_SOURCE], { port });
    const socket = createSocket("udp4");
    socket.send("start", port, "127.0.0.1", () => socket.close());
    assert.deepEqual(await server.exited, { code: 111, signal: null });
    assert.match(server.stderr, /inherited fd is not a TCP or UNIX listening socket/);
  });

  it("listens on its own address if the sockets are meant for another process", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await startServer({ kind: "ours", env: { LISTEN_PID: "1", LISTEN_FDS: "1" } });
    await serves(server);
    await server.kill();
  });
});
