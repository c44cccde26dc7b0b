// Tests with kill -9 during puts over HTTP with -f 0: after the restart, every job answered with
// 2xx exists, and every acknowledged delete by a lease holds.
//
// HTTP_KILLS=50 npm test -- http-kill

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type HttpServer, startHttpServer } from "../support/server/http-server.ts";

const { HTTP_KILLS = "1" } = process.env;
const PRODUCERS = 6;
const JOBS_BEFORE_KILL = 300;

class Ledger {
  readonly there = new Set<number>();
  readonly gone = new Set<number>();
  /** A request about them was not answered: they may be there or not. */
  readonly unknown = new Set<number>();
}

/** Puts, one by one and in batches, until the server is gone. */
async function produce(server: HttpServer, ledger: Ledger): Promise<void> {
  for (let n = 0; ; n++) {
    const jobs = Array.from({ length: n % 3 === 0 ? 20 : 1 }, () => ({ body: "x".repeat(100) }));
    const json = jobs.length === 1 ? jobs[0] : { jobs };
    const answer = await server.ask("/v1/tubes/kill/jobs", { json });
    const ids =
      answer.status === 201 ? [answer.json.id] : answer.json.results.map(({ id }: { id: number }) => id);
    for (const id of ids) ledger.there.add(id);
  }
}

/** Takes jobs and deletes them, until the server is gone. */
async function consume(server: HttpServer, ledger: Ledger): Promise<void> {
  for (;;) {
    const { jobs } = (await server.ask("/v1/reserve", { json: { tubes: ["kill"], max: 5, wait: 1 } })).json;
    for (const { id } of jobs) ledger.unknown.add(id);
    const leases = jobs.map(({ lease }: { lease: string }) => lease);
    const { results } = (await server.ask("/v1/leases", { json: { delete: leases } })).json;
    for (const [index, { ok }] of results.entries()) {
      if (!ok) continue;
      ledger.gone.add(jobs[index].id);
    }
  }
}

it("acknowledged changes over HTTP survive kill -9 with -f 0", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "http-kill-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const ledger = new Ledger();
  let server = await startHttpServer("--shards", "2", "--acceptors", "1", "-b", folder, "-f", "0");
  for (let round = 0; round < Number(HTTP_KILLS); round++) {
    const before = ledger.there.size;
    const work = [
      ...Array.from({ length: PRODUCERS }, () => produce(server, ledger)),
      consume(server, ledger),
    ].map((each) => each.catch(() => {}));
    await eventually("enough has been put", () => ledger.there.size - before > JOBS_BEFORE_KILL);
    await server.process.kill();
    await Promise.all(work);
    server = await startHttpServer("--shards", "2", "--acceptors", "1", "-b", folder, "-f", "0");
    const found = new Set<number>();
    for (let cursor: string | null = ""; cursor !== null; ) {
      const { json } = await server.ask(
        `/v1/tubes/kill/jobs?limit=1000&bodyMax=0${cursor === "" ? "" : `&cursor=${cursor}`}`,
      );
      for (const { id } of json.items) found.add(id);
      cursor = json.cursor;
    }
    const lost = [...ledger.there].filter((id) => !found.has(id) && !ledger.unknown.has(id));
    assert.deepEqual(lost, [], `round ${round}: jobs that were answered are lost`);
    assert.deepEqual(
      [...ledger.gone].filter((id) => found.has(id)),
      [],
      `round ${round}: jobs that were deleted are back`,
    );
    assert.ok(ledger.gone.size > 0, "some jobs were done");
  }
  await server.process.stop();
});
