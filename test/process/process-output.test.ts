// Tests of stdout and stderr with a stuck or missing reader, or files on a full disk: the server
// continues, and ends when told to or when its log fails.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/machine/free-port.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { ourMain, ServerProcess } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

/** A full pipe without a reader; a blocking writer waits forever. */
function fullPipe(t: TestContext): number {
  const path = join(temporaryFolder(t), "pipe");
  assert.equal(spawnSync("mkfifo", [path]).status, 0);
  const filler = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const blocking = openSync(path, "w");
  for (const descriptor of [filler, blocking]) t.after(() => closeSync(descriptor));
  for (const bytes of [4096, 1]) {
    try {
      for (;;) writeSync(filler, Buffer.alloc(bytes, "x"));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
    }
  }
  return blocking;
}

interface Outputs {
  readonly stdout?: number;
  readonly stderr?: number;
}

/** Starts a server with these outputs, "pipe" for others; returns when it serves. */
async function serve(
  t: TestContext,
  flags: readonly string[],
  { stdout, stderr }: Outputs,
): Promise<{ server: ServerProcess; client: WireClient }> {
  const port = await freePort();
  const child = spawn(process.execPath, [ourMain(process.env), "-p", `${port}`, ...flags], {
    stdio: ["ignore", stdout ?? "pipe", stderr ?? "pipe"],
  });
  const server = new ServerProcess("ours", child, port, undefined);
  t.after(() => server.kill());
  const client = await eventually("it to serve", async () => {
    assert.ok(!server.hasExited, "it ended");
    return WireClient.connect(server.address).catch(() => undefined);
  });
  assert.equal((await client.ask("list-tube-used")).line, "USING default");
  return { server, client };
}

