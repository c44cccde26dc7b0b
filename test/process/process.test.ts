// Tests of the server as a process: unix sockets, a stalled process, signals, refused options. For
// what transcripts can't express.

import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { atBestBelow } from "../support/machine/at-best-below.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { launch, type ServerKind, startServer } from "../support/server/server-process.ts";
import { untilWaiting } from "../support/server/until-waiting.ts";
import { WireClient } from "../support/server/wire-client.ts";

const KINDS: readonly ServerKind[] = ["beanstalkd-1.12", "ours"];
const needOf = (kind: ServerKind): (typeof NEEDS)["ours" | "beanstalkd"] =>
  kind === "ours" ? NEEDS.ours : NEEDS.beanstalkd;

const socketPath = (t: TestContext): string => join(temporaryFolder(t, "unix"), "socket");

for (const kind of KINDS) {
  describe(`process: ${kind}`, () => {
    it("serves on a unix socket (testserv 6), and takes over one that a killed server left (testserv 7)", async (t) => {
      if (!canRun(t, needOf(kind))) return;
      const unixPath = socketPath(t);
      for (const round of [1, 2]) {
        const server = await startServer({ kind, unixPath });
        const client = await WireClient.connect(server.address);
        assert.equal((await client.put(`round ${round}`)).line, "INSERTED 1");
        assert.deepEqual(await client.ask("peek 1"), {
          line: "FOUND 1 7",
          body: Buffer.from(`round ${round}`),
        });
        client.close();
        await server.kill();
      }
    });

    it("exits with 111 when the port is taken", async (t) => {
      if (!canRun(t, needOf(kind))) return;
      const first = await startServer({ kind });
      const second = await launch({ kind, flags: ["-p", `${first.port}`] });
      assert.deepEqual(await second.exited, { code: 111, signal: null });
      assert.match(second.stderr + second.stdout, /in use/i);
      const client = await WireClient.connect(first.address);
      assert.equal((await client.ask("list-tube-used")).line, "USING default");
      client.close();
      await first.stop();
    });

    for (const [flags, message] of [
      [["-x"], "unknown flag: -x"],
      [["foo"], "unknown argument: foo"],
      [["-z", "10x"], "invalid size: 10x"],
      [["-z"], "flag requires an argument: -z"],
    ] as const) {
      it(`exits with 5 for ${flags.join(" ")}, and explains it in the first line`, async (t) => {
        if (!canRun(t, needOf(kind))) return;
        const server = await launch({ kind, flags });
        assert.deepEqual(await server.exited, { code: 5, signal: null });
        const [first, ...rest] = server.stderr.trimEnd().split("\n");
        // Ours goes on with what is allowed, in brackets.
        assert.equal(first!.slice(first!.indexOf(": ") + 2).replace(/ \(.*\)$/, ""), message);
        // Beanstalkd's flags fill half a terminal, ours would have the message scroll away.
        if (kind === "ours") assert.deepEqual(rest, ["runnerbean --help shows all flags"]);
      });
    }
  });
}

// The stalls mostly wait.
describe("process: ours", { concurrency: 3 }, () => {
  it("stops in order on SIGTERM and SIGINT: exit code 0 within 5 s, with clients connected and waiting", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const stopMs = async (signal: "SIGTERM" | "SIGINT"): Promise<number> => {
      const server = await startServer({ kind: "ours", flags: ["--shards", "4", "--acceptors", "2"] });
      const clients = await Promise.all(Array.from({ length: 8 }, () => WireClient.connect(server.address)));
      for (const client of clients) client.send("reserve\r\n");
      const startedAt = performance.now();
      server.signal(signal);
      assert.deepEqual(await server.exited, { code: 0, signal: null });
      for (const client of clients) client.close();
      return performance.now() - startedAt;
    };
    for (const signal of ["SIGTERM", "SIGINT"] as const) await atBestBelow(5000, () => stopMs(signal));
  });

  it("warns once at the start about more acceptors than free cores", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    for (const acceptors of [1, 16]) {
      const flags = ["--placement", "apart", "--acceptors", `${acceptors}`];
      const server = await startServer({ kind: "ours", flags });
      await server.stop();
      const said =
        server.stderr.match(
          /16 acceptors on \d+ cores?: more acceptors than free cores, each in a thread/g,
        ) ?? [];
      assert.equal(said.length, acceptors > 1 && acceptors + 1 > availableParallelism() ? 1 : 0);
    }
  });

  // Row 8 of what is not copied (protocol/README.md 14): 1.12 assigns the job and says
  // DEADLINE_SOON.
  for (const shards of ["1", "4"]) {
    it(`answers RESERVED or DEADLINE_SOON truthfully after a stall over a TTR (--shards ${shards})`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const server = await startServer({ kind: "ours", flags: ["--shards", shards] });
      const owner = await WireClient.connect(server.address);
      const asker = await WireClient.connect(server.address);
      await owner.put("x", { ttr: 8 });
      assert.equal((await owner.ask("reserve")).line, "RESERVED 1 1");
      owner.send("reserve\r\n");
      await untilWaiting(server, 1);
      server.signal("SIGSTOP");
      await sleep(8500);
      server.signal("SIGCONT");
      const { line } = await owner.readReply();
      const state = /state: (\w+)/.exec((await asker.ask("stats-job 1")).body?.toString() ?? "")?.[1];
      assert.equal(
        `${line} ${state}`,
        line === "DEADLINE_SOON" ? "DEADLINE_SOON ready" : "RESERVED 1 1 reserved",
      );
      owner.close();
      asker.close();
      await server.stop();
    });
  }

  // Acceptors share a port with each other, and the kernel would let those of another server of the
  // same user join them.
  it("exits with 111 when the port is taken by another server with several acceptors", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const flags = ["--acceptors", "3"];
    const first = await startServer({ kind: "ours", flags });
    for (const listen of ["127.0.0.1", "0.0.0.0"]) {
      const second = await launch({ kind: "ours", flags: [...flags, "-l", listen, "-p", `${first.port}`] });
      assert.deepEqual(await second.exited, { code: 111, signal: null });
      assert.match(second.stderr, /Address already in use/);
    }
    await first.stop();
  });

  // 1.12 steals the path of a server that lives.
  it("row 21: doesn't take the unix socket of a living server", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const unixPath = socketPath(t);
    const first = await startServer({ kind: "ours", unixPath });
    const second = await launch({ kind: "ours", unixPath });
    assert.equal((await second.exited).code, 111);
    const client = await WireClient.connect(first.address);
    assert.equal((await client.ask("list-tube-used")).line, "USING default");
    client.close();
    await first.stop();
  });

  // Out of range is refused, not wrapped.
  for (const [flags, code] of [
    [["-p", "99999"], 5],
    [["-s", "-1"], 5],
    [["-f", "-1"], 5],
    [["-z", "-1"], 5],
    [["-s", "4294967296000000000000"], 5],
  ] as const) {
    it(`row 9: refuses ${flags.join(" ")}`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const server = await launch({ kind: "ours", flags });
      assert.deepEqual(await server.exited, { code, signal: null });
      assert.notEqual(server.stderr + server.stdout, "");
    });
  }
});
