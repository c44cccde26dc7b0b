// Tests of hostile input and hostile clients: any bytes, any speed, any number; others must not
// notice.
//
// CHURN=50000 opens and closes that many connections (2,000 by default).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { expectGrowth } from "../support/machine/expect-growth.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { SchedulingDelay } from "../support/machine/scheduling-delay.ts";
import { FairTime } from "../support/machine/waited-for-cores.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const MIB = 1024 * 1024;
const { CHURN = "2000" } = process.env;
const FLAGS = ["--shards", "2", "--acceptors", "1"];

type Body = (server: ServerProcess) => Promise<void>;

/** A test with a server of its own, which must still be there and serve at the end. */
function hostile(name: string, flags: readonly string[], body: Body): void {
  it(name, async (t: TestContext) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await startServer({ kind: "ours", flags: [...FLAGS, ...flags] });
    try {
      await body(server);
      await expectService(server);
    } catch (error) {
      throw server.hasExited
        ? new Error(`The server is gone: ${server.stdout}${server.stderr}`, { cause: error })
        : error;
    } finally {
      await server.kill();
    }
  });
}

/** A client that comes now gets what it asks for. */
async function expectService(server: ServerProcess): Promise<void> {
  const client = await WireClient.connect(server.address);
  assert.equal((await client.ask("use alive")).line, "USING alive");
  const { line } = await client.put("still here");
  assert.match(line, /^INSERTED \d+$/);
  const id = line.slice(9);
  const peeked = await client.ask(`peek ${id}`);
  assert.equal(peeked.body?.toString(), "still here");
  assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
  client.close();
}

function descriptorCount(server: ServerProcess): number {
  return readdirSync(`/proc/${server.pid}/fd`).length;
}

async function statsValue(client: WireClient, key: string): Promise<number> {
  const { body } = await client.ask("stats");
  const match = new RegExp(`^${key}: (\\d+)$`, "m").exec(body?.toString("latin1") ?? "");
  assert.ok(match, `stats has no ${key}`);
  return Number(match[1]);
}

/**
 * Fails if another client's commands, one after the other until `until` resolves, take longer than
 * `msMax` besides what the machine takes to wake a thread.
 */
async function expectOthersServed(
  server: ServerProcess,
  until: Promise<unknown>,
  msMax: number,
): Promise<void> {
  const machine = new SchedulingDelay();
  const slowestMs = await slowestCommandMs(server, until);
  const limitMs = msMax + (await machine.stop())(100);
  assert.ok(
    slowestMs < limitMs,
    `another client waited ${Math.round(slowestMs)} ms, of ${Math.round(limitMs)}`,
  );
}

/** Without the time for which only the machine is to blame. */
async function slowestCommandMs(server: ServerProcess, until: Promise<unknown>): Promise<number> {
  const client = await WireClient.connect(server.address);
  let isOver = false;
  until.finally(() => {
    isOver = true;
  });
  let slowest = 0;
  while (!isOver) {
    const time = new FairTime(server.pid);
    await client.ask("list-tube-used");
    slowest = Math.max(slowest, time.passedMs);
    await sleep(2);
  }
  client.close();
  return slowest;
}

/** Resolves with the share of a core that the server takes for a while. */
async function shareOfCore(server: ServerProcess, ms: number): Promise<number> {
  const [before, startedAt] = [server.cpuSeconds(), performance.now()];
  await sleep(ms);
  return ((server.cpuSeconds() - before) * 1000) / (performance.now() - startedAt);
}

