// Tests of the deliberate differences to beanstalkd that show at the process and not in the
// protocol, by row of the table in protocol/README.md 14. Other rows are not-copy-NN in
// transcripts/, or "row N" in the name of a test elsewhere; every row must have one.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { smallDisk } from "../support/machine/small-disk.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { waitedForCoresMs } from "../support/machine/waited-for-cores.ts";
import { launch, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { untilWaiting } from "../support/server/until-waiting.ts";
import { WireClient } from "../support/server/wire-client.ts";

const ROWS = 26;
/** Rounding of two clocks. */
const EARLY_MS = 5;
/**
 * Share of a processor that a server with nothing to do may want: one that spins wants all of it.
 */
const IDLE_SHARE_MAX = 0.4;

/**
 * Waits until the server wants no more of a processor than one with nothing to do, whether it gets
 * it or has to wait for it.
 */
async function untilIdle(server: ServerProcess): Promise<void> {
  const wantedMs = (): number => server.cpuSeconds() * 1000 + waitedForCoresMs(server.pid);
  let share = 1;
  await eventually(
    () => `it wants ${Math.round(share * 100)} % of a processor`,
    async () => {
      const [before, startedAt] = [wantedMs(), performance.now()];
      await sleep(1000);
      share = (wantedMs() - before) / (performance.now() - startedAt);
      return share < IDLE_SHARE_MAX;
    },
  );
}

test("every row of section 14 has a test with its number", () => {
  const folder = fileURLToPath(new URL("..", import.meta.url));
  const found = new Set<number>();
  for (const file of globSync("transcripts/not-copy-*.txt", { cwd: folder }))
    found.add(Number(/not-copy-(\d+)/.exec(file)?.[1]));
  for (const file of globSync("**/*.test.ts", { cwd: folder })) {
    const text = readFileSync(join(folder, file), "utf8");
    // Names of tests only, not the words of a comment.
    for (const [, name] of text.matchAll(/\b(?:test|it|hostile)\(\s*["`]([^"`]*)/g))
      for (const [, row] of name!.matchAll(/\brow (\d+)/g)) found.add(Number(row));
  }
  const wanted = Array.from({ length: ROWS }, (_, index) => index + 1);
  assert.deepEqual(
    wanted.filter((row) => !found.has(row)),
    [],
  );
});

// They mostly wait, each for a server of its own.
describe("behaviour that is not copied", { concurrency: 4 }, () => {
  it("row 7: delays, TTRs, timeouts and pauses keep their length while the wall clock jumps", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    // An hour forth or back at every look, in each thread.
    const jumping = `let looks = 0; const now = Date.now; Date.now = () => now() + (looks++ % 2 === 0 ? 1 : -1) * 3_600_000;`;
    const server = await startServer({
      kind: "ours",
      flags: ["--shards", "2", "--acceptors", "1"],
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(jumping)}` },
    });
    try {
      const client = await WireClient.connect(server.address);
      // A step of the clock ends a timer at once or in an hour. No timer ends early, but a busy
      // machine may be late.
      let sentMs = performance.now();
      const takes = async (seconds: number, expected: string, ask: () => Promise<string>): Promise<void> => {
        assert.equal(await ask(), expected);
        const earlyMs = sentMs + seconds * 1000 - performance.now();
        assert.ok(earlyMs < EARLY_MS, `${expected} came ${Math.round(earlyMs)} ms early`);
      };
      const reserve = async (): Promise<string> => (await client.ask("reserve")).line;
      await client.put("x", { delay: 1, ttr: 2 });
      await takes(1, "RESERVED 1 1", reserve);
      await takes(2, "DEADLINE_SOON", reserve);
      await takes(3, "RESERVED 1 1", async () => {
        for (;;) {
          const line = await reserve();
          if (line !== "DEADLINE_SOON") return line;
          await sleep(10);
        }
      });
      assert.equal((await client.ask("release 1 0 0")).line, "RELEASED");
      sentMs = performance.now();
      assert.equal((await client.ask("pause-tube default 1")).line, "PAUSED");
      await takes(1, "RESERVED 1 1", reserve);
      assert.equal((await client.ask("delete 1")).line, "DELETED");
      sentMs = performance.now();
      await takes(1, "TIMED_OUT", async () => (await client.ask("reserve-with-timeout 1")).line);
      client.close();
    } finally {
      await server.kill();
    }
  });

  /**
   * Sends the pieces in turn, those that begin with "!" as one urgent byte each, and prints what
   * comes until the end.
   */
  const URGENT_SENDER = `
  use strict; use warnings; use IO::Socket::INET; use Socket qw(MSG_OOB SHUT_WR IPPROTO_TCP TCP_NODELAY);
  my $socket = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => shift) or die "connect: $!";
  setsockopt($socket, IPPROTO_TCP, TCP_NODELAY, 1);
  for my $piece (@ARGV) {
    my ($urgent, $bytes) = $piece =~ /^(!?)(.*)$/s;
    defined(send($socket, $bytes, $urgent ? MSG_OOB : 0)) or die "send: $!";
    select(undef, undef, undef, 0.05);
  }
  <STDIN>;
  shutdown($socket, SHUT_WR);
  print while sysread($socket, $_, 65536);`;

  it("row 10: urgent bytes are not part of the stream, and cost no processor time", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.perl)) return;
    const server = await startServer({ kind: "ours", flags: ["--shards", "1", "--acceptors", "1"] });
    try {
      const pieces = ["list-tube", "!u", "-used\r\nput 0 0 60 4\r\nbo", "!v", "dy\r\nreserve\r\n", "!w"];
      const sender = spawn(NEEDS.perl.path, ["-e", URGENT_SENDER, `${server.port}`, ...pieces]);
      let printed = "";
      sender.stdout.setEncoding("latin1").on("data", (text: string) => {
        printed += text;
      });
      const over = new Promise<number | null>((resolve) => sender.once("close", resolve));
      // The last urgent byte is never read, and the connection has nothing else to do.
      const other = await WireClient.connect(server.address);
      const isReserved = async (): Promise<boolean> =>
        /^current-jobs-reserved: 1$/m.test((await other.ask("stats")).body?.toString() ?? "");
      await eventually("the job to be reserved", isReserved);
      await untilIdle(server);
      sender.stdin.end("\n");
      assert.equal(await over, 0);
      assert.equal(printed, "USING default\r\nINSERTED 1\r\nRESERVED 1 4\r\nbody\r\n");
      assert.equal((await other.ask("reserve-with-timeout 5")).line, "RESERVED 1 4");
      other.close();
    } finally {
      await server.kill();
    }
  });

  it("row 10: a half-closed client that doesn't read costs no processor time, and gets everything in the end", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await startServer({ kind: "ours", flags: ["--shards", "2", "--acceptors", "1"] });
    try {
      const client = await WireClient.connect(server.address);
      await client.put("x".repeat(60_000));
      client.socket.pause();
      client.send("peek 1\r\n".repeat(500));
      client.halfClose();
      await untilIdle(server);
      client.socket.resume();
      for (let count = 0; count < 500; count++)
        assert.equal((await client.readReply()).line, "FOUND 1 60000");
      await client.expectEnd();
    } finally {
      await server.kill();
    }
  });

  it("row 16: bodies of 65,534 and 65,535 bytes survive a restart with any -z", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t);
    for (const flags of [[], ["-z", "10"]]) {
      const server = await startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", ...flags] });
      try {
        const client = await WireClient.connect(server.address);
        for (const [index, bytes] of [65_533, 65_534, 65_535, 3].entries()) {
          const letter = String.fromCharCode(97 + index);
          if (flags.length === 0)
            assert.equal((await client.put(letter.repeat(bytes))).line, `INSERTED ${index + 1}`);
          const { line, body } = await client.ask(`peek ${index + 1}`);
          assert.equal(line, `FOUND ${index + 1} ${bytes}`);
          assert.equal(body?.toString(), letter.repeat(bytes));
        }
        client.close();
      } finally {
        await server.kill();
      }
    }
  });

  /**
   * Fills a small disk with jobs, releases job 1 with a delay and buries 2 and 3, has `use` do
   * something, and kills the server. Returns the numbers of reserved, delayed and buried jobs after
   * a restart; undefined if no disk can be made.
   */
  async function afterFullDisk(
    t: TestContext,
    use: (client: WireClient) => Promise<void>,
  ): Promise<number[] | undefined> {
    const folder = smallDisk(t, "4m");
    if (folder === undefined) return undefined;
    const withServer = async (body: (client: WireClient) => Promise<void>): Promise<void> => {
      const server = await startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "-s", "262144"] });
      try {
        const client = await WireClient.connect(server.address);
        await body(client);
        client.close();
      } finally {
        await server.kill();
      }
    };
    await withServer(async (client) => {
      let jobs = 0;
      while ((await client.put("x".repeat(30_000), { ttr: 600 })).line !== "OUT_OF_MEMORY") jobs++;
      assert.ok(jobs > 5);
      for (const id of [1, 2, 3]) assert.equal((await client.ask("reserve")).line, `RESERVED ${id} 30000`);
      assert.equal((await client.ask("release 1 0 1000")).line, "RELEASED");
      for (const id of [2, 3]) assert.equal((await client.ask(`bury ${id} 7`)).line, "BURIED");
      assert.deepEqual(await jobCounts(client), [0, 1, 2]);
      await use(client);
    });
    let counts: number[] = [];
    await withServer(async (client) => {
      counts = await jobCounts(client);
    });
    return counts;
  }

  /** Reserved, delayed and buried jobs of `default`. */
  async function jobCounts(client: WireClient): Promise<number[]> {
    const text = (await client.ask("stats-tube default")).body?.toString() ?? "";
    return ["reserved", "delayed", "buried"].map((state) =>
      Number(new RegExp(`^current-jobs-${state}: (\\d+)$`, "m").exec(text)?.[1]),
    );
  }

  it("row 19: on a full disk release with a delay and bury work, and no job stays reserved without a holder", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const counts = await afterFullDisk(t, async () => {});
    if (counts !== undefined) assert.deepEqual(counts, [0, 1, 2]);
  });

  it("row 20: on a full disk kick counts the kicked jobs", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const counts = await afterFullDisk(t, async (client) => {
      assert.equal((await client.ask("kick 1000")).line, "KICKED 2");
      assert.equal((await client.ask("kick 1000")).line, "KICKED 1");
      assert.equal((await client.ask("kick 4294967295")).line, "KICKED 0");
    });
    if (counts !== undefined) assert.deepEqual(counts, [0, 0, 0]);
  });

  it("row 8b: a client that waits over a stall of the server gets its own expired job", async () => {
    const server = await startServer({ kind: "ours", flags: ["--shards", "1", "--acceptors", "1"] });
    try {
      const client = await WireClient.connect(server.address);
      await client.put("x", { ttr: 8 });
      assert.equal((await client.ask("reserve")).line, "RESERVED 1 1");
      client.send("reserve\r\n");
      await untilWaiting(server, 1);
      server.signal("SIGSTOP");
      await sleep(8500);
      server.signal("SIGCONT");
      assert.equal((await client.readReply()).line, "RESERVED 1 1");
      const stats = (await client.ask("stats-job 1")).body!.toString();
      assert.match(stats, /^reserves: 2$/m);
      assert.match(stats, /^timeouts: 1$/m);
    } finally {
      await server.kill();
    }
  });

  it("row 22: -V prints the IPv6 address that it listens on", async (t) => {
    const server = await launch({ kind: "ours", flags: ["-l", "::1", "-V"] });
    try {
      const line = await eventually(
        "the server to say where it listens",
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

  it("row 25: -u leaves root's groups behind", async (t) => {
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

  it("row 26: as PID 1 it stops in order on SIGTERM", async (t) => {
    if (process.getuid?.() !== 0) {
      t.skip("SKIPPED: only root can make a PID namespace");
      return;
    }
    if (!canRun(t, NEEDS.ours, NEEDS.unshare)) return;
    const server = await startServer({
      kind: "ours",
      wrapper: [NEEDS.unshare.path, "--fork", "--pid", "--mount-proc", "--kill-child"],
    });
    try {
      const client = await WireClient.connect(server.address);
      assert.match((await client.ask("stats")).body?.toString() ?? "", /^pid: 1$/m);
      client.send("reserve\r\n");
      await client.expectNothing(100);
      const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "utf8");
      process.kill(Number(children.trim()), "SIGTERM");
      assert.deepEqual(await server.exited, { code: 0, signal: null });
      assert.equal((await client.readReply()).line, "TIMED_OUT");
      await client.expectEnd();
    } finally {
      await server.kill();
    }
  });
});
