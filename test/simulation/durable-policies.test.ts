// Tests that policies are as durable as replies with -f 0: a DUPLICATE reveals another client's
// put, and a SET a change on a shard. From many random schedules.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { LogWord } from "../../src/ring/shared-words.ts";
import { virtualOptions } from "../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../binlog/virtual-disk.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { inWhole } from "../support/whole.ts";
import type { FakeSocket } from "./server/fake-socket.ts";
import { InProcessServer } from "./server/in-process-server.ts";

const SEEDS = inWhole(60, 30);

async function serverOf(seed: number, shards: number): Promise<InProcessServer> {
  const disk = new VirtualDisk();
  const opened = await openBinlog({ ...virtualOptions(disk), shards, segmentBytes: 128 * 1024 });
  const server = new InProcessServer({
    shards,
    acceptors: 2,
    random: new SeededRandom(seed),
    slowLog: 0.9,
    log: {
      disk,
      opened,
      repliesWaitFor: LogWord.Synced,
      recordRingBytes: 4096,
      wallOffsetMs: 1_700_000_000_000,
    },
  });
  server.restore();
  return server;
}

/** Returns how far the log was synced, over all shards, when `socket` was sent the reply. */
function syncedAt(server: InProcessServer, socket: FakeSocket, reply: string): () => number[] | undefined {
  let found: number[] | undefined;
  socket.onSent = (bytes) => {
    if (Buffer.from(bytes).toString("latin1").includes(reply))
      found ??= server.shards.map((_, shard) => server.storage!.tail.synced[shard]!);
  };
  return () => found;
}

describe("with -f 0", () => {
  it("DUPLICATE leaves when the put with the key is durable", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const server = await serverOf(seed, 1);
      const [first, second] = [server.connect(0), server.connect(1)];
      server.settle();
      const before = server.storage!.tail.synced[0]!;
      const seen = syncedAt(server, second, "DUPLICATE");
      const put = Buffer.from("put-in-tube a 0 0 60 1 unique=k\r\nx\r\n");
      first.write(put);
      for (let steps = seed % 9; steps > 0; steps--) server.step();
      second.write(put);
      server.settle();
      const replies = [first, second].map((socket) => socket.takeReceived().toString("latin1"));
      if (!replies[1]!.startsWith("DUPLICATE")) continue;
      assert.ok(seen()![0]! > before, `seed ${seed}: told before it is durable`);
    }
  });

  it("SET of a pattern leaves when the logging shard's record is durable", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const server = await serverOf(seed, 3);
      const socket = server.connect(0);
      server.settle();
      const before = server.shards.map((_, shard) => server.storage!.tail.synced[shard]!);
      const seen = syncedAt(server, socket, "SET");
      socket.write(Buffer.from("set-tube mail* max-jobs=1\r\n"));
      server.settle();
      assert.equal(socket.takeReceived().toString("latin1"), "SET\r\n");
      assert.ok(
        seen()!.some((synced, shard) => synced > before[shard]!),
        `seed ${seed}: told before it is durable`,
      );
      for (const { engine } of server.shards)
        assert.equal(engine.settings.get("mail*")?.maxJobs, 1, "all shards have it");
    }
  });

  it("two simultaneous changes of a pattern have the same winner on all shards", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const server = await serverOf(seed, 3);
      const sockets = [server.connect(0), server.connect(1)];
      server.settle();
      for (const [index, socket] of sockets.entries()) {
        socket.write(Buffer.from(`set-tube * max-jobs=${index + 1}\r\n`));
        for (let steps = seed % 4; steps > 0; steps--) server.step();
      }
      server.settle();
      const winners = new Set(server.shards.map(({ engine }) => engine.settings.get("*")?.maxJobs));
      assert.equal(winners.size, 1, `seed ${seed}: ${[...winners].join(" and ")}`);
      assert.equal(server.storage!.index.settings.get("*")?.text, `max-jobs=${[...winners][0]}`);
    }
  });
});
