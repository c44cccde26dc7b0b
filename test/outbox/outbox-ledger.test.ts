// Tests that the ledger of the outbox finds lost, doubled and misplaced rows.

import assert from "node:assert/strict";
import { it } from "node:test";
import { SeededRandom } from "../support/seeded-random.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { OutboxLedger } from "./outbox-ledger.ts";

/** Plays jobs in this order to a worker, as if these rows were committed; returns what is wrong. */
async function wrongs(committed: readonly string[], jobs: readonly string[]): Promise<string[]> {
  const server = await startServer({ kind: "ours" });
  try {
    const client = await WireClient.connect(server.address);
    for (const body of jobs) {
      await client.ask(`use ${body.split(" ")[0]}`);
      await client.ask(`put 0 0 60 ${body.length}\r\n${body}`);
    }
    client.socket.destroy();
    const ledger = new OutboxLedger();
    ledger.end();
    await ledger.work(server.address, new SeededRandom(1));
    return (await ledger.check({ query: async () => committed.map((body) => ({ body })) })).wrong;
  } finally {
    await server.stop();
  }
}

const ROWS = ["alpha 0 0", "alpha 0 1", "beta 0 2", "alpha 1 0"];

for (const [what, jobs, expected] of [
  ["no fault", ROWS, []],
  ["a lost row", ROWS.slice(1), ["alpha 0 0 is lost"]],
  ["a doubled row", [...ROWS, "beta 0 2"], [/^beta 0 2 is doubled: jobs \d+, \d+$/]],
  [
    "a row out of order",
    ["alpha 0 1", "alpha 0 0", "beta 0 2", "alpha 1 0"],
    ["alpha 0 0 came after number 1"],
  ],
  ["a row of no transaction", [...ROWS, "gamma 2 7"], ["gamma 2 7 was never committed"]],
] as const)
  it(`${what} (canary)`, async () => {
    const wrong = await wrongs(ROWS, jobs);
    assert.equal(wrong.length, expected.length, wrong.join());
    for (const [index, each] of expected.entries())
      if (typeof each === "string") assert.equal(wrong[index], each);
      else assert.match(wrong[index]!, each);
  });
