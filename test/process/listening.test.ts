// Tests of listening sockets that acceptors share or two servers want: which process closes and
// removes what, and when.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readlinkSync, unlinkSync, writeFileSync } from "node:fs";
import * as net from "node:net";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import {
  launch,
  ourMain,
  type ServerOptions,
  ServerProcess,
  startServer,
} from "../support/server/server-process.ts";
import { untilWaiting } from "../support/server/until-waiting.ts";
import { WireClient } from "../support/server/wire-client.ts";

async function started(t: TestContext, options: ServerOptions): Promise<ServerProcess> {
  const server = await startServer(options);
  t.after(() => server.kill());
  return server;
}

/**
 * A client that asks for more than a socket holds and does not read, so that an orderly stop waits
 * for it.
 */
async function slowReader(address: net.NetConnectOpts): Promise<net.Socket> {
  const socket = net.connect(address);
  await new Promise((resolve) => socket.once("connect", resolve));
  socket.pause();
  const body = "x".repeat(60_000);
  socket.write(`use slow\r\nput 0 0 60 ${body.length}\r\n${body}\r\n${"peek 1\r\n".repeat(400)}`);
  return socket;
}

/**
 * A client without an answer; the last acceptor to learn of the stop may have closed some before.
 */
async function leftAlone(address: net.NetConnectOpts): Promise<WireClient> {
  return eventually("connections to be taken no more", async () => {
    const client = await WireClient.connect(address);
    let ended = false;
    for (const event of ["end", "close"]) client.socket.once(event, () => (ended = true));
    client.send("list-tube-used\r\n");
    await client.expectNothing(200).catch(() => (ended = true));
    if (!ended) return client;
    client.close();
    return undefined;
  });
}

/** Returns the sockets among the server's descriptors. */
function sockets(server: ServerProcess): string[] {
  return readdirSync(`/proc/${server.pid}/fd`).flatMap((name) => {
    try {
      const target = readlinkSync(`/proc/${server.pid}/fd/${name}`);
      return target.startsWith("socket:") ? [`${name} ${target}`] : [];
    } catch {
      return [];
    }
  });
}

/** A socket that is bound to a path and belongs to this process, as systemd's do. */
function boundSocket(path: string): { readonly fd: number; close(): void } {
  const maker = net as unknown as {
    _createServerHandle(path: string, port: -1, type: -1): { readonly fd: number; close(): void } | number;
  };
  const handle = maker._createServerHandle(path, -1, -1);
  if (typeof handle === "number") throw new Error(`Cannot bind ${path}: ${handle}`);
  return handle;
}

/** A server that inherits the socket as systemd hands it over. */
async function inherit(
  t: TestContext,
  fd: number,
  unixPath: string,
  flags: readonly string[],
): Promise<ServerProcess> {
  const script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"';
  const command = [process.execPath, ourMain(process.env), ...flags];
  const child = spawn("/bin/sh", ["-c", script, "sh", ...command], { stdio: ["ignore", "pipe", "pipe", fd] });
  const server = new ServerProcess("ours", child, 0, unixPath);
  t.after(() => server.kill());
  await eventually("it serves", () => /serves on/.test(server.stderr) || server.hasExited);
  return server;
}

