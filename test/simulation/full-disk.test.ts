// Test of a put so long that the disk fills up in the middle of its records: it is refused and
// rolled back, and the server continues.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SeededRandom } from "../support/seeded-random.ts";
import { InProcessServer } from "./server/in-process-server.ts";
import { SimulatedLog } from "./server/simulated-log.ts";

const BODY_BYTES = 300_000;
const CALM_SEEDS = 5;
/** The last id that a put takes while the disk is full. */
const LAST_REFUSED = 70;

for (const isResident of [false, true]) {
  const where = isResident ? "the serving thread" : "a thread of its own";
  test(`a put that fills the disk half way gets OUT_OF_MEMORY, and the next delete is durable: a log in ${where}`, async () => {
    for (let seed = 1; seed <= CALM_SEEDS; seed++) await fill(seed, isResident);
  });
}

async function fill(seed: number, isResident: boolean): Promise<void> {
  const random = new SeededRandom(seed);
  const log = new SimulatedLog(random);
  const opened = await log.open(1, 0);
  const options = {
    ...({ shards: 1, acceptors: 1, placement: isResident ? "together" : "apart" } as const),
    ...{ random, jobBytesMax: BODY_BYTES, startsAtMs: 0, log: { ...opened, isResident } },
  };
  const server = new InProcessServer(options);
  server.restore();
  const client = server.connect();
  const ask = (text: string): string => {
    client.write(Buffer.from(text));
    server.advance(1);
    return client.takeReceived().toString("latin1");
  };
  assert.equal(ask("put 0 0 1 3\r\nabc\r\n"), "INSERTED 1\r\n");
  log.disk.capacityBytes = log.disk.usedBytes();
  assert.equal(ask(`put 0 0 1 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`), "OUT_OF_MEMORY\r\n");
  assert.equal(server.storage!.failure, undefined, "the log goes on");
  assert.equal(ask("peek 2\r\n"), "NOT_FOUND\r\n");
  assert.equal(ask("stats-tube default\r\n").match(/total-jobs: (\d+)/)?.[1], "1");
  assert.equal(ask("delete 1\r\n"), "DELETED\r\n");
  // More ids than the log has lent, in some seeds: a full log lends none, and neither it nor a
  // shard waits for that.
  for (let id = 3; id <= LAST_REFUSED; id++) assert.equal(ask("put 0 0 1 1\r\nx\r\n"), "OUT_OF_MEMORY\r\n");
  log.disk.capacityBytes = Number.POSITIVE_INFINITY;
  server.advance(2000);
  const inserted = `INSERTED ${LAST_REFUSED + 1}\r\n`;
  assert.equal(ask(`put 0 0 1 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`), inserted);
  server.storage!.close(server.nowMs);
  const again = await log.open(1, 0);
  assert.equal(again.opened.jobCount, 1, "only the last put is in the log");
  again.opened.storage.close(0);
}
