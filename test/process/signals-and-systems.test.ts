// Signals during the start and under nohup, and file systems that lack what a log would like.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { constants } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { endsWithUs, TEST_ENV } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/runnerbean", import.meta.url));
const DISK = fileURLToPath(new URL("../../src/binlog/disk", import.meta.url));
/** Where Node's debugger listens. */
const DEBUGGER_PORT = 9229;

interface Launched {
  readonly child: ChildProcess;
  readonly port: number;
  readonly said: () => string;
}

/** Starts the launcher as an operator does, with a program before it. */
async function launch(
  t: TestContext,
  before: readonly string[],
  flags: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
) {
  const port = await freePort();
  const [program = LAUNCHER, ...rest] = [...before, LAUNCHER];
  const child = spawn(program, [...rest, "-l", "127.0.0.1", "-p", `${port}`, ...flags], {
    env: { ...TEST_ENV, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  endsWithUs(child);
  t.after(() => child.kill("SIGKILL"));
  let text = "";
  child.stderr.on("data", (chunk) => {
    text += chunk;
  });
  return { child, port, said: () => text } satisfies Launched;
}

const serves = ({ child, port, said }: Launched): Promise<WireClient> =>
  eventually("it serves", () => {
    assert.equal(child.exitCode ?? child.signalCode, null, said());
    return WireClient.connect({ host: "127.0.0.1", port }).catch(() => undefined);
  });

/**
 * Resolves when Node has begun: one of the first things that it does is to block SIGUSR1. Before
 * that, as in any program without a handler, the signal ends it.
 */
const isNode = ({ child }: Launched): Promise<true> =>
  eventually("Node runs", () => {
    const status = readFileSync(`/proc/${child.pid}/status`, "latin1");
    const [, blocked = "0"] = /^SigBlk:\s*([0-9a-f]+)/m.exec(status) ?? [];
    return (BigInt(`0x${blocked}`) & (1n << BigInt(constants.signals.SIGUSR1 - 1))) !== 0n || undefined;
  });

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const isOpen = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    const tell = (answer: boolean) => () => {
      socket.destroy();
      resolve(answer);
    };
    socket.on("connect", tell(true)).on("error", tell(false));
  });

describe("a signal", () => {
  it("to drain counts during the start, and opens no debugger", async (t) => {
    const wasOpen = await isOpen(DEBUGGER_PORT);
    const launched = await launch(t, []);
    await isNode(launched);
    launched.child.kill("SIGUSR1");
    const client = await serves(launched);
    t.after(() => client.close());
    assert.equal((await client.put("x")).line, "DRAINING");
    assert.doesNotMatch(launched.said(), /Debugger listening/);
    assert.equal(await isOpen(DEBUGGER_PORT), wasOpen);
  });

  it("to drain does not end the launcher", async (t) => {
    const folder = temporaryFolder(t);
    // The launcher calls it while it looks for Node.
    const uname = `#!/bin/sh\nkill -USR1 $PPID\nPATH=$PATH_BEFORE exec uname "$@"\n`;
    writeFileSync(join(folder, "uname"), uname, { mode: 0o755 });
    const { PATH = "" } = process.env;
    const launched = await launch(t, [], [], { PATH: `${folder}:${PATH}`, PATH_BEFORE: PATH });
    (await serves(launched)).close();
  });

  it("to hang up ends the server, but not under nohup", async (t) => {
    const plain = await launch(t, []);
    (await serves(plain)).close();
    plain.child.kill("SIGHUP");
    await eventually("it ends", () => plain.child.signalCode ?? undefined);
    assert.equal(plain.child.signalCode, "SIGHUP");

    const kept = await launch(t, ["nohup"]);
    const client = await serves(kept);
    t.after(() => client.close());
    kept.child.kill("SIGHUP");
    kept.child.kill("SIGUSR1");
    // The drain came after the other signal.
    await eventually("it drains", async () => (await client.put("x")).line === "DRAINING" || undefined);
    assert.equal(kept.child.exitCode ?? kept.child.signalCode, null);
  });
});

it("a kill of npm start ends the server, too, and frees its port", async (t) => {
  const port = await freePort();
  const child = spawn("npm", ["start", "--", "-l", "127.0.0.1", "-p", `${port}`], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env: TEST_ENV,
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  const group = -child.pid!;
  t.after(() => isAlive(group) && process.kill(group, "SIGKILL"));
  let text = "";
  child.stderr.on("data", (chunk) => {
    text += chunk;
  });
  (await serves({ child, port, said: () => text })).close();
  child.kill("SIGTERM");
  await eventually("npm ends", () => child.exitCode ?? child.signalCode ?? undefined);
  await eventually("all its processes end", () => !isAlive(group) || undefined);
  assert.equal(await isOpen(port), false);
});

describe("a file system", () => {
  /** Runs lines of a module on a file system whose calls fail as `inject` says. */
  function onStrange(inject: readonly string[], lines: string): string {
    const options = ["-f", "-qq", "-o", "/dev/null", ...inject];
    const node = [process.execPath, "--input-type=module", "-e", lines];
    const { stdout, stderr } = spawnSync("strace", [...options, ...node], { encoding: "utf8", cwd: DISK });
    return stdout + stderr;
  }

  it("whose directories can't be synced keeps a log all the same", (t) => {
    if (!canRun(t, NEEDS.strace)) return;
    const folder = temporaryFolder(t);
    const sync = `import { RealDisk } from "./real-disk.ts";
      new RealDisk(${JSON.stringify(folder)}).syncFolder(); console.log("synced");`;
    const failing = (code: string) => ["-P", folder, "-e", "trace=fsync", "-e", `inject=fsync:error=${code}`];
    assert.match(onStrange(failing("EINVAL"), sync), /^synced$/m);
    assert.match(onStrange(failing("EIO"), sync), /EIO: i\/o error, fsync/);
  });

  it("without locks is named as the cause", (t) => {
    if (!canRun(t, NEEDS.strace)) return;
    const folder = temporaryFolder(t);
    const inject = ["-P", join(folder, "lock"), "-e", "trace=fcntl", "-e", "inject=fcntl:error=ENOLCK"];
    const said = onStrange(
      inject,
      `import { DirectoryLock } from "./directory-lock.ts";
      try { DirectoryLock.take(${JSON.stringify(folder)}); } catch ({ message }) { console.log(message); }`,
    );
    assert.match(said, /its file system has no locks \(ENOLCK\)/);
    assert.doesNotMatch(said, /another process/);
  });
});