describe("listening", () => {
  for (const flags of [
    ["--acceptors", "1"],
    ["--acceptors", "3"],
    ["--acceptors", "3", "--transport", "libuv"],
  ]) {
    it(`an inherited socket (${flags.join(" ")}) stays open during a stop: the next server gets clients that came meanwhile`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const path = join(temporaryFolder(t), "socket");
      const bound = boundSocket(path);
      t.after(() => bound.close());
      const first = await inherit(t, bound.fd, path, flags);
      const [inherited] = sockets(first).filter((each) => each.startsWith("3 "));
      const slow = await slowReader(first.address);
      slow.on("error", () => {});
      await eventually(
        "its replies fill the socket",
        () => slow.bytesWritten > 0 && slow.writableLength === 0,
      );
      // Enough that every acceptor should have some.
      const waiting = await Promise.all(Array.from({ length: 24 }, () => WireClient.connect(first.address)));
      for (const client of waiting) client.send("reserve\r\n");
      await untilWaiting(first, waiting.length);
      first.signal("SIGTERM");
      // Their waits end, so the acceptors have been told.
      for (const client of waiting) assert.equal((await client.readReply()).line, "TIMED_OUT");
      await eventually("it stops", () => /stopping/.test(first.stderr));
      const meanwhile = await leftAlone(first.address);
      assert.ok(!first.hasExited, "it waits for the slow reader");
      assert.ok(sockets(first).includes(inherited!), "the descriptor is open");
      slow.destroy();
      assert.deepEqual(await first.exited, { code: 0, signal: null });
      const second = await inherit(t, bound.fd, path, flags);
      assert.equal((await meanwhile.readReply()).line, "USING default");
      meanwhile.close();
      await second.stop();
    });
  }

  it("a unix socket shared by acceptors keeps its descriptor until the process ends, and its path is removed at once", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const unixPath = join(temporaryFolder(t), "socket");
    const server = await started(t, { kind: "ours", unixPath, flags: ["--acceptors", "4"] });
    const before = sockets(server);
    const slow = await slowReader(server.address);
    slow.on("error", () => {});
    const client = await WireClient.connect(server.address);
    client.send("reserve\r\n");
    await untilWaiting(server, 1);
    server.signal("SIGTERM");
    assert.equal((await client.readReply()).line, "TIMED_OUT");
    await eventually("the path is gone", () => !existsSync(unixPath));
    await sleep(200);
    assert.ok(!server.hasExited);
    assert.deepEqual(
      before.filter((each) => !sockets(server).includes(each)),
      [],
    );
    slow.destroy();
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });

  it("a stopping server keeps a socket that another server has bound in its place", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const unixPath = join(temporaryFolder(t), "socket");
    const first = await started(t, { kind: "ours", unixPath });
    unlinkSync(unixPath);
    const second = await started(t, { kind: "ours", unixPath });
    assert.deepEqual(await first.stop(), { code: 0, signal: null });
    const client = await WireClient.connect(second.address);
    assert.equal((await client.ask("list-tube-used")).line, "USING default");
    client.close();
    await second.stop();
    assert.equal(existsSync(unixPath), false);
  });

  it("a socket with a full backlog isn't taken from its living server", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const unixPath = join(temporaryFolder(t), "socket");
    const first = await started(t, { kind: "ours", unixPath });
    first.signal("SIGSTOP");
    const waiting: net.Socket[] = [];
    let code = "";
    while (code === "" && waiting.length < 10_000) {
      const socket = net.connect(unixPath);
      waiting.push(socket);
      code = await new Promise<string>((resolve) => {
        socket.once("connect", () => resolve(""));
        socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? ""));
      });
    }
    assert.equal(code, "EAGAIN");
    const second = await launch({ kind: "ours", unixPath });
    assert.equal((await second.exited).code, 111);
    assert.match(second.stderr, /another server already answers/);
    for (const socket of waiting) socket.destroy();
    first.signal("SIGCONT");
    const client = await eventually("the first one to answer", () =>
      WireClient.connect(first.address).catch(() => undefined),
    );
    assert.equal((await client.ask("list-tube-used")).line, "USING default");
    client.close();
    await first.stop();
  });

  it("explains a bad path without a stack trace", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, "file"), "");
    for (const [unixPath, words] of [
      [join(folder, "file", "socket"), /not a directory \(ENOTDIR\)/],
      [join(folder, "absent", "socket"), /does not exist/],
    ] as const) {
      const server = await launch({ kind: "ours", unixPath });
      assert.deepEqual(await server.exited, { code: 111, signal: null });
      assert.match(server.stderr, words);
      assert.doesNotMatch(server.stderr, /\n\s+at |ports below 1024/);
    }
  });

  it("keeps descriptors in reserve for the log, and serves again after others have ended", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.prlimit)) return;
    const log = join(temporaryFolder(t), "log");
    mkdirSync(log);
    const server = await started(t, {
      kind: "ours",
      wrapper: ["prlimit", "--nofile=96:96"],
      flags: ["-b", log, "--acceptors", "1"],
    });
    const clients = await Promise.all(Array.from({ length: 120 }, () => WireClient.connect(server.address)));
    await eventually("it says so", () => /out of file descriptors with \d+ connections/.test(server.stderr));
    // An eighth of the limit is for the log: what is above has never been a client's for more than
    // a moment.
    await eventually("no client to have one of those", () => {
      const highest = Math.max(...sockets(server).map((each) => Number.parseInt(each, 10)));
      return highest < 84;
    });
    for (const client of clients) client.close();
    await eventually("it says that there are some again", () =>
      /file descriptors are free again/.test(server.stderr),
    );
    const client = await WireClient.connect(server.address);
    assert.equal((await client.put("x")).line, "INSERTED 1");
    client.close();
    assert.equal(server.stderr.match(/out of file descriptors/g)?.length, 1);
    await server.stop();
  });

  it("starts and serves with 40 descriptors", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.prlimit)) return;
    const server = await started(t, {
      kind: "ours",
      wrapper: ["prlimit", "--nofile=40:40"],
      flags: ["--acceptors", "1"],
    });
    const client = await WireClient.connect(server.address);
    assert.equal((await client.put("x")).line, "INSERTED 1");
    client.close();
    await server.stop();
  });
});

/** Longer than a client needs to connect to a socket that listens for a moment. */
const LISTENS_MS = 500;

/**
 * Environment of a server whose main thread stands still after each listen, as if it lost its core.
 */
const SLOW_LISTEN = `import net from "node:net"; import { isMainThread } from "node:worker_threads";
  if (isMainThread) {
    const handle = net._createServerHandle("127.0.0.1", 0, 4);
    const { listen } = handle.constructor.prototype;
    handle.constructor.prototype.listen = function (backlog) {
      const failed = listen.call(this, backlog);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${LISTENS_MS});
      return failed;
    };
    handle.close();
  }`;

// A socket that listens for a moment and is closed resets whom it has let in meanwhile.
it("answers every client whose connection the port takes while several acceptors start", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(SLOW_LISTEN)}` };
  const server = await launch({ kind: "ours", flags: ["--acceptors", "3"], env });
  t.after(() => server.kill());
  const answers: Promise<string>[] = [];
  while (!/serves on/.test(server.stderr)) {
    const socket = net.connect(server.address);
    const isTaken = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    });
    if (isTaken) answers.push(answerTo(socket));
  }
  answers.push(answerTo(net.connect(server.address)));
  assert.deepEqual(new Set(await Promise.all(answers)), new Set(["USING default\r\n"]));
  await server.stop();
});

/** Returns the reply to a client, or the way its connection ends. */
function answerTo(socket: net.Socket): Promise<string> {
  socket.write("list-tube-used\r\n");
  return new Promise((resolve) => {
    const end = (answer: string): void => {
      resolve(answer);
      socket.destroy();
    };
    socket.once("data", (bytes) => end(bytes.toString()));
    socket.once("error", ({ message }) => end(message)).once("end", () => end("ended"));
  });
}
