// Tests with kill -9 while jobs move between tubes of several shards, are passed on and die:
// afterwards each exists exactly once, at its source or its target.
//
// MOVE_KILLS=50 npm test -- moves-kill

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

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

/** Takes jobs, which die, or hands them on to another tube, until the server is gone. */
async function workOn(server: ServerProcess, random: SeededRandom, onDone: () => void): Promise<void> {
  try {
    const client = await WireClient.connect(server.address);
    for (const tube of TUBES) await client.ask(`watch ${tube}`);
    for (;;) {
      const { line } = await client.ask("reserve");
      const id = /^RESERVED (\d+)/.exec(line)?.[1];
      if (random.chance(0.5)) assert.equal((await client.ask(`release ${id} 0 0`)).line, "RELEASED");
      else await handOn(client, Number(id), random);
      onDone();
    }
  } catch (error) {
    // The connection ends with the server.
    if (error instanceof assert.AssertionError) throw error;
  }
}

async function handOn(client: WireClient, id: number, random: SeededRandom): Promise<void> {
  // A job that dies again in the dead-letter tube stays buried there: only move-jobs brings it
  // back.
  const { body } = await client.ask(`inspect-job ${id}`);
  const tubes = TUBES.filter((tube) => tube !== "mails" || body?.includes("\norigin: none\n"));
  const { line } = await client.ask(`update-job ${id} tube=${random.pick(tubes)} pri=1`);
  assert.equal(line, "UPDATED");
}

/**
 * The end of a connection is the death of the jobs that it holds: they are on their way when the
 * server is killed.
 */
async function letManyDie(server: ServerProcess): Promise<void> {
  const client = await WireClient.connect(server.address);
  await client.ask("watch mails");
  for (let held = 0; held < 50; held++) await client.ask("reserve-with-timeout 0");
  client.close();
  const other = await WireClient.connect(server.address);
  await other.ask("stats-tube mails");
  other.close();
}

async function countReady(client: WireClient): Promise<number> {
  let ready = 0;
  for (const tube of TUBES) {
    const { body } = await client.ask(`stats-tube ${tube}`);
    ready += Number(/current-jobs-ready: (\d+)/.exec(body?.toString() ?? "")?.[1] ?? 0);
  }
  return ready;
}

/** Describes the jobs that are not ready. */
async function notReady(client: WireClient): Promise<string> {
  const odd: string[] = [];
  for (let id = 1; id <= JOBS; id++) {
    const { line, body } = await client.ask(`inspect-job ${id}`);
    const facts = body?.toString() ?? "";
    if (!facts.includes("\nstate: ready\n")) odd.push(`${id}: ${line} ${facts.replaceAll("\n", " ")}`);
  }
  return odd.join("; ");
}

async function checkAll(server: ServerProcess): Promise<void> {
  const client = await WireClient.connect(server.address);
  let ready = await countReady(client);
  // Dead jobs continue to their dead-letter tube, and are ready there.
  for (let more = 2000; ready !== JOBS && more > 0; more--) ready = await countReady(client);
  assert.equal(ready, JOBS, `no job is lost or doubled: ${await notReady(client)}`);
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
          await client.ask("set-tube mails max-attempts=1 dead-letter=done");
          for (let id = 1; id <= JOBS; id++) {
            const body = bodyOf(id);
            await client.ask(`put-in-tube ${random.pick(TUBES)} 0 0 60 ${body.length}\r\n${body}`);
          }
          client.close();
        } else await checkAll(server);
        if (round === ROUNDS) continue;
        let left = random.between(1, 60);
        await new Promise<void>((resolve) => {
          const onMoved = (): void => {
            if (--left === 0) resolve();
          };
          for (let mover = 0; mover < 3; mover++) void moveOn(server, random, onMoved);
          for (let worker = 0; worker < 2; worker++) void workOn(server, random, onMoved);
        });
        if (random.chance(0.5)) await letManyDie(server);
      } finally {
        await server.kill();
      }
    }
  });
});
