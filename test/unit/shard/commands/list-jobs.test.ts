// Tests of a list whose search exceeds the work of one list: it continues after the body that it
// has reached, however large.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { ALL_STATES } from "../../../../src/engine/job-walk.ts";
import { JobListing, jobRow } from "../../../../src/shard/commands/list-jobs.ts";
import type { ReplyWriter } from "../../../../src/shard/sessions/replies.ts";
import type { ShardSession } from "../../../../src/shard/sessions/shard-session.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const SEARCH_BYTES_MAX = 3000;

/** The reply of one list, which takes as many turns as it takes. */
function listed(engine: Engine, session: ShardSession, afterId: number): string {
  let text = "";
  const replies = { text: (_: ShardSession, reply: string) => (text = reply) } as unknown as ReplyWriter;
  const contains = Buffer.from("needle");
  const walk = engine.walk({ states: ALL_STATES, createdByMs: Infinity, contains }, afterId);
  const list = { tube: "default", partBytesMax: undefined, walk, limit: 10, showBytes: 0 };
  const listing = new JobListing(engine, replies, session, list, SEARCH_BYTES_MAX);
  for (let turn = 0; !listing.step(1, 0); turn++) assert.ok(turn < 1000, "a list ends");
  listing.finish();
  return text;
}

it("a list ends at its search budget, but passes at least one body", () => {
  const server = new InProcessServer({ shards: 1, acceptors: 1, random: new SeededRandom(1) });
  const client = server.connect();
  for (const body of ["needle", "x".repeat(2000), "x".repeat(20_000), `${"x".repeat(9000)}needle`, "needle"])
    client.write(Buffer.from(`put 0 0 60 ${body.length}\r\n${body}\r\n`));
  server.settle();
  const { engine } = server.shards[0]!;
  const session = { ended: false } as ShardSession;
  const lists: { ids: number[]; next: number }[] = [];
  for (let after = 0, calls = 0; calls === 0 || after !== 0; calls++) {
    assert.ok(calls < 10, "the walk ends");
    const reply = listed(engine, session, after);
    const ids = [...reply.matchAll(/"id":(\d+)/g)].map(([, id]) => Number(id));
    after = Number(/^next: (\d+)$/m.exec(reply)?.[1]);
    lists.push({ ids, next: after });
  }
  assert.deepEqual(lists, [
    { ids: [1], next: 2 },
    { ids: [], next: 3 },
    { ids: [4], next: 4 },
    { ids: [5], next: 0 },
  ]);
});

// Tests of bodies in a list: every byte survives the JSON, and the line is plain ASCII.

it("jobRow is ASCII JSON whose body has one character per byte", () => {
  const server = new InProcessServer({ shards: 1, acceptors: 1, random: new SeededRandom(1) });
  const client = server.connect();
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  client.write(Buffer.concat([Buffer.from("put 0 0 60 256\r\n"), all, Buffer.from("\r\n")]));
  server.settle();
  const { engine } = server.shards[0]!;
  for (const shown of [1, 32, 200, 256, 4096]) {
    const row = jobRow(engine, engine.find(1), 0, shown);
    assert.match(row, /^[\x20-\x7e]*$/);
    assert.deepEqual(Buffer.from(JSON.parse(row).body, "latin1"), all.subarray(0, shown));
  }
  assert.ok(!("body" in JSON.parse(jobRow(engine, engine.find(1), 0, 0))));
});
