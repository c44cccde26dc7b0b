// Tests of `runnerbean history` and of `finished` of the Node client: jobs that have ended.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { connect, type FinishedJob, type Queue } from "../../src/client/client.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { runTool, type ToolResult } from "../support/server/tool.ts";

describe("the history of a tube", () => {
  let server: ServerProcess;
  let queue: Queue<Uint8Array, Uint8Array | string>;
  before(async () => {
    server = await startServer({ kind: "ours", flags: ["--shards", "3"] });
    queue = await connect(`127.0.0.1:${server.port}`, { name: "web-1" });
    await queue.tube("*").set({ keepFinished: 3000 });
  });
  after(async () => {
    await queue.close();
    await server.stop();
  });

  const history = (...args: string[]): Promise<ToolResult> =>
    runTool(["history", ...args], { env: { RUNNERBEAN_URL: `beanstalk://127.0.0.1:${server.port}` } });
  const cells = (line: string): string => [0, 1, 2, 8, 9].map((column) => line.split("\t")[column]).join("|");
  const finished = async (tube: string): Promise<FinishedJob[]> =>
    await Array.fromAsync(queue.tube(tube).finished());

  it("is a table, the last end first, with texts decoded", async () => {
    assert.equal((await history("empty")).code, 1);
    const { id } = await queue.put("a", "x", { unique: "é" });
    await (await queue.reserveJob(id)).delete();
    const other = await queue.put("b", "x");
    await queue.job(other.id).cancel({ reason: "nicht nötig" });
    const { code, stdout } = await history("a", "--json");
    assert.equal(code, 0);
    const { put, start, end, ...job } = JSON.parse(Buffer.from(stdout, "latin1").toString());
    assert.ok(put >= start && start >= end && end >= 0, stdout);
    assert.deepEqual(job, {
      ...{ id, state: "deleted", attempts: 1, worker: "web-1", unique: "é", group: null, note: null },
      ...{ reason: null, tube: "a" },
    });
    // Tubes that are gone have to be named. Lists are read one by one: their order may differ.
    await queue.put("a", "x");
    await queue.put("b", "x");
    const all = Buffer.from((await history()).stdout, "latin1")
      .toString()
      .trimEnd()
      .split("\n");
    assert.deepEqual(all.map(cells).toSorted(), [
      `${id}|a|deleted|é|-`,
      `${other.id}|b|cancelled|-|nicht nötig`,
      "id|tube|state|unique|reason",
    ]);
  });

  it("has all pages in the client, and a limit on the command line", async () => {
    const ids: number[] = [];
    for (let n = 0; n < 1200; n++) ids.push((await queue.put("many", "x")).id);
    await queue.deleteMany(ids);
    const found = await finished("many");
    assert.deepEqual(
      found.map(({ id }) => id),
      ids.toReversed(),
    );
    const { stdout } = await history("many", "--limit", "1100");
    assert.equal(stdout.trimEnd().split("\n").length, 1101);
  });
});
