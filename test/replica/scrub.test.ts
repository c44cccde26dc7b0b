// Test of the scrub in a group: what is damaged on either server is found there, and the primary
// writes it again for both.

import assert from "node:assert/strict";
import { it } from "node:test";
import { verify } from "../../src/binlog/tools/tools.ts";
import { eventually } from "../support/eventually.ts";
import { flipBits, missedOf } from "../support/flipped-bits.ts";
import { freePort } from "../support/machine/free-port.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";
import { missingNats } from "../support/server/nats-cluster.ts";
import { HERE, ServerGroup } from "../support/server/server-group.ts";

interface Scrub {
  readonly walks: number;
  readonly left: number;
  readonly damaged: number;
  readonly places: { file: string; offset: number; bytes: number }[];
}

const FLIPS_EACH = 30;
const JOBS = 800;
const BODY = "x".repeat(4000);

it("60 flipped bits in the logs of a group are found by their servers and repaired on both", {
  skip: missingNats() ?? false,
}, async (t) => {
  const seed = Number(process.env["SEED"] ?? drawnSeed());
  t.diagnostic(`seed ${seed}`);
  const random = new SeededRandom(seed);
  const urls = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const places = urls.map((url) => ({ ...HERE, flags: ["--http", url] }));
  const group = await ServerGroup.start(t, ["-s", "1048576"], 1, undefined, places);
  const client = await group.serving();
  const ids: number[] = [];
  for (let put = 1; put <= JOBS; put++) {
    const { line } = await client.put(`${put}.${BODY}`);
    assert.match(line, /^INSERTED/);
    ids.push(Number(line.split(" ")[1]));
    if (put % 3 === 0) await client.ask(`delete ${ids.pop()}`);
  }
  await group.caughtUp();
  const scrubOf = async (url: string): Promise<Scrub> => {
    const log = (await (await fetch(`http://${url}/v1/binlog`)).json()) as { scrub: Scrub };
    return log.scrub;
  };
  for (const [each, server] of group.servers.entries()) {
    const url = urls[each]!;
    const flips = flipBits(server.directory, FLIPS_EACH, random);
    // Its own walk may have ended before.
    const { walks } = await scrubOf(url);
    assert.equal((await fetch(`http://${url}/v1/binlog/scrub`, { method: "POST" })).status, 200);
    const scrub = await eventually("a walk over the log", async () => {
      const now = await scrubOf(url);
      return now.walks > walks && now.left === 0 && now;
    });
    assert.deepEqual(missedOf(flips, scrub.places), [], `flips that server ${each} has not found`);
    await eventually("the repair", async () => (await scrubOf(url)).damaged === 0);
    await eventually("its lines", () => /BINLOG_DAMAGED.*offset.*BINLOG_REPAIRED/s.test(server.output));
    // The other server drops its files later, and no bit of those may be flipped.
    await group.caughtUp();
  }
  // The standby has all jobs, and so has its log.
  const before = await group.primary();
  await before.end("SIGTERM");
  const after = await group.serving();
  for (const id of ids) assert.match((await after.ask(`peek ${id}`)).line, new RegExp(`^FOUND ${id} `));
  for (const server of group.servers) {
    await server.end("SIGTERM");
    const { whole, jobs } = await verify({ path: server.directory });
    assert.ok(whole && jobs >= ids.length, `${jobs} jobs in ${server.directory}`);
  }
});
