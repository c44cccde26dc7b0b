// Tests with kill -9 while the members of a batch are done on several shards: the callback comes
// when the last of them has ended, once, with the right outcome.
//
// BATCH_KILLS=50 npm test -- batches-kill

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { printSeed, seed } from "../support/seeded-property.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { inWhole } from "../support/whole.ts";

const ROUNDS = Number(process.env["BATCH_KILLS"] ?? inWhole(3, 2));
const MEMBERS = Number(process.env["BATCH_MEMBERS"] ?? 120);
/** With four shards, with seven and with three they are on more than one. */
const TUBES = ["mails", "done", "c", "d"] as const;
const SHARDS: readonly [number, ...number[]] = [4, 7, 3];

interface Expected {
  readonly name: string;
  /** Members that are deleted while nobody holds them, by id. */
  readonly failing: number[];
  /** The ids of the jobs that wait: for success, and for any outcome. */
  after: number;
  afterAny: number;
}

async function put(client: WireClient, tube: string, options: string): Promise<number> {
  const { line } = await client.ask(`put-in-tube ${tube} 0 0 60 1 ${options}\r\nx`);
  const id = /^INSERTED (\d+)$/.exec(line)?.[1];
  assert.ok(id !== undefined, `${options}: ${line}`);
  return Number(id);
}

/** Puts a batch whole, and commits it. */
async function putBatch(client: WireClient, round: number, random: SeededRandom): Promise<Expected> {
  const name = `batch-${round}`;
  assert.equal((await client.ask(`open-batch ${name}`)).line, "OPENED");
  const failing: number[] = [];
  const after = await put(client, "calls", `after=${name}`);
  const afterAny = await put(client, "calls", `after-any=${name}`);
  const fails = random.chance(0.5);
  for (let n = 0; n < MEMBERS; n++) {
    const isFailing = fails && n % 40 === 0;
    const id = await put(client, isFailing ? "failing" : random.pick(TUBES), `batch=${name}`);
    if (isFailing) failing.push(id);
  }
  assert.equal((await client.ask(`commit-batch ${name}`)).line, "COMMITTED");
  return { name, failing, after, afterAny };
}

/** Does members until the server is gone, or until none is ready. */
async function workOn(server: ServerProcess, onDone: () => void): Promise<void> {
  try {
    const client = await WireClient.connect(server.address);
    for (const tube of TUBES) await client.ask(`watch ${tube}`);
    for (;;) {
      const { line } = await client.ask("reserve-with-timeout 0");
      const id = /^RESERVED (\d+)/.exec(line)?.[1];
      if (id === undefined) break;
      assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
      onDone();
    }
    client.close();
  } catch (error) {
    // The connection ends with the server.
    if (error instanceof assert.AssertionError) throw error;
  }
  onDone();
}

/** Moves members between shards until the server is gone. */
async function moveOn(server: ServerProcess, random: SeededRandom): Promise<void> {
  try {
    const client = await WireClient.connect(server.address);
    for (;;) await client.ask(`move-jobs ${random.pick(TUBES)} ${random.pick(TUBES)} limit=20`);
  } catch {
    // The connection ends with the server.
  }
}

const fact = (text: Buffer | undefined, of: string): string =>
  new RegExp(`^${of}: (.*)$`, "m").exec(text?.toString() ?? "")?.[1] ?? "";

/** Does what is left of a batch, and checks that its callbacks come, or don't. */
async function checkEnd(server: ServerProcess, { name, failing, after, afterAny }: Expected): Promise<void> {
  const client = await WireClient.connect(server.address);
  // Before the last member has ended, no callback is there.
  const { body } = await client.ask(`inspect-batch ${name}`);
  if (Number(fact(body, "open")) > 0)
    for (const id of [after, afterAny])
      assert.equal(fact((await client.ask(`stats-job ${id}`)).body, "state"), "delayed");
  for (const id of failing) await client.ask(`delete ${id}`);
  await workOn(server, () => {});
  let state = "";
  while (state !== "complete" || fact(await inspect(client, name), "waiting") !== "0")
    state = fact(await inspect(client, name), "state");
  const text = await inspect(client, name);
  assert.equal(fact(text, "outcome"), failing.length > 0 ? "failure" : "success");
  assert.equal(fact(text, "failed"), `${failing.length}`);
  assert.equal(fact(text, "done"), `${MEMBERS - failing.length}`);
  const isLost = failing.length > 0;
  assert.equal(fact((await client.ask(`stats-job ${after}`)).body, "state"), isLost ? "buried" : "ready");
  assert.equal(fact((await client.ask(`stats-job ${afterAny}`)).body, "state"), "ready");
  for (const id of [after, afterAny]) assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
  client.close();
}

async function inspect(client: WireClient, name: string): Promise<Buffer | undefined> {
  return (await client.ask(`inspect-batch ${name}`)).body;
}

describe("kill -9 while members of a batch end", () => {
  it(`leaves each batch with its outcome, ${ROUNDS} times`, async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    printSeed(t);
    const random = new SeededRandom(seed);
    const folder = temporaryFolder(t);
    let expected: Expected | undefined;
    for (let round = 0; round <= ROUNDS; round++) {
      const flags = ["-b", folder, "-f", `${random.pick([0, 50])}`, "--shards", `${random.pick(SHARDS)}`];
      const server = await startServer({ kind: "ours", flags });
      try {
        if (expected !== undefined) await checkEnd(server, expected);
        if (round === ROUNDS) continue;
        const client = await WireClient.connect(server.address);
        expected = await putBatch(client, round, random);
        client.close();
        let left = random.between(1, MEMBERS + 3);
        const underWay: Promise<void>[] = [];
        await new Promise<void>((resolve) => {
          const onDone = (): void => {
            if (--left <= 0) resolve();
          };
          underWay.push(moveOn(server, random));
          for (let worker = 0; worker < 3; worker++)
            underWay.push(workOn(server, onDone).finally(() => (left = Math.min(left, 3))));
          void Promise.all(underWay.slice(1)).then(() => resolve());
        });
      } finally {
        await server.kill();
      }
    }
  });
});
