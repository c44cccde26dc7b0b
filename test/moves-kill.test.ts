// kill -9 while jobs move between tubes of several shards: each is there once afterwards, whatever was under way.
//
//   MOVE_KILLS=50 npm test -- moves-kill

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canRun, NEEDS } from "./support/need.ts";
import { printSeed, seed } from "./support/seeded-property.ts";
import { SeededRandom } from "./support/seeded-random.ts";
import { type ServerProcess, startServer } from "./support/server-process.ts";
import { temporaryFolder } from "./support/temporary-folder.ts";
import { WireClient } from "./support/wire-client.ts";

const ROUNDS = Number(process.env["MOVE_KILLS"] ?? 2);
const JOBS = 300;
/** With four shards, with seven and with three they are on more than one. */
const TUBES = ["mails", "done", "c"] as const;
const SHARDS: readonly [number, ...number[]] = [4, 7, 3];

/** Moves jobs around until the server is gone; `onMoved` is told of each answer. */
async function moveOn(server: ServerProcess, random: SeededRandom, onMoved: () => void): Promise<void> {
  try {
    const client = await WireClient.connect(server.address);
    for (;;) {
      const from = random.pick(TUBES)!;
      const to = random.pick(TUBES.filter((tube) => tube !== from))!;
      const { line } = await client.ask(`move-jobs ${from} ${to} limit=${random.between(1, JOBS)}`);
      assert.match(line, /^MOVED \d+$/);
      onMoved();
    }
  } catch (error) {
    // The connection ends with the server.
    if (error instanceof assert.AssertionError) throw error;
  }
}

async function checkAll(server: ServerProcess): Promise<void> {
  const client = await WireClient.connect(server.address);
  let ready = 0;
  for (const tube of TUBES) {
    const { body } = await client.ask(`stats-tube ${tube}`);
    ready += Number(/current-jobs-ready: (\d+)/.exec(body?.toString() ?? "")?.[1] ?? 0);
  }
  assert.equal(ready, JOBS, "no job is lost, and none is there twice");
  for (let id = 1; id <= JOBS; id++) {
    const { line, body } = await client.ask(`peek ${id}`);
    assert.deepEqual([line.split(" ")[0], body?.toString()], ["FOUND", bodyOf(id)]);
  }
  client.close();
}

/** Some go in pieces. */
const bodyOf = (id: number): string => `body of ${id} `.padEnd(id % 50 === 0 ? 60_000 : 0, "x");

describe("kill -9 while jobs move between shards", () => {
  it(`leaves each job in one tube, ${ROUNDS} times`, async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    printSeed(t);
    const random = new SeededRandom(seed);
    const folder = temporaryFolder(t);
    for (let round = 0; round <= ROUNDS; round++) {
      const flags = ["-b", folder, "-f", `${random.pick([0, 50])}`, "--shards", `${random.pick(SHARDS)}`];
      const server = await startServer({ kind: "ours", flags });
      try {
        if (round === 0) {
          const client = await WireClient.connect(server.address);
          for (let id = 1; id <= JOBS; id++) {
            const body = bodyOf(id);
            await client.ask(`put-in-tube ${random.pick(TUBES)} 0 0 60 ${body.length}\r\n${body}`);
          }
          client.close();
        } else await checkAll(server);
        if (round === ROUNDS) continue;
        let left = random.between(1, 12);
        await new Promise<void>((resolve) => {
          const onMoved = (): void => {
            if (--left === 0) resolve();
          };
          for (let mover = 0; mover < 3; mover++) void moveOn(server, random, onMoved);
        });
      } finally {
        await server.kill();
      }
    }
  });
});
