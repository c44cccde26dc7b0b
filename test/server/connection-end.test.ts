// Tests of the end of a connection as others see it: a client that has seen it can rely on the
// effects on jobs, waits, tubes and gauges, on every acceptor and with both transports.

import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import type { ServerProcess } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { type Topology, topologyFlags, topologyName } from "../support/topologies.ts";
import { atNight, skipVariant } from "../support/whole.ts";

const TRANSPORTS = ["libuv", "io_uring", "io_uring, once"] as const;
const SHAPES: readonly Topology[] = [
  { shards: 1, acceptors: 1 },
  { shards: 4, acceptors: 2 },
];
const ROUNDS = atNight(24, 12);
/** Enough that each acceptor has one of them, but for one run in two hundred. */
const OBSERVERS = 8;
/** More than one turn of a shard gives back. */
const MANY_JOBS = 3000;
/**
 * A client's own close and the next client's command race through the kernel: its order is theirs
 * only most of the time.
 */
const OVERTAKEN_MAX = atNight(2, 1);

/**
 * Closes after which others ask for gauges, and how many of them beanstalkd itself still counts at
 * most.
 */
const CLOSES = atNight(200, 100);
const STILL_COUNTED_MAX = CLOSES * 0.03;

/** Tubes on several shards. */
const TUBES = ["alpha", "beta", "gamma", "delta"];

/** Beginnings of commands, and a command that waits. */
const UNANSWERED = ["put 0 0 1 100\r\nabc", "list-tube", "reserve\r\n"];

/** Ways of a client to be ended by the server, with what it has received before the end. */
const WAYS: Readonly<Record<string, (client: WireClient) => Promise<void>>> = {
  quit: async (client) => {
    client.send("quit\r\n");
  },
  "commands, and quit behind them": async (client) => {
    client.send("list-tube-used\r\nwatch gamma\r\nwatch default\r\nquit\r\n");
    for (let replies = 0; replies < 3; replies++) await client.readReply();
  },
  "half-close": async (client) => {
    client.halfClose();
  },
  "half-close in the middle of a body": async (client) => {
    client.send("put 0 0 1 100\r\nabc");
    client.halfClose();
  },
};

async function yaml(client: WireClient, command: string): Promise<Map<string, string>> {
  const text = (await client.ask(command)).body!.toString("latin1");
  return new Map(text.split("\n").map((row) => row.split(": ") as [string, string]));
}

/** Commands that count connections, and whether they count none but the observers. */
const GAUGES: readonly { command: string; isRight: (observer: WireClient) => Promise<boolean> }[] = [
  {
    command: "stats",
    isRight: async (observer) =>
      (await yaml(observer, "stats")).get("current-connections") === `${OBSERVERS}`,
  },
  {
    command: "stats-tube",
    isRight: async (observer) =>
      (await yaml(observer, "stats-tube alpha")).get("current-watching") === `${OBSERVERS}`,
  },
  { command: "list-tubes", isRight: async (observer) => !(await listsGone(observer)) },
];

async function listsGone(observer: WireClient): Promise<boolean> {
  return /^- gone$/m.test((await observer.ask("list-tubes")).body!.toString("latin1"));
}

async function hasLeft(observer: WireClient): Promise<boolean> {
  return (await GAUGES[0]!.isRight(observer)) && !(await listsGone(observer));
}

/** A client that holds a job of each tube and watches and uses some. */
async function busyClient(server: ServerProcess): Promise<WireClient> {
  const client = await WireClient.connect(server.address);
  for (const tube of TUBES) {
    await client.ask(`watch ${tube}`);
    await client.ask(`use ${tube}`);
    assert.match((await client.put("x")).line, /^INSERTED/);
    assert.match((await client.ask("reserve-with-timeout 0")).line, /^RESERVED/);
  }
  return client;
}

/** Takes the jobs that the ended client held, and looks at every gauge that it was counted in. */
async function lookFor(observer: WireClient, who: string): Promise<void> {
  for (const tube of TUBES) {
    const { line } = await observer.ask("reserve-with-timeout 0");
    assert.match(line, /^RESERVED/, `${who}: a job that was of ${tube} or before`);
    assert.equal((await observer.ask(`delete ${line.split(" ")[1]}`)).line, "DELETED");
  }
  const stats = await yaml(observer, "stats");
  const expected = {
    "current-connections": `${OBSERVERS}`,
    "current-producers": "0",
    "current-workers": `${OBSERVERS}`,
    "current-waiting": "0",
  };
  for (const [key, value] of Object.entries(expected)) assert.equal(stats.get(key), value, `${who}: ${key}`);
  const tube = await yaml(observer, "stats-tube delta");
  assert.equal(tube.get("current-using"), "0", `${who}: current-using`);
  assert.equal(tube.get("current-watching"), `${OBSERVERS}`, `${who}: current-watching`);
}

