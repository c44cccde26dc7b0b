// Kills of relays, PostgreSQL and the server while rows go through the outbox: no row is lost, none
// is doubled, and each tube keeps its order. `npm run outbox` plays more kills.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { statementsFor, TABLE_DEFAULT } from "../../src/outbox/table.ts";
import { eventually } from "../support/eventually.ts";
import { missing } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { drawnSeed, SeededRandom } from "../support/seeded-random.ts";
import { NEEDS_POSTGRES, Postgres } from "../support/server/postgres.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { inWhole } from "../support/whole.ts";
import { OutboxLedger } from "./outbox-ledger.ts";
import { RelayProcess } from "./relay-process.ts";

const { KILLS = "", SEED: seed, PLANTED } = process.env;
const COUNT = KILLS === "" ? inWhole(12, 3) : Number(KILLS);
const SEED = Number(seed ?? (KILLS === "" ? 1 : drawnSeed()));
const RELAYS = 2;
const PRODUCERS = 3;
const REST_MS = 300;
/** Rows that a worker must see after each kill. */
const PROGRESS = 30;
/** The first three kills are of each of them. */
const TARGETS = ["relay", "database", "server"] as const;

test(`rows survive ${COUNT} kills of relays, PostgreSQL and the server`, {
  timeout: COUNT * 120_000,
  skip: missing(NEEDS_POSTGRES) ?? false,
}, async (t) => {
  t.diagnostic(`replay: SEED=${SEED} KILLS=${COUNT} node --test test/outbox/outbox-kill.test.ts`);
  const random = new SeededRandom(SEED);
  const log = temporaryFolder(t, "outbox-log");
  const postgres = await Postgres.start(temporaryFolder(t, "outbox-pg"));
  t.after(() => postgres.stop());
  await postgres.query(statementsFor(TABLE_DEFAULT).create);
  await OutboxLedger.createTable(postgres);
  const path = join(temporaryFolder(t, "outbox-socket"), "socket");
  const begin = (): Promise<ServerProcess> =>
    startServer({ kind: "ours", unixPath: path, flags: ["-b", log, "--shards", "2"] });
  let server = await begin();
  t.after(() => server.kill());
  const args = [postgres.url, "--url", `unix:${path}`, "--poll", "0.2"];
  // For a canary: a relay whose keys are forgotten at once doubles rows.
  if (PLANTED === "forgotten-keys") args.push("--remember", "1");
  const relays = Array.from({ length: RELAYS }, () => new RelayProcess(args));
  t.after(() => Promise.all(relays.map((relay) => relay.kill())));

  const ledger = new OutboxLedger();
  t.after(() => ledger.stop());
  const producers = Array.from({ length: PRODUCERS }, (_, producer) =>
    ledger.produce(postgres, producer, new SeededRandom(SEED + producer)),
  );
  const worker = ledger.work({ path }, new SeededRandom(SEED - 1));
  const killed = { relay: 0, database: 0, server: 0 };
  for (let kill = 0; kill < COUNT; kill++) {
    const before = ledger.seen.size;
    await eventually("rows arrive", () => ledger.seen.size >= before + PROGRESS);
    const target = TARGETS[kill] ?? random.pick(TARGETS);
    killed[target]++;
    const restMs = random.between(0, REST_MS);
    if (target === "relay") {
      const index = random.below(RELAYS);
      await relays[index]!.kill();
      await sleep(restMs);
      relays[index] = new RelayProcess(args);
    } else if (target === "database") {
      await postgres.kill();
      await sleep(restMs);
      await postgres.begin();
    } else {
      await server.kill();
      await sleep(restMs);
      server = await begin();
    }
    if (ledger.wrong.length > 0) break;
  }
  ledger.end();
  await Promise.all(producers);
  await eventually("the outbox is empty", async () => {
    const [row] = await postgres.query(`SELECT count(*) AS rows FROM ${TABLE_DEFAULT}`);
    return row!["rows"] === "0";
  });
  await worker;
  const { committed, wrong } = await ledger.check(postgres);
  assert.deepEqual(wrong.slice(0, 20), []);
  assert.ok(committed > COUNT * PROGRESS, `${committed} rows say enough`);
  for (const relay of relays) assert.equal(await relay.kill("SIGTERM"), 0, relay.stderr);
  t.diagnostic(`${committed} rows; kills: ${JSON.stringify(killed)}`);
});
