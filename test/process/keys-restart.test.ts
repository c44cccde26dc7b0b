// Tests of unique keys across restarts: each key keeps its holder, whatever happened to its jobs,
// however the server ended, with any number of shards, and after a compaction.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { overRestarts } from "./restarts.ts";

type Ask = (line: string, expected?: RegExp) => Promise<string>;

/** Changes of the key `k` of a tube; jobs are named by their ids. */
type Story = (ask: Ask, put: (...options: string[]) => Promise<string>, tube: string) => Promise<void>;

const die = async (ask: Ask, id: string): Promise<void> => {
  await ask(`reserve-job ${id}`, /^RESERVED/);
  await ask(`release ${id} 0 0`, /^RELEASED/);
};

const STORIES: Readonly<Record<string, Story>> = {
  "a job holds its key": async (_, put) => {
    await put();
  },
  "a dead job is redriven when another has its key": async (ask, put, tube) => {
    await ask(`set-tube ${tube} max-attempts=1 dead-letter=${tube}-dead`, /^SET/);
    const first = await put();
    await die(ask, first);
    await put();
    await ask(`move-jobs ${tube}-dead *`, /^MOVED 1/);
  },
  "a dead job is kicked when another has its key": async (ask, put, tube) => {
    await ask(`set-tube ${tube} max-attempts=1`, /^SET/);
    const first = await put();
    await die(ask, first);
    await put();
    await ask(`kick-job ${first}`, /^KICKED/);
  },
  "a dead job is kicked and has its key again, without its time": async (ask, put, tube) => {
    await ask(`set-tube ${tube} max-attempts=1`, /^SET/);
    const first = await put("unique-for=5000");
    await die(ask, first);
    await ask(`kick-job ${first}`, /^KICKED/);
  },
  "a dead job has no key": async (ask, put, tube) => {
    await ask(`set-tube ${tube} max-attempts=1`, /^SET/);
    await die(ask, await put("unique-for=5000"));
  },
  "a job that was given out has ended its key": async (ask, put) => {
    await ask(`reserve-job ${await put("unique-until=reserve")}`, /^RESERVED/);
  },
  "a job that is held has left its key to another": async (ask, put) => {
    await ask(`reserve-job ${await put("unique-until=reserve")}`, /^RESERVED/);
    await put("unique-until=reserve");
  },
  "a job that came back has left its key to another": async (ask, put) => {
    const first = await put("unique-until=reserve");
    await ask(`reserve-job ${first}`, /^RESERVED/);
    await put("unique-until=reserve");
    await ask(`release ${first} 0 0`, /^RELEASED/);
  },
  "a job that was buried and kicked has left its key to another": async (ask, put) => {
    const first = await put("unique-until=reserve");
    await ask(`reserve-job ${first}`, /^RESERVED/);
    await ask(`bury ${first} 0`, /^BURIED/);
    await put("unique-until=reserve");
    await ask(`kick-job ${first}`, /^KICKED/);
  },
  "a key is remembered while its job is held": async (ask, put) => {
    await ask(`reserve-job ${await put("unique-until=reserve unique-for=5000")}`, /^RESERVED/);
  },
  "a key is remembered behind its job": async (ask, put) => {
    await ask(`delete ${await put("unique-for=5000")}`, /^DELETED/);
  },
  "a job with a key comes to a tube where it is taken": async (ask, put, tube) => {
    await ask(`put-in-tube ${tube}-far 0 0 60 1 unique=k\r\nx`, /^INSERTED/);
    await put();
    await ask(`move-jobs ${tube}-far ${tube}`, /^MOVED 1/);
  },
  "a job goes away and comes back to its key": async (ask, put, tube) => {
    await put("unique-for=5000");
    await ask(`move-jobs ${tube} ${tube}-far`, /^MOVED 1/);
    await ask(`move-jobs ${tube}-far ${tube}`, /^MOVED 1/);
  },
  "a job goes away and leaves its key to another": async (ask, put, tube) => {
    const first = await put();
    await ask(`update-job ${first} tube=${tube}-far`, /^UPDATED/);
    await put();
    await ask(`update-job ${first} tube=${tube}`, /^UPDATED/);
  },
};

const TUBES = Object.keys(STORIES).map((name, index) => ({ name, tube: `tube${index}` }));

function asker(client: WireClient): Ask {
  return async (line, expected) => {
    const reply = await client.ask(line);
    if (expected !== undefined) assert.match(reply.line, expected, line);
    return reply.line;
  };
}

/**
 * Returns the reply to a put with the key in each tube: DUPLICATE with the holder, or "free". It
 * changes nothing.
 */
async function holders(server: ServerProcess): Promise<Record<string, string>> {
  const client = await WireClient.connect(server.address);
  const ask = asker(client);
  const found: Record<string, string> = {};
  for (const { name, tube } of TUBES)
    for (const where of [tube, `${tube}-far`]) {
      const reply = await ask(`put-in-tube ${where} 1 0 60 1 unique=k\r\nx`, /^(INSERTED|DUPLICATE)/);
      const [, id] = reply.split(" ");
      if (reply.startsWith("INSERTED")) await ask(`delete ${id}`, /^DELETED/);
      found[`${name}, ${where}`] = reply.startsWith("INSERTED") ? "free" : reply;
    }
  client.close();
  return found;
}

/** Ends all jobs that hold a key, so that what is remembered behind them shows. */
async function deleteHolders(server: ServerProcess, found: Record<string, string>): Promise<void> {
  const client = await WireClient.connect(server.address);
  const ask = asker(client);
  for (const reply of Object.values(found))
    if (reply !== "free") await ask(`delete ${reply.split(" ")[1]}`, /^(DELETED|NOT_FOUND)/);
  client.close();
}

it("each key has the same holder after a restart", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const folder = temporaryFolder(t);
  const start = (shards: number): Promise<ServerProcess> =>
    startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", String(shards)] });
  let server = await start(4);
  let before: Record<string, string>;
  try {
    const client = await WireClient.connect(server.address);
    const ask = asker(client);
    for (const { name, tube } of TUBES)
      await STORIES[name]!(
        ask,
        async (...options) => {
          const reply = await ask(
            `put-in-tube ${tube} 0 0 60 1 ${["unique=k", ...options].join(" ")}\r\nx`,
            /^INSERTED/,
          );
          return reply.split(" ")[1]!;
        },
        tube,
      );
    // Jobs are still held when the server is killed.
    before = await holders(server);
    assert.ok(Object.values(before).filter((reply) => reply === "free").length > 2);
  } finally {
    await server.kill();
  }
  await overRestarts(folder, start, async (server, shards) => {
    assert.deepEqual(await holders(server), before, `${shards} shards`);
    if (shards !== 3) return;
    // Nobody's key passes to a job that was put with it and has lost it, and what is remembered
    // stays so.
    await deleteHolders(server, before);
    before = await holders(server);
  });
  server = await start(2);
  try {
    assert.deepEqual(await holders(server), before, "after the deletes");
    assert.ok(Object.values(before).some((reply) => reply !== "free"));
  } finally {
    await server.stop();
  }
});
