// Tests of the memory limit for jobs of all shards: never exceeded, and puts are not refused much
// too early.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BYTES_OF } from "../../../../src/engine/engine.ts";
import { BodyArena, CELL_BYTES_MAX } from "../../../../src/engine/jobs/body-arena.ts";
import { createTopology, memoryWords } from "../../../../src/message/topology.ts";
import { MemoryWords } from "../../../../src/ring/shared-words.ts";
import { MemoryBudget } from "../../../../src/shard/sessions/memory-budget.ts";
import type { FakeSocket } from "../../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const MIB = 1 << 20;

/** A shard as far as its budget sees it. */
class Shard {
  readonly bodies = new BodyArena();
  readonly jobs = { live: 0 };
  readonly handles: number[] = [];
  readonly budget: MemoryBudget;

  constructor(words: ReturnType<typeof memoryWords>, shards: number) {
    this.budget = new MemoryBudget(this, words, shards);
    this.bodies.limit = this.budget;
  }

  get memoryBytes(): number {
    return this.bodies.usedBytes + this.jobs.live * BYTES_OF.job;
  }

  /** As a put. */
  put(bytes: number): boolean {
    const handle = this.bodies.allocate(bytes);
    this.bodies.write(handle, 0, new Uint8Array(bytes), 0, bytes);
    if (!this.bodies.limit.allows) {
      this.bodies.free(handle);
      return false;
    }
    this.jobs.live++;
    this.handles.push(handle);
    return true;
  }

  delete(): void {
    const handle = this.handles.pop();
    if (handle === undefined) return;
    this.bodies.free(handle);
    this.jobs.live--;
  }
}

function shardsWith(
  count: number,
  limitBytes: number,
): { words: ReturnType<typeof memoryWords>; shards: Shard[] } {
  const words = memoryWords(
    createTopology({ shards: count, acceptors: 1, jobBytesMax: MIB, ringBytes: 1 << 16 }),
  );
  words.limitBytes = limitBytes;
  return { words, shards: Array.from({ length: count }, () => new Shard(words, count)) };
}

const sum = (shards: readonly Shard[]): number => shards.reduce((total, each) => total + each.memoryBytes, 0);

/** Puts and deletes at random, ever more and ever less; returns how many puts were refused. */
function putAndDelete(shards: readonly Shard[], limitBytes: number): number {
  const random = new SeededRandom(7);
  // A put refused because other shards hold pages in advance: two lots of a page, and the body's
  // rounding.
  const early = 0.98 * limitBytes - shards.length * 3 * 4096;
  let refused = 0;
  for (let step = 0; step < 4000; step++) {
    const shard = random.pick(shards)!;
    const bytes = random.between(0, random.chance(0.05) ? 3 * CELL_BYTES_MAX : 2000);
    const before = sum(shards);
    if (!random.chance(step % 2000 < 1200 ? 0.9 : 0.1)) shard.delete();
    else if (!shard.put(bytes)) {
      refused++;
      const takes = bytes > CELL_BYTES_MAX ? MIB : bytes * 1.25 + 16 + BYTES_OF.job;
      assert.ok(before + takes > early, `step ${step}: ${bytes} refused at ${before}`);
    }
    assert.ok(sum(shards) <= limitBytes, `step ${step}: ${sum(shards)}`);
    shard.budget.settle();
  }
  return refused;
}

describe("MemoryBudget", () => {
  for (const [count, limitBytes] of [
    [1, MIB],
    [3, 2 * MIB],
    [4, 16 * MIB],
  ] as const) {
    it(`keeps ${count} shards within ${limitBytes / MIB} MiB together`, () => {
      const { words, shards } = shardsWith(count, limitBytes);
      const refused = putAndDelete(shards, limitBytes);
      assert.ok(refused > 0, "the limit is reached");
      for (const shard of shards) while (shard.handles.length > 0) shard.delete();
      for (const shard of shards) shard.budget.settle();
      assert.ok(!words.isFull);
      assert.ok(words.usedBytes <= count * 2 * 4096, "all bytes are returned except those held in advance");
      assert.ok(shards[0]!.put(1000));
    });
  }

  it("accepts puts again below 98 %, not at once", () => {
    const { words, shards } = shardsWith(1, MIB);
    const [shard] = shards as [Shard];
    while (shard.put(1000));
    shard.delete();
    shard.budget.settle();
    assert.ok(!shard.put(0), "one job less is not enough");
    while (sum(shards) > 0.96 * MIB) shard.delete();
    shard.budget.settle();
    assert.ok(!words.isFull);
    assert.ok(shard.put(1000));
  });

  it("gives back what a turn has needed only in between", () => {
    const { words, shards } = shardsWith(2, 16 * MIB);
    const [shard] = shards as [Shard];
    for (let turn = 0; turn < 3; turn++) {
      shard.budget.settle();
      for (let job = 0; job < 1000; job++) assert.ok(shard.put(4000));
      while (shard.handles.length > 0) shard.delete();
      shard.budget.settle();
      assert.ok(words.usedBytes <= 2 * 16 * 4096, `${words.usedBytes} bytes are held`);
    }
  });

  it("keeps existing jobs, and counts what the server writes by itself", () => {
    const { words, shards } = shardsWith(2, Number.POSITIVE_INFINITY);
    const [full, other] = shards as [Shard, Shard];
    for (let job = 0; job < 2000; job++) assert.ok(full.put(1000));
    full.budget.settle();
    assert.ok(words.usedBytes >= full.memoryBytes);
    words.limitBytes = MIB;
    assert.ok(words.isFull);
    assert.ok(!other.put(0));
    assert.equal(full.jobs.live, 2000);
    words.limitBytes = 8 * MIB;
    assert.ok(other.put(0));
    // As attributes, or a log that is loaded.
    const before = words.usedBytes;
    full.bodies.allocate(CELL_BYTES_MAX);
    full.budget.settle();
    assert.ok(words.usedBytes > before);
  });
});

