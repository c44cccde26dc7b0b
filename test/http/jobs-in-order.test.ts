// Test that the list of all jobs is by id and has each job once, whatever their shards, also if
// jobs move to other tubes between two pages.

import assert from "node:assert/strict";
import { it } from "node:test";
import { startHttpServer } from "../support/server/http-server.ts";

const JOBS = 400;

interface Page {
  readonly items: readonly { readonly id: number }[];
  readonly cursor: string | null;
}

it("GET /v1/jobs lists jobs by id, each once, while they change their tubes", async (t) => {
  const server = await startHttpServer("--shards", "4");
  t.after(() => server.process.stop());
  for (let job = 0; job < JOBS; job++)
    await server.ask(`/v1/tubes/t${job % 8}/jobs`, { json: { body: "x" } });
  const ids: number[] = [];
  for (let cursor: string | null = "", page = 0; cursor !== null; page++) {
    const path: string = `/v1/jobs?limit=37${cursor === "" ? "" : `&cursor=${cursor}`}`;
    const { items, cursor: next } = (await server.ask(path)).json as Page;
    ids.push(...items.map(({ id }) => id));
    cursor = next;
    // A listed job and one that is still to come go to another shard each.
    for (const id of [1 + page, JOBS - page]) {
      const json = { to: `t${(id + 3) % 8}` };
      assert.equal((await server.ask(`/v1/jobs/${id}/move`, { json })).status, 200);
    }
  }
  assert.deepEqual(
    ids,
    Array.from({ length: JOBS }, (_, at) => at + 1),
  );
});
