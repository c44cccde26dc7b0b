// Tests of `list-jobs *` over several shards, some of which pause before others: over all pages, a
// job that stays appears exactly once.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { mergedList } from "../../../../src/acceptor/fanout/gathered-list.ts";
import { ListedJobsReader, packListedJobs } from "../../../../src/message/response.ts";
import type { FakeSocket } from "../../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const SHARDS = 3;
const TUBES = ["a", "b", "c", "d", "e"];

interface Page {
  readonly ids: readonly number[];
  readonly next: number;
}

function pageOf(text: string): Page {
  const ids = [...text.matchAll(/^- \{"id":(\d+),/gm)].map(([, id]) => Number(id));
  return { ids, next: Number(/^next: (\d+)$/m.exec(text)![1]) };
}

const list = (next: number, ids: readonly number[], lineBytes = 20): ListedJobsReader =>
  new ListedJobsReader(
    packListedJobs(
      next,
      ids.map((id) => ({ id, line: `${`- {"id":${id},`.padEnd(lineBytes, "x")}\n` })),
    ),
  );
const merged = (limit: number, ...lists: ListedJobsReader[]): Page => pageOf(mergedList(lists, limit));

describe("merged lists of shards", () => {
  it("end where all shards have ended", () => {
    assert.deepEqual(merged(100, list(0, [2, 5]), list(0, []), list(0, [1, 9])), {
      ids: [1, 2, 5, 9],
      next: 0,
    });
    assert.equal(mergedList([list(0, []), list(0, [])], 100), "---\nnext: 0\njobs: []\n");
  });

  it("end where the first shard pauses", () => {
    assert.deepEqual(merged(100, list(6, [2, 6]), list(0, [3, 9]), list(7, [7])), {
      ids: [2, 3, 6],
      next: 6,
    });
    assert.deepEqual(merged(100, list(6, []), list(0, [8])), { ids: [], next: 6 });
  });

  it("end at the limit", () => {
    assert.deepEqual(merged(2, list(0, [1, 3]), list(0, [2])), { ids: [1, 2], next: 2 });
    assert.deepEqual(merged(3, list(0, [1, 3]), list(0, [2])), { ids: [1, 2, 3], next: 0 });
    assert.deepEqual(merged(1, list(4, [4]), list(5, [5])), { ids: [4], next: 4 });
  });

  it("have 48 KiB, or one longer job", () => {
    const half = 24 * 1024;
    assert.deepEqual(merged(9, list(0, [1], half), list(0, [2, 3], half)), { ids: [1], next: 1 });
    assert.deepEqual(merged(9, list(0, [1], half - 1), list(0, [2, 3], half - 1)), { ids: [1, 2], next: 2 });
    assert.deepEqual(merged(9, list(0, [1], 4 * half), list(0, [2])), { ids: [1], next: 1 });
  });

  it("contain a job once that moved between shards meanwhile", () => {
    assert.deepEqual(merged(9, list(0, [1, 4]), list(0, [4, 5])), { ids: [1, 4, 5], next: 0 });
    assert.deepEqual(merged(2, list(0, [1, 4]), list(0, [4])), { ids: [1, 4], next: 0 });
  });
});

/** A server, and a client that asks. */
class Scene {
  readonly server: InProcessServer;
  readonly random: SeededRandom;
  readonly jobs = new Set<number>();
  readonly #client: FakeSocket;

  constructor(random: SeededRandom) {
    this.random = random;
    this.server = new InProcessServer({ shards: SHARDS, acceptors: 2, random });
    this.#client = this.server.connect();
  }

  ask(lines: string): string {
    this.#client.write(Buffer.from(lines, "latin1"));
    this.server.settle();
    return this.#client.takeReceived().toString("latin1");
  }

  put(tube = this.random.pick(TUBES)!, bytes = this.random.pick([0, 1, 3000, 5000])): void {
    const reply = this.ask(`put-in-tube ${tube} 0 0 60 ${bytes}\r\n${"x".repeat(bytes)}\r\n`);
    this.jobs.add(Number(/^INSERTED (\d+)\r\n$/.exec(reply)![1]));
  }

  delete(): void {
    const id = this.random.pick([...this.jobs])!;
    assert.equal(this.ask(`delete ${id}\r\n`), "DELETED\r\n");
    this.jobs.delete(id);
  }
}

/**
 * Walks over all jobs, page by page of one of these limits, while others come and go; checks that
 * what stays comes once. Returns how many pages there were.
 */
function checkWalk(random: SeededRandom, limits: readonly number[]): number {
  const scene = new Scene(random);
  for (let jobs = 60; jobs > 0; jobs--) scene.put();
  // One shard has most of them, so that another has ended long before.
  for (let jobs = 60; jobs > 0; jobs--) scene.put("a", 10);
  let stayed = new Set(scene.jobs);
  const listed: number[] = [];
  let pages = 0;
  for (let next = -1; next !== 0; pages++) {
    assert.ok(pages < 200, "the walk ends");
    const limit = random.pick(limits)!;
    const page = pageOf(scene.ask(`list-jobs * after=${Math.max(0, next)} limit=${limit} show=4096\r\n`));
    assert.ok(page.ids.length <= limit);
    assert.ok(page.ids.every((id) => scene.jobs.has(id)));
    listed.push(...page.ids);
    next = page.next;
    if (random.chance(0.5)) scene.put();
    if (random.chance(0.5)) scene.delete();
    stayed = stayed.intersection(scene.jobs);
  }
  const once = [...new Set(listed)].sort((a, b) => a - b);
  assert.deepEqual(listed, once, "each once, by id");
  assert.deepEqual([...stayed.difference(new Set(listed))], [], "what stayed is listed");
  return pages;
}

describe("list-jobs * over several shards", () => {
  it("lists each remaining job once, by id, while others come and go", (t) => {
    printSeed(t);
    // There are 120 jobs at first.
    for (const [run, limits] of [[1, 7], [7, 20], [30]].entries())
      assert.ok(checkWalk(new SeededRandom(seed + run), limits) > 3);
    for (let run = 3; run < 6; run++) checkWalk(new SeededRandom(seed + run), [1, 7, 100, 1000]);
  });

  it("makes shards list at most twice the size of a list", (t) => {
    const scene = new Scene(new SeededRandom(1));
    for (let jobs = 300; jobs > 0; jobs--) scene.put(undefined, 500);
    let bytes = 0;
    for (const { replies } of scene.server.shards) {
      const gathered = replies.gatheredBytes.bind(replies);
      t.mock.method(replies, "gatheredBytes", (...args: Parameters<typeof gathered>) => {
        bytes += args[1].length;
        gathered(...args);
      });
    }
    const { ids, next } = pageOf(scene.ask("list-jobs * limit=1000 show=500\r\n"));
    assert.ok(ids.length > 20 && next === ids.at(-1), `${ids.length} jobs, on with ${next}`);
    assert.ok(bytes > 48 * 1024 && bytes <= 2 * 49 * 1024, `${bytes} bytes of ${SHARDS} shards`);
  });

  it("continues with the other lists when a client leaves during its list", () => {
    const scene = new Scene(new SeededRandom(1));
    for (let jobs = 40; jobs > 0; jobs--) scene.put(undefined, 5000);
    const clients = Array.from({ length: 12 }, () => scene.server.connect());
    for (const client of clients) client.write(Buffer.from("list-jobs * show=4096\r\nlist-tube-used\r\n"));
    // Some go at once, some when the first reply has come.
    for (const client of clients.slice(0, 4)) client.reset();
    while (!clients.some((client) => client.hasReceived)) assert.ok(scene.server.step());
    for (const client of clients.slice(4, 8)) client.reset();
    scene.server.settle();
    for (const client of clients.slice(8))
      assert.match(
        client.takeReceived().toString(),
        /^OK \d+\r\n---\nnext: \d+\njobs:\n- .*\r\nUSING default\r\n$/s,
      );
    assert.match(scene.ask("stats\r\n"), /current-connections: 5\n/);
  });
});
