// Kills with -9 around the ends of batches, many batches in each life of the server: each callback
// comes once, when the last member has ended, and never for success if a member has failed.
//
// `npm run kill -- --batches` runs longer.

import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { BatchLedger, LARGE_TUBES, SMALL_TUBES, untilKilled } from "../support/server/batch-ledger.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { inWhole } from "../support/whole.ts";

const KILLS = Number(process.env["BATCH_END_KILLS"] ?? inWhole(4, 2));
/** Of the large batch that is always there; the others are small. */
const MEMBERS = Number(process.env["BATCH_END_MEMBERS"] ?? 500);
const WORKERS = 3;
/** A life ends after so many answers at most, or at the end of a batch. */
const ANSWERS_MAX = 80;
const SHARDS: readonly [number, ...number[]] = [4, 4, 7, 3, 1];
const SAID_EVERY = 100;

it(`kill -9 around the ends of batches, ${KILLS} times`, async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  printSeed(t);
  const random = new SeededRandom(seed);
  const ledger = new BatchLedger(random);
  const folder = temporaryFolder(t);
  const start = async (): Promise<ServerProcess> => {
    const sync = `${random.pick([0, 50])}`;
    const flags = ["-b", folder, "-f", sync, "-s", "2000000", "--shards", `${random.pick(SHARDS)}`];
    const server = await startServer({ kind: "ours", flags });
    t.after(() => server.kill());
    return server;
  };
  const say = (kills: number): void => t.diagnostic(`${kills} kills; ${JSON.stringify(ledger.counts)}`);

  for (let kills = 0; kills < KILLS; kills++) {
    const server = await start();
    const { promise: isTime, resolve: kill } = Promise.withResolvers<void>();
    const endsAtLast = random.chance(0.5);
    let left = random.between(1, ANSWERS_MAX);
    let isFilled = false;
    ledger.onProgress = (isLast) => {
      const isIdle = isFilled && ledger.live === 0;
      if (--left <= 0 || (isLast && endsAtLast) || isIdle) kill();
    };
    const lives: Promise<void>[] = [];
    const live = (work: (client: WireClient) => Promise<void>): Promise<void> => {
      const promise = untilKilled(work, WireClient.connect(server.address));
      promise.catch(kill);
      lives.push(promise);
      return promise;
    };
    const filled = live((client) => ledger.fill(client, MEMBERS, MEMBERS / 20));
    void filled.then(() => {
      isFilled = true;
      // Others may have ended all of it already.
      if (ledger.live === 0) kill();
    }, kill);
    // In some lives, members end while others are still put.
    if (random.chance(0.7)) await Promise.race([filled, isTime]);
    if (random.chance(0.5)) void live((client) => ledger.moveOn(client));
    for (let worker = 0; worker < WORKERS; worker++)
      void live((client) => ledger.work(client, worker === 0 ? LARGE_TUBES : SMALL_TUBES, () => false));
    await isTime;
    // In half of the lives, the server comes a little further.
    if (random.chance(0.5)) await sleep(random.below(4));
    await server.kill();
    await Promise.all(lives);
    if (kills % SAID_EVERY === SAID_EVERY - 1) say(kills + 1);
  }

  const server = await start();
  await ledger.finish(() => WireClient.connect(server.address));
  say(KILLS);
});