function write(client: WireClient, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    client.socket.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

describe("hostile bytes", () => {
  hostile("a line of 32 MiB takes no memory and gets one BAD_FORMAT", [], async (server) => {
    const client = await WireClient.connect(server.address);
    await client.ask("list-tube-used");
    const before = server.residentBytes();
    const piece = Buffer.alloc(MIB, "a");
    for (let count = 0; count < 32; count++) await write(client, piece);
    await expectGrowth(server, before, 24 * MIB);
    client.send("\r\nlist-tube-used\r\n");
    assert.equal((await client.readReply()).line, "BAD_FORMAT");
    assert.equal((await client.readReply()).line, "USING default");
    client.close();
  });

  hostile("a megabyte of NULs, of CRs, of LFs, of empty lines", [], async (server) => {
    for (const [unit, replies] of [
      ["\0", 1],
      ["\r", 1],
      ["\n", 1],
    ] as const) {
      const client = await WireClient.connect(server.address);
      client.send(`${unit.repeat(MIB)}\r\nlist-tube-used\r\n`);
      for (let count = 0; count < replies; count++)
        assert.equal((await client.readReply()).line, "BAD_FORMAT");
      assert.equal((await client.readReply()).line, "USING default");
      client.close();
    }
    const client = await WireClient.connect(server.address);
    const count = 20_000;
    client.send("\r\n".repeat(count));
    const replies = await client.readBytes(count * "UNKNOWN_COMMAND\r\n".length);
    assert.equal(replies.toString("latin1"), "UNKNOWN_COMMAND\r\n".repeat(count));
    client.close();
  });
});

describe("hostile sizes", () => {
  hostile(
    "a declared gigabyte that arrives slowly takes only what has arrived",
    ["-z", "1073741824"],
    async (server) => {
      const clients = await Promise.all(Array.from({ length: 20 }, () => WireClient.connect(server.address)));
      await Promise.all(clients.map((client) => client.ask("list-tube-used")));
      const before = server.residentBytes();
      for (const client of clients) client.send("put 0 0 60 1073741824\r\n");
      for (let round = 0; round < 10; round++) {
        for (const client of clients) client.send("slowly ");
        await sleep(20);
      }
      await expectGrowth(server, before, 64 * MIB);
      for (const client of clients) client.reset();
    },
  );

  hostile(
    "a body of 64 MiB is stored and given back; others are served meanwhile",
    ["-z", "1073741824"],
    async (server) => {
      const body = Buffer.alloc(64 * MIB, "0123456789abcdef");
      const client = await WireClient.connect(server.address);
      const put = (async () => {
        client.send(`put 0 0 600 ${body.length}\r\n`);
        await write(client, body);
        client.send("\r\n");
        assert.equal((await client.readReply(60_000)).line, "INSERTED 1");
        const reserved = await client.ask("reserve-job 1");
        assert.equal(reserved.line, `RESERVED 1 ${body.length}`);
        assert.ok(reserved.body?.equals(body), "the body has changed");
        assert.equal((await client.ask("delete 1")).line, "DELETED");
      })();
      // The promise is 50 ms on a machine of one's own; here the sender itself shares the
      // processors.
      await expectOthersServed(
        server,
        put.catch(() => {}),
        500,
      );
      await put;
      client.close();
    },
  );

  hostile("a body that is too big is thrown away as it comes", [], async (server) => {
    const client = await WireClient.connect(server.address);
    await client.ask("list-tube-used");
    const before = server.residentBytes();
    const piece = Buffer.alloc(MIB, "b");
    client.send(`put 0 0 60 ${96 * MIB}\r\n`);
    for (let count = 0; count < 96; count++) await write(client, piece);
    await client.expectNothing(50);
    await expectGrowth(server, before, 32 * MIB);
    client.send("\r\n");
    assert.equal((await client.readReply()).line, "JOB_TOO_BIG");
    client.close();
  });
});

describe("hostile clients", () => {
  hostile("100 clients that do not read are not read any more", [], async (server) => {
    const owner = await WireClient.connect(server.address);
    assert.equal((await owner.put("x".repeat(60_000))).line, "INSERTED 1");
    const clients = await Promise.all(Array.from({ length: 100 }, () => WireClient.connect(server.address)));
    const before = server.residentBytes();
    // 120 MB of replies for each of them: 12 GB in total if the server wrote them all.
    for (const client of clients) {
      client.socket.pause();
      client.send("peek 1\r\n".repeat(2000));
    }
    await expectOthersServed(server, sleep(3000), 1500);
    await expectGrowth(server, before, 256 * MIB);
    // One of them reads after all, and gets everything in order.
    const [reader] = clients as [WireClient];
    reader.socket.resume();
    for (let count = 0; count < 200; count++) {
      const reply = await reader.readReply();
      assert.equal(reply.line, "FOUND 1 60000");
    }
    for (const client of clients) client.reset();
    await eventually(
      "the clients to be gone",
      async () => (await statsValue(owner, "current-connections")) === 1,
    );
    owner.close();
  });

  hostile("row 6: a slow reader gets the bodies that were there when it asked", [], async (server) => {
    const owner = await WireClient.connect(server.address);
    const count = 100;
    for (let id = 1; id <= count; id++)
      assert.equal((await owner.put("A".repeat(65_535))).line, `INSERTED ${id}`);
    const reader = await WireClient.connect(server.address);
    reader.socket.pause();
    reader.send(Array.from({ length: count }, (_, index) => `peek ${index + 1}\r\n`).join(""));
    await eventually("a peek is taken", async () => (await statsValue(owner, "cmd-peek")) > 0);
    for (let id = 1; id <= count; id++) await owner.ask(`delete ${id}`);
    for (let id = 1; id <= count; id++) await owner.put("B".repeat(65_535));
    reader.socket.resume();
    let found = 0;
    for (let id = 1; id <= count; id++) {
      const reply = await reader.readReply();
      if (reply.line === "NOT_FOUND") continue;
      assert.equal(reply.line, `FOUND ${id} 65535`);
      assert.ok(
        reply.body?.every((byte) => byte === 0x41),
        `job ${id} came with another job's bytes`,
      );
      found++;
    }
    assert.ok(found > 0, "no peek was answered before its job was deleted");
    reader.close();
    owner.close();
  });

  hostile("5,000 idle connections", [], async (server) => {
    const clients: WireClient[] = [];
    for (let batch = 0; batch < 50; batch++) {
      clients.push(
        ...(await Promise.all(Array.from({ length: 100 }, () => WireClient.connect(server.address)))),
      );
    }
    const owner = await WireClient.connect(server.address);
    await eventually(
      "all to be accepted",
      async () => (await statsValue(owner, "current-connections")) === 5001,
    );
    const share = await shareOfCore(server, 1000);
    assert.ok(share < 0.5, `5,000 idle connections took ${share.toFixed(2)} s of processor in a second`);
    await expectService(server);
    const last = clients.at(-1) as WireClient;
    assert.equal((await last.ask("list-tube-used")).line, "USING default");
    for (const client of clients) client.close();
    await eventually("all to be gone", async () => (await statsValue(owner, "current-connections")) === 1);
    owner.close();
  });

  hostile(`${CHURN} connections opened and closed`, [], async (server) => {
    const total = Number(CHURN);
    const owner = await WireClient.connect(server.address);
    const churn = async (count: number): Promise<void> => {
      for (let done = 0; done < count; done += 20) {
        await Promise.all(
          Array.from({ length: 20 }, async (_, index) => {
            const client = await WireClient.connect(server.address);
            if (index % 4 === 1) await client.ask("watch churn");
            if (index % 4 === 2) client.send("reserve\r\n");
            if (index % 2 === 0) client.close();
            else client.reset();
          }),
        );
      }
      await eventually(
        "all to be gone",
        async () => (await statsValue(owner, "current-connections")) === 1,
        20_000,
      );
    };
    // Buffers of the runtime reach their size within the first ten thousand or so.
    await churn(Math.min(20_000, total / 2));
    const resident = server.residentBytes();
    const descriptors = descriptorCount(server);
    await churn(total);
    // A connection is counted no more before its end leaves; its descriptor is closed after that.
    await eventually(
      `no more descriptors than the ${descriptors} before`,
      () => descriptorCount(server) <= descriptors + 2,
      5000,
    );
    await expectGrowth(server, resident, 48 * MIB);
    assert.equal(await statsValue(owner, "current-tubes"), 1);
    assert.equal(await statsValue(owner, "current-waiting"), 0);
    owner.close();
  });

  it("row 10: without file descriptors accepting pauses with few log lines, and resumes", async (t) => {
    if (!canRun(t, NEEDS.ours, NEEDS.prlimit)) return;
    const server = await startServer({ kind: "ours", flags: FLAGS });
    try {
      const first = await WireClient.connect(server.address);
      await first.ask("list-tube-used");
      const limit = descriptorCount(server) + 20;
      execFileSync("prlimit", ["--pid", `${server.pid}`, `--nofile=${limit}:${limit}`]);
      const clients = await Promise.all(Array.from({ length: 80 }, () => WireClient.connect(server.address)));
      const loggedBefore = server.stderr.length + server.stdout.length;
      const share = await shareOfCore(server, 2000);
      assert.ok(!server.hasExited, `the server is gone: ${server.stdout}${server.stderr}`);
      assert.equal((await first.ask("list-tube-used")).line, "USING default");
      const logged = server.stderr.length + server.stdout.length - loggedBefore;
      assert.ok(share < 0.5, `${share.toFixed(2)} s of processor a second without descriptors`);
      assert.ok(logged < 20_000, `${logged} bytes of log in 2 s without descriptors`);
      // Most hang up; those that are left are served. (A connection that was dropped meanwhile is
      // not held against the server.)
      const kept = clients.splice(0, 5);
      for (const client of clients) client.close();
      await eventually("a new client to be served", async () => {
        const fresh = await WireClient.connect(server.address);
        fresh.send("list-tube-used\r\n");
        const answer = await fresh.readSome(500);
        fresh.close();
        return answer?.toString("latin1") === "USING default\r\n";
      });
      for (const client of kept) client.close();
      first.close();
      // Closed connections release their descriptors one after the other.
      await eventually("descriptors to be free", () => descriptorCount(server) < limit - 10);
      await expectService(server);
    } finally {
      await server.kill();
    }
  });
});
