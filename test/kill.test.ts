// Kills the server with SIGKILL under mixed load, again and again: whatever was acknowledged under -f 0 is there, whatever
// was deleted is not, with its bytes, tube, state and pri. ROUNDS=500 node --test test/kill.test.ts for the night.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { KillLedger } from "./support/kill-ledger.ts";
import { SeededRandom } from "./support/seeded-random.ts";
import { startServer } from "./support/server-process.ts";
import { WireClient } from "./support/wire-client.ts";

const { ROUNDS: rounds = "20", SEED: seed } = process.env;
const ROUNDS = Number(rounds);
/** The same load in every `npm test`, another in each longer run. */
const SEED = Number(seed ?? (ROUNDS === 20 ? 1 : Math.floor(Math.random() * 1e9)));
const CLIENTS = 8;
/** A busy machine may keep the log's thread waiting for longer than the two milliseconds that a kill may cost. */
const WRITTEN_MS = 50;
const LOAD_MS = 250;

test(`what was acknowledged under -f 0 survives ${ROUNDS} kills`, { timeout: ROUNDS * 15_000 }, async (t) => {
  t.diagnostic(`replay: SEED=${SEED} ROUNDS=${ROUNDS} node --test test/kill.test.ts`);
  const random = new SeededRandom(SEED);
  const directory = mkdtempSync(join(tmpdir(), "runnerbean-kill-"));
  const ledger = new KillLedger();
  try {
    for (let round = 0; round < ROUNDS; round++) {
      // Another number of shards each time: the log does not care who wrote it.
      const shards = random.between(1, 3);
      const flags = [
        "-b",
        directory,
        "-f",
        "0",
        "-s",
        "2000000",
        "--shards",
        `${shards}`,
        "--acceptors",
        "1",
      ];
      const server = await startServer({ kind: "ours", flags });
      const checker = await WireClient.connect(server.address);
      assert.deepEqual(await ledger.check(checker), [], `after kill ${round}`);
      const clients = await Promise.all(
        Array.from({ length: CLIENTS }, () => WireClient.connect(server.address)),
      );
      const work = clients.map((client) => ledger.work(client, random.between(0, 2 ** 31 - 1)));
      await sleep(random.between(LOAD_MS, 2 * LOAD_MS));
      await server.kill();
      await Promise.all(work);
    }
    const server = await startServer({ kind: "ours", flags: ["-b", directory, "-f", "0"] });
    assert.deepEqual(await ledger.check(await WireClient.connect(server.address)), [], "at the end");
    const { code } = await server.stop();
    assert.equal(code, 0);
    assert.ok(ledger.jobs.size > ROUNDS, "there was enough load to say something");
    t.diagnostic(`${ledger.jobs.size} acknowledged puts, ${ledger.alive} jobs alive at the end`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("what was acknowledged under -f 50 or -F survives a kill a moment later, though nothing more came", async () => {
  for (const fsync of [["-f", "1000"], ["-f", "50"], ["-F"]]) {
    const directory = mkdtempSync(join(tmpdir(), "runnerbean-kill-"));
    try {
      for (let round = 0; round < 3; round++) {
        const flags = ["-b", directory, ...fsync, "--shards", "2"];
        const server = await startServer({ kind: "ours", flags });
        const client = await WireClient.connect(server.address);
        for (let id = 100 * round + 1; id <= 100 * (round + 1); id++)
          assert.equal((await client.put(`body ${id}`)).line, `INSERTED ${id}`);
        await sleep(WRITTEN_MS);
        await server.kill();
      }
      const server = await startServer({ kind: "ours", flags: ["-b", directory, ...fsync] });
      const client = await WireClient.connect(server.address);
      for (let id = 1; id <= 300; id++)
        assert.equal((await client.ask(`peek ${id}`)).body?.toString(), `body ${id}`, `${fsync}, job ${id}`);
      client.close();
      await server.stop();
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  }
});