describe("the form of errors that end the program", () => {
  const refused = [
    ["-f", "5x"],
    ["-b", "/nonexistent/log"],
    ["--config", "/nonexistent/file"],
  ];
  /** Runs with stderr in a file, and says that the file is systemd's journal if `isJournal`. */
  function said(t: TestContext, args: readonly string[], isJournal = false): string {
    const path = join(temporaryFolder(t), "stderr");
    const stderr = openSync(path, "w");
    const { dev, ino } = fstatSync(stderr);
    // As the launcher does: otherwise Node warns that it sets the threshold by FFI.
    const malloc = { MALLOC_MMAP_THRESHOLD_: "262144" };
    const env = { ...process.env, ...malloc, JOURNAL_STREAM: isJournal ? `${dev}:${ino}` : `${dev}:1` };
    const child = spawnSync(process.execPath, [ourMain(process.env), "-p", "0", ...args], {
      env,
      stdio: ["ignore", "ignore", stderr],
    });
    closeSync(stderr);
    assert.notEqual(child.status, 0);
    return readFileSync(path, "utf8");
  }

  it("is text, with the level for systemd's journal, and JSON if asked for", (t) => {
    for (const args of refused) {
      assert.match(said(t, args), /^runnerbean: [^{]/);
      for (const line of said(t, args, true).trimEnd().split("\n")) assert.match(line, /^<3>runnerbean/);
      const json = JSON.parse(said(t, [...args, "--log-format", "json"], true));
      assert.equal(json.level, 60);
      assert.match(json.msg, /^[^{].*(?:5x|nonexistent)/);
    }
    const last = ["-f", "5x", "--log-format", "json", "--log-format=text"];
    assert.match(said(t, last), /^runnerbean: [^{]/, "the last flag wins");
    assert.match(said(t, ["--log-format", "xml"]), /invalid format: --log-format xml \(auto, text, json\)/);
  });

  it("names the process runnerbean, for ps and pgrep", async (t) => {
    const { server } = await serve(t, [], {});
    assert.equal(readFileSync(`/proc/${server.child.pid}/comm`, "utf8"), "runnerbean\n");
    await stops(server);
  });
});

/** Ends it in order; fails when that takes longer than it may. */
async function stops(server: ServerProcess): Promise<void> {
  const late = new AbortController();
  const gone = once(server.child, "exit");
  server.signal("SIGTERM");
  const exit = await Promise.race([gone, sleep(120_000, "still there", { signal: late.signal })]);
  late.abort();
  assert.deepEqual(exit, [0, null]);
}

describe("output without a reader", () => {
  it("with stderr on a full pipe from the start the server serves, drains, and stops in order", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const { server, client } = await serve(t, [], { stderr: fullPipe(t) });
    server.signal("SIGUSR1");
    await eventually("the server to drain", async () => (await client.put("x")).line === "DRAINING");
    await stops(server);
  });

  it("with stderr on a full disk the server serves and stops in order", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const full = openSync("/dev/full", "w");
    t.after(() => closeSync(full));
    const { server, client } = await serve(t, [], { stderr: full });
    assert.equal((await client.put("x")).line, "INSERTED 1");
    await stops(server);
  });

  it("with -V on a pipe whose reader has left the server goes on", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const { server, client } = await serve(t, ["-V"], {});
    server.child.stdout!.destroy();
    for (let i = 0; i < 3; i++) {
      const other = await WireClient.connect(server.address);
      assert.equal((await other.ask("list-tube-used")).line, "USING default");
      other.close();
    }
    assert.equal((await client.put("x")).line, "INSERTED 1");
    await stops(server);
  });

  // A socket can't be opened a second time, so it is made not to block in another way.
  for (const [index, reader] of ["a full pipe", "a socket that is not read"].entries()) {
    it(`with -VV and ${reader} the server serves and stops in order`, {
      skip: skipVariant(index, 2),
    }, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const { server, client } = await serve(
        t,
        ["-VV"],
        reader === "a full pipe" ? { stdout: fullPipe(t) } : {},
      );
      server.child.stdout?.pause();
      const commands = 20_000;
      client.send("list-tube-used\r\n".repeat(commands));
      const replies = "USING default\r\n".repeat(commands);
      assert.ok((await client.readBytes(replies.length)).equals(Buffer.from(replies)));
      if (server.child.stdout !== null) {
        server.child.stdout.resume();
        const dropped = /\d+ lines of -V could not be written and were dropped/;
        await untilItSays(server, dropped);
      }
      await stops(server);
    });
  }

  it("-VV prints every line of a slow conversation in order", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const { server, client } = await serve(t, ["-VV"], {});
    for (let i = 0; i < 300; i++)
      assert.equal((await client.ask(`watch tube-${i}`)).line, `WATCHING ${i + 2}`);
    await stops(server);
    const replies = server.stdout.matchAll(/reply WATCHING (\d+)/g);
    assert.deepEqual(
      [...replies].map(([, count]) => Number(count)),
      Array.from({ length: 300 }, (_, i) => i + 2),
    );
  });

  // The log fails here because a file that compaction wants to remove has been removed by hand.
  for (const reads of [true, false]) {
    it(`a failed log with stderr ${reads ? "read" : "on a full pipe"} ends the server with 74, and nothing is acknowledged`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const log = temporaryFolder(t);
      const flags = ["-b", log, "-f", "50", "-s", "262144"];
      const { server, client } = await serve(t, flags, reads ? {} : { stderr: fullPipe(t) });
      const jobs = 200;
      for (let id = 1; id <= jobs; id++)
        assert.equal((await client.put("z".repeat(5000))).line, `INSERTED ${id}`);
      unlinkSync(
        join(
          log,
          readdirSync(log)
            .filter((name) => name.endsWith(".log"))
            .sort()[0]!,
        ),
      );
      client.send(Array.from({ length: jobs }, (_, at) => `delete ${at + 1}\r\n`).join(""));
      const late = new AbortController();
      const exit = await Promise.race([
        server.exited,
        sleep(120_000, "still there", { signal: late.signal }),
      ]);
      late.abort();
      assert.deepEqual(exit, { code: 74, signal: null });
      if (reads) assert.match(server.stderr, /BINLOG_IO: Cannot/);
    });
  }
});
