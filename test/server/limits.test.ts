// Tests of connection limits: total, per address, and idle time.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { launch, type ServerProcess, startServer } from "../support/server/server-process.ts";
import { untilItSays } from "../support/server/until-it-says.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const SHAPES = [
  ["--shards", "3", "--acceptors", "3"],
  ["--shards", "1", "--acceptors", "1", "--transport", "libuv"],
];

/** Kind of a kernel timer: keep-alive probes. */
const KEEP_ALIVE = "02";
const TICKS_PER_SECOND = 100;

const hexOf = (port: number): string => port.toString(16).toUpperCase().padStart(4, "0");

/** The timer that runs for the socket with these two ends. */
function timerOf(ends: readonly string[]): { kind: string; seconds: number } | undefined {
  for (const row of readFileSync("/proc/net/tcp", "latin1").split("\n")) {
    const [, local, remote, , , timer = ""] = row.trim().split(/\s+/);
    if (local !== ends[0] || remote !== ends[1]) continue;
    const [kind = "", ticks = "0"] = timer.split(":");
    return { kind, seconds: Number.parseInt(ticks, 16) / TICKS_PER_SECOND };
  }
  return undefined;
}

for (const [index, shape] of SHAPES.entries()) {
  describe(`limits ${shape.join(" ")}`, { skip: skipVariant(index, SHAPES.length) }, () => {
    let server: ServerProcess;
    before(async () => {
      const limits = ["--max-connections", "6", "--max-connections-per-address", "4", "--idle-timeout", "5s"];
      const flags = [...shape, ...limits, "--tcp-keepalive", "50s,10s,3"];
      server = await startServer({ kind: "ours", flags });
    });
    after(() => server.stop());

    const connect = (localAddress = "127.0.0.1"): Promise<WireClient> =>
      WireClient.connect({ port: server.port, host: "127.0.0.1", localAddress });
    /** Returns whether the server serves it, or closes it at once. */
    const isServed = async (client: WireClient): Promise<boolean> => {
      client.send("use a\r\n");
      const answer = await client.readSome(10_000);
      return answer !== null;
    };

    it("set the TCP keep-alive as configured", async () => {
      const client = await connect();
      assert.ok(await isServed(client));
      const ends = [server.port, client.socket.localPort!].map((port) => `0100007F:${hexOf(port)}`);
      await eventually("the next thing to do is a probe in 50 s", () => {
        const timer = timerOf(ends);
        return timer !== undefined && timer.kind === KEEP_ALIVE && timer.seconds > 30 && timer.seconds <= 50;
      });
      client.close();
    });

    it("are exact over all acceptors, and a closed connection frees its place", async () => {
      const clients: WireClient[] = [];
      for (let client = 0; client < 4; client++) {
        clients.push(await connect());
        assert.ok(await isServed(clients[client]!));
      }
      assert.ok(!(await isServed(await connect())), "a fifth from one address");
      for (let client = 0; client < 2; client++) {
        clients.push(await connect("127.0.0.2"));
        assert.ok(await isServed(clients.at(-1)!));
      }
      assert.ok(!(await isServed(await connect("127.0.0.3"))), "a seventh of all");
      await untilItSays(
        server,
        /127\.0\.0\.1 has 4 connections, as many as max-connections-per-address allows/,
      );
      const stats = (await clients[0]!.ask("stats")).body?.toString() ?? "";
      assert.match(stats, /^current-connections: 6$/m);
      for (const client of clients.splice(0, 3)) {
        client.send("quit\r\n");
        await client.expectEnd();
      }
      // The place is free when the socket is closed, which the end of it may be a little ahead of.
      await eventually("its place becomes free", async () => {
        const client = await connect();
        const served = await isServed(client);
        client.close();
        return served;
      });
      for (const client of clients) client.close();
    });

    it("close idle connections, but none that waits or holds a job", async () => {
      const idle = await eventually("the clients of the tests before are gone", async () => {
        const client = await connect("127.0.0.5");
        const isAlone =
          (await isServed(client)) &&
          /^current-connections: 1$/m.test((await client.ask("stats")).body?.toString() ?? "");
        if (!isAlone) client.close();
        return isAlone && client;
      });
      // On a machine that held this process up for long, the one that works was idle indeed.
      let [sentAt, longestGapMs] = [performance.now(), 0];
      const [waits, holds, works] = await Promise.all([
        connect("127.0.0.5"),
        connect("127.0.0.5"),
        connect("127.0.0.5"),
      ]);
      await idle.ask("use a");
      await waits.ask("watch limits-nothing");
      waits.send("reserve\r\n");
      await holds.ask("use limits-held");
      await holds.put("x", { ttr: 1000 });
      await holds.ask("watch limits-held");
      assert.match((await holds.ask("reserve")).line, /^RESERVED/);
      const active = setInterval(() => {
        longestGapMs = Math.max(longestGapMs, performance.now() - sentAt);
        sentAt = performance.now();
        works.send("use a\r\n");
      }, 100);
      await idle.expectEnd(30_000);
      clearInterval(active);
      longestGapMs = Math.max(longestGapMs, performance.now() - sentAt);
      assert.equal((await holds.ask("use b")).line, "USING b");
      assert.ok(!works.hasEnded || longestGapMs > 3900, `it was closed after ${longestGapMs} ms`);
      works.close();
      const putter = await connect("127.0.0.6");
      await putter.ask("use limits-nothing");
      await putter.put("at last");
      assert.match((await waits.readReply()).line, /^RESERVED/);
      for (const client of [waits, holds, putter]) client.close();
    });
  });
}

describe("invalid limits", () => {
  for (const flags of [
    ["--max-connections", "0"],
    ["--max-connections", "many"],
    ["--idle-timeout", "10 parsecs"],
    ["--idle-timeout", "10ms"],
    ["--tcp-keepalive", "60s,10s,3,4"],
    ["--tcp-keepalive", "0"],
  ]) {
    it(`are refused with exit code 5: ${flags.join(" ")}`, async () => {
      const server = await launch({ kind: "ours", flags });
      assert.equal((await server.exited).code, 5);
    });
  }
});
