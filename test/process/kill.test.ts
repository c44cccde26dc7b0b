// Tests that repeatedly kill the server with SIGKILL under mixed load: everything acknowledged
// exists with its bytes, tube, state and pri, and everything deleted is gone, with any sync
// setting. `npm run kill` runs longer.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";
import { KillLedger } from "../support/server/kill-ledger.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { inWhole, skipVariant } from "../support/whole.ts";

const { ROUNDS: rounds = "", SEED: seed, FSYNC: only } = process.env;
/** The same load in every `npm test`, another in each longer run. */
const SEED = Number(seed ?? (rounds === "" ? 1 : drawnSeed()));
const CLIENTS = 8;
const LOAD_MS = 250;

/** One thread serves, and the log lives there or has its own. */
const RESIDENT = ["--placement", "together", "--threads", "1", "--log-placement"];

/** Modes of syncing the log, and kills in `npm test`. A killed process keeps the same in each. */
const MODES = [
  { name: "-f 0", fsync: ["-f", "0", ...RESIDENT, "together"], kills: inWhole(3, 2) },
  { name: "-f 0 with a thread for the log", fsync: ["-f", "0", ...RESIDENT, "apart"], kills: inWhole(2, 1) },
  { name: "the default", fsync: [], kills: inWhole(5, 3) },
  {
    name: "-f 50 with a thread for the log",
    fsync: ["-f", "50", ...RESIDENT, "apart"],
    kills: inWhole(2, 1),
  },
  { name: "-F", fsync: ["-F"], kills: inWhole(3, 2) },
].filter((mode) => only === undefined || only === mode.name);

for (const [index, { name, fsync, kills }] of MODES.entries()) {
  const count = rounds === "" ? kills : Number(rounds);
  test(`changes acknowledged under ${name} survive ${count} kills`, {
    timeout: count * 120_000,
    skip: skipVariant(index, 2),
  }, async (t) => {
    t.diagnostic(
      `replay: SEED=${SEED} ROUNDS=${count} FSYNC="${name}" node --test test/process/kill.test.ts`,
    );
    const random = new SeededRandom(SEED);
    const directory = temporaryFolder(t, "kill");
    const ledger = new KillLedger();
    const start = async (...sizes: string[]): Promise<ServerProcess> => {
      const server = await startServer({ kind: "ours", flags: ["-b", directory, ...fsync, ...sizes] });
      t.after(() => server.kill());
      return server;
    };
    for (let round = 0; round < count; round++) {
      // Another number of shards each time: the log doesn't depend on it.
      const shards = `${random.between(1, 3)}`;
      const server = await start("-s", "2000000", "--shards", shards, "--acceptors", "1");
      const checker = await WireClient.connect(server.address);
      assert.deepEqual(await ledger.check(checker), [], `after kill ${round}`);
      const clients = await Promise.all(
        Array.from({ length: CLIENTS }, () => WireClient.connect(server.address)),
      );
      const work = clients.map((client) => ledger.work(client, random.between(0, 2 ** 31 - 1)));
      const before = ledger.acknowledgedPuts;
      await sleep(random.between(LOAD_MS, 2 * LOAD_MS));
      await eventually("the clients have put jobs", () => ledger.acknowledgedPuts > before + CLIENTS);
      await server.kill();
      await Promise.all(work);
    }
    const server = await start();
    assert.deepEqual(await ledger.check(await WireClient.connect(server.address)), [], "at the end");
    const { code } = await server.stop();
    assert.equal(code, 0);
    assert.ok(ledger.acknowledgedPuts > count, "there was enough load to say something");
    t.diagnostic(`${ledger.acknowledgedPuts} acknowledged puts, ${ledger.alive} jobs alive at the end`);
  });
}