it("caps a limit at what a word holds", () => {
  const words = new MemoryWords(new Int32Array(3), 0, 1, 2);
  words.limitBytes = 2 ** 50;
  assert.ok(words.claim(1000));
  assert.equal(words.limitBytes, (2 ** 31 - 1) * 4096);
});

// Tests of the replies when memory for bodies runs out, through a whole server with a small arena.

describe("shard memory", () => {
  const MIB = 1 << 20;

  function serverWith(arenaBytes: number): {
    server: InProcessServer;
    ask: (text: string) => string;
    client: FakeSocket;
  } {
    const server = new InProcessServer({
      shards: 1,
      acceptors: 1,
      random: new SeededRandom(1),
      jobBytesMax: 64 * MIB,
      arena: () => new BodyArena(arenaBytes),
    });
    const client = server.connect();
    const ask = (text: string): string => {
      client.write(Buffer.from(text, "latin1"));
      server.settle();
      return client.takeReceived().toString("latin1");
    };
    return { server, ask, client };
  }

  const put = (bytes: number): string => `put 0 0 60 ${bytes}\r\n${"x".repeat(bytes)}\r\n`;

  describe("a shard without memory for a body", () => {
    it("answers OUT_OF_MEMORY, uses up the id, and continues", () => {
      const { server, ask } = serverWith(MIB);
      assert.equal(ask(put(50_000)), "INSERTED 1\r\n");
      assert.equal(ask(put(5000)), "OUT_OF_MEMORY\r\n");
      assert.equal(ask(put(0)), "INSERTED 3\r\n");
      assert.equal(ask("peek 2\r\n"), "NOT_FOUND\r\n");
      assert.equal(ask("delete 1\r\n"), "DELETED\r\n");
      assert.equal(server.shards[0]!.engine.jobs.live, 1);
    });

    it("drops a body in pieces, frees its memory, and keeps the connection in step", () => {
      const { server, ask } = serverWith(3 * MIB);
      assert.equal(ask(`${put(5 * MIB)}list-tube-used\r\n`), "OUT_OF_MEMORY\r\nUSING default\r\n");
      assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 0);
      assert.match(ask(put(2 * MIB)), /^INSERTED 2\r\n$/);
      assert.equal(ask("reserve\r\n").length, `RESERVED 2 ${2 * MIB}\r\n\r\n`.length + 2 * MIB);
    });

    it("frees a half-received body when its client leaves", () => {
      const { server, client } = serverWith(64 * MIB);
      client.write(Buffer.from(`put 0 0 60 ${20 * MIB}\r\n${"x".repeat(4 * MIB)}`));
      server.settle();
      assert.ok(server.shards[0]!.engine.bodies.reservedBytes >= 3 * MIB);
      client.reset();
      server.settle();
      assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 0);
    });

    it("frees the body of a put behind a long reply when its client leaves", () => {
      const server = new HandDrivenServer(1);
      const { bodies, jobs } = server.shards[0]!.engine;
      server.acceptor.arenas[0] = bodies;
      server.connect(true).say(put(MIB));
      server.settle();
      const before = bodies.usedBytes;
      const reader = server.connect(false);
      reader.say(`peek 1\r\n${put(60_000)}`);
      server.settle();
      assert.ok(bodies.usedBytes >= before + 60_000, "it is in the arena");
      assert.equal(jobs.live, 1, "and waits until its client has read");
      server.disconnect(reader);
      server.settle();
      assert.equal(bodies.usedBytes, before);
    });

    it("keeps a body while a slow client reads it, and frees it afterwards", () => {
      const { server, ask } = serverWith(64 * MIB);
      ask(put(8 * MIB));
      const reader = server.connect();
      reader.readsAtOnce = false;
      reader.write(Buffer.from("peek 1\r\n"));
      server.settle();
      assert.ok(
        reader.pendingBytes < MIB,
        `${reader.pendingBytes} bytes wait for a client that does not read`,
      );
      assert.equal(ask("delete 1\r\n"), "DELETED\r\n");
      assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 8 * MIB);
      reader.readAll();
      server.settle();
      assert.equal(reader.takeReceived().length, `FOUND 1 ${8 * MIB}\r\n\r\n`.length + 8 * MIB);
      assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 0);
    });
  });
});
