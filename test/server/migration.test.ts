// Tests of connections that follow their tubes from thread to thread: their clients notice nothing.

import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";

const EAGER = new URL("../support/machine/eager-migration.ts", import.meta.url).href;
const TWO_THREADS = ["-V", "--shards", "4", "--acceptors", "2", "--placement", "together", "--threads", "2"];
const CLIENTS = 12;
const ROUNDS = 40;
const SEED = 1;

const moves = (server: ServerProcess): number => server.stdout.match(/^move \d+ to another/gm)?.length ?? 0;

/**
 * Puts, takes and deletes jobs of its own in a random tube, changes what it watches, and comes and
 * goes.
 */
async function work(server: ServerProcess, name: string, random: SeededRandom): Promise<void> {
  let client = await WireClient.connect(server.address);
  for (let round = 0; round < ROUNDS; round++) {
    const tube = `${name}-${random.between(1, 3)}`;
    const body = `${name}-${round}`.repeat(random.pick([1, 10, 1000]));
    const watched = await client.ask(`watch ${tube}`);
    assert.match(watched.line, /^WATCHING/);
    // Pipelined, so that bytes come while a connection leaves.
    client.send(`use ${tube}\r\nput 0 0 3600 ${body.length}\r\n`);
    client.send(`${body}\r\nlist-tube-used\r\n`);
    assert.equal((await client.readReply()).line, `USING ${tube}`);
    const { line } = await client.readReply();
    assert.match(line, /^INSERTED \d+$/);
    assert.equal((await client.readReply()).line, `USING ${tube}`);
    const id = line.split(" ")[1]!;
    const taken = await client.ask("reserve");
    assert.equal(taken.line, `RESERVED ${id} ${body.length}`);
    assert.equal(taken.body!.toString(), body);
    if (random.chance(0.1)) {
      // After a release its old holder no longer holds it, wherever its connection has been.
      client.close();
      client = await WireClient.connect(server.address);
      await client.ask(`watch ${tube}`);
      assert.equal((await client.ask("reserve")).line, `RESERVED ${id} ${body.length}`);
    }
    assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    if (random.chance(0.5)) assert.match((await client.ask(`ignore ${tube}`)).line, /^WATCHING/);
  }
  client.halfClose();
  await client.expectEnd();
}

async function gauges(server: ServerProcess): Promise<Record<string, number>> {
  const client = await WireClient.connect(server.address);
  const text = (await client.ask("stats")).body!.toString();
  client.close();
  const names = ["jobs-ready", "jobs-reserved", "producers", "workers", "tubes"];
  return Object.fromEntries(
    names.map((name) => [name, Number(new RegExp(`current-${name}: (\\d+)`).exec(text)![1])]),
  );
}

async function eager(t: TestContext, ...flags: string[]): Promise<ServerProcess | undefined> {
  if (!canRun(t, NEEDS.ours)) return undefined;
  const environment = { NODE_OPTIONS: `--import ${EAGER}` };
  return await startWithTransport(t, "io_uring", [...TWO_THREADS, ...flags], environment);
}

async function workAll(server: ServerProcess): Promise<void> {
  const random = new SeededRandom(SEED);
  const names = Array.from({ length: CLIENTS }, (_, index) => `w${index}`);
  await Promise.all(names.map((name) => work(server, name, new SeededRandom(random.between(1, 1_000_000)))));
}

describe("connections that move", () => {
  it("lose nothing, keep their order, and leave nothing behind", async (t) => {
    const server = await eager(t);
    if (server === undefined) return;
    await workAll(server);
    assert.ok(moves(server) > 8 * CLIENTS, `only ${moves(server)} moves`);
    const left = { "jobs-ready": 0, "jobs-reserved": 0, producers: 0, workers: 0, tubes: 1 };
    // The server may see the end of a connection later than its client.
    let seen: Record<string, number> = {};
    await eventually(
      () => `nothing is left: ${JSON.stringify(seen)}`,
      async () => {
        seen = await gauges(server);
        return isDeepStrictEqual(seen, left);
      },
    );
    const { code } = await server.stop();
    assert.equal(code, 0);
  });

  it("end with the server like others", async (t) => {
    const server = await eager(t, "--log-level", "debug");
    if (server === undefined) return;
    const clients = await Promise.all(
      Array.from({ length: CLIENTS }, () => WireClient.connect(server.address)),
    );
    // Some are on their way when it stops.
    for (const [index, client] of clients.entries()) client.send(`use t${index}\r\nput 0 0 60 1\r\nx\r\n`);
    await eventually("connections move", () => moves(server) > 0);
    const { code } = await server.stop();
    assert.equal(code, 0);
    assert.match(server.stderr, /"moved":[1-9]/);
  });

  for (const flags of [
    ["--transport", "libuv"],
    ["--transport", "io_uring", "--no-migration"],
    // Counted where it came in.
    ["--transport", "io_uring", "--max-connections", "100"],
  ]) {
    it(`stay with ${flags.join(" ")}`, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const server = await startServer({
        kind: "ours",
        flags: [...TWO_THREADS, ...flags],
        env: { NODE_OPTIONS: `--import ${EAGER}` },
      });
      t.after(() => server.kill());
      await work(server, "w", new SeededRandom(SEED));
      assert.equal(moves(server), 0);
    });
  }
});