async function observers(server: ServerProcess): Promise<WireClient[]> {
  const all: WireClient[] = [];
  for (let each = 0; each < OBSERVERS; each++) {
    const observer = await WireClient.connect(server.address);
    for (const tube of TUBES) await observer.ask(`watch ${tube}`);
    // Asking makes a worker.
    await observer.ask("reserve-with-timeout 0");
    all.push(observer);
  }
  return all;
}

/**
 * Returns how often `other` is refused the only job although its holder has left, by `leave`,
 * before.
 */
async function countOvertaken(
  t: TestContext,
  server: ServerProcess,
  other: WireClient,
  leave: (client: WireClient, round: number) => void | Promise<void>,
): Promise<number> {
  let overtaken = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const client = await WireClient.connect(server.address);
    assert.match((await client.ask("reserve")).line, /^RESERVED/);
    await leave(client, round);
    const { line } = await other.ask("reserve-with-timeout 0");
    if (line === "TIMED_OUT") {
      overtaken++;
      assert.match((await other.ask("reserve")).line, /^RESERVED/);
    }
    assert.equal((await other.ask("release 1 0 0")).line, "RELEASED");
  }
  t.diagnostic(`overtaken ${overtaken} times of ${ROUNDS}`);
  return overtaken;
}

for (const [index, transport] of TRANSPORTS.entries()) {
  const skip = skipVariant(index, TRANSPORTS.length);
  for (const shape of SHAPES) {
    describe(`the end of a connection (${transport}, ${topologyName(shape)})`, { skip }, () => {
      it("makes its jobs and gauges visible to every client that has seen it", async (t) => {
        const server = await startWithTransport(t, transport, topologyFlags(shape));
        if (server === undefined) return;
        const all = await observers(server);
        for (const [way, leave] of Object.entries(WAYS)) {
          for (let round = 0; round < ROUNDS; round++) {
            const client = await busyClient(server);
            await leave(client);
            await client.expectEnd();
            await lookFor(all[round % OBSERVERS]!, `${way}, round ${round}`);
            client.close();
          }
        }
        for (const observer of all) observer.close();
      });
    });
  }

  describe(`the end of a connection (${transport})`, { skip }, () => {
    it("of a waiting client leaves no wait for a client that has seen it", async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 4, acceptors: 2 }));
      if (server === undefined) return;
      const all = await observers(server);
      for (let round = 0; round < ROUNDS; round++) {
        const client = await WireClient.connect(server.address);
        for (const tube of TUBES) await client.ask(`watch ${tube}`);
        client.send("reserve\r\n");
        client.halfClose();
        assert.equal((await client.readReply()).line, "TIMED_OUT");
        await client.expectEnd();
        const observer = all[round % OBSERVERS]!;
        const stats = await yaml(observer, "stats");
        assert.equal(stats.get("current-waiting"), "0");
        assert.equal(stats.get("current-workers"), `${OBSERVERS}`);
        client.close();
      }
      for (const observer of all) observer.close();
    });

    it(`with ${MANY_JOBS} held jobs makes all of them ready for a client that has seen it`, async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 1, acceptors: 2 }));
      if (server === undefined) return;
      const observer = await WireClient.connect(server.address);
      for (let round = 0; round < 3; round++) {
        const client = await WireClient.connect(server.address);
        if (round === 0) client.send("put 0 0 100 1\r\nx\r\n".repeat(MANY_JOBS));
        client.send("reserve\r\n".repeat(MANY_JOBS));
        for (let reply = round === 0 ? 0 : MANY_JOBS; reply < 2 * MANY_JOBS; reply++)
          await client.readReply();
        client.send("quit\r\n");
        await client.expectEnd();
        const stats = await yaml(observer, "stats");
        assert.equal(stats.get("current-jobs-reserved"), "0");
        assert.equal(stats.get("current-jobs-ready"), `${MANY_JOBS}`);
      }
      observer.close();
    });

    for (const shape of SHAPES)
      it(`by a client's close takes effect before later commands of others (${topologyName(shape)})`, async (t) => {
        const server = await startWithTransport(t, transport, topologyFlags(shape));
        if (server === undefined) return;
        const other = await WireClient.connect(server.address);
        await other.put("x");
        // Over several shards the reserve is the acceptor's business.
        for (const tube of TUBES) await other.ask(`watch ${tube}`);
        const overtaken = await countOvertaken(t, server, other, (client, round) => {
          if (round % 3 === 0) return client.reset();
          if (round % 3 === 1) client.send("quit\r\n");
          client.close();
        });
        assert.ok(overtaken <= OVERTAKEN_MAX, `overtaken ${overtaken} times of ${ROUNDS}`);
        other.close();
      });

    it("by a client's close is counted before later questions of others", async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 2, acceptors: 2 }));
      if (server === undefined) return;
      const all = await observers(server);
      const stillCounted: string[] = [];
      for (let round = 0; round < CLOSES; round++) {
        const client = await WireClient.connect(server.address);
        await client.ask("watch alpha");
        await client.ask("watch gone");
        await client.ask("stats");
        const closed = once(client.socket, "close");
        client.close();
        await closed;
        const gauge = GAUGES[round % GAUGES.length]!;
        if (!(await gauge.isRight(all[round % OBSERVERS]!))) stillCounted.push(gauge.command);
        // The next client would make `gone` anew before this one has left.
        while (!(await hasLeft(all[0]!))) await nextTurn();
      }
      for (const observer of all) observer.close();
      const found = `${stillCounted.length} of ${CLOSES}: ${stillCounted.join(", ")}`;
      assert.ok(stillCounted.length <= STILL_COUNTED_MAX, found);
    });

    it("by a close right behind bytes is counted before later questions of others", async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 1, acceptors: 1 }));
      if (server === undefined) return;
      const observer = await WireClient.connect(server.address);
      let stillCounted = 0;
      for (let round = 0; round < ROUNDS; round++) {
        const client = await WireClient.connect(server.address);
        await client.ask("watch alpha");
        client.send("watch gone\r\n");
        const closed = once(client.socket, "close");
        client.close();
        await closed;
        if ((await yaml(observer, "stats")).get("current-connections") !== "1") stillCounted++;
        while ((await yaml(observer, "stats")).get("current-connections") !== "1") await nextTurn();
      }
      observer.close();
      // It was 80 % with libuv, whose next pass reads the end. With beanstalkd, it is 7 %.
      assert.ok(stillCounted <= ROUNDS / 2, `${transport}: ${stillCounted} of ${ROUNDS}`);
    });

    it("by a reset that the server sees together with bytes before it, which get no reply", async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 2, acceptors: 1 }));
      if (server === undefined) return;
      const observer = await WireClient.connect(server.address);
      const clients: WireClient[] = [];
      for (let each = 0; each < 3 * UNANSWERED.length; each++) {
        const client = await WireClient.connect(server.address);
        await client.put("x");
        assert.match((await client.ask("reserve")).line, /^RESERVED/);
        clients.push(client);
      }
      server.signal("SIGSTOP");
      for (const [each, client] of clients.entries()) {
        await new Promise((resolve) => client.socket.write(UNANSWERED[each % UNANSWERED.length]!, resolve));
        client.reset();
      }
      server.signal("SIGCONT");
      await eventually("all have gone, and their jobs are back", async () => {
        const stats = await yaml(observer, "stats");
        const [connections, ready] = [stats.get("current-connections"), stats.get("current-jobs-ready")];
        return connections === "1" && ready === `${clients.length}`;
      });
      observer.close();
    });

    it("doesn't delay a refused reserve by acceptors without clients", async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 2, acceptors: 8 }));
      if (server === undefined) return;
      const [holder, other] = [
        await WireClient.connect(server.address),
        await WireClient.connect(server.address),
      ];
      await holder.put("x");
      assert.match((await holder.ask("reserve")).line, /^RESERVED/);
      assert.equal((await other.ask("reserve-with-timeout 0")).line, "TIMED_OUT");
      for (const tube of TUBES) await other.ask(`watch ${tube}`);
      assert.equal((await other.ask("reserve-with-timeout 0")).line, "TIMED_OUT");
      holder.close();
      other.close();
    });

    it("by the close of a waiting client is counted, too", async (t) => {
      const server = await startWithTransport(t, transport, topologyFlags({ shards: 1, acceptors: 1 }));
      if (server === undefined) return;
      const other = await WireClient.connect(server.address);
      await other.put("x");
      const overtaken = await countOvertaken(t, server, other, async (client) => {
        client.send("reserve\r\n");
        while ((await yaml(other, "stats")).get("current-waiting") !== "1");
        client.close();
      });
      assert.ok(overtaken <= OVERTAKEN_MAX, `overtaken ${overtaken} times of ${ROUNDS}`);
      other.close();
    });
  });
}
