// Tests of what sends the jobs of a recovered log to a shard: how far ahead it is, and its end.

import assert from "node:assert/strict";
import { once } from "node:events";
import { it } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { MessageChannel } from "node:worker_threads";
import { ShardFeed } from "../../../src/binlog/binlog-runtime.ts";

it("a shard gets two batches ahead, its warnings are told, and the end waits for all of it", async () => {
  const { port1: log, port2: shard } = new MessageChannel();
  const warnings: string[] = [];
  const feed = new ShardFeed(log, (warning) => warnings.push(warning));
  const done: string[] = [];
  const send = (number: number): Promise<void> =>
    feed
      .send({ bytes: Uint8Array.of(number), offsets: Uint32Array.of(0) })
      .then(() => void done.push(`${number}`));
  const closed = once(shard, "close");
  const got: unknown[] = [];
  shard.on("message", (message: { bytes: Uint8Array } | "end") =>
    got.push(message === "end" ? message : message.bytes[0]),
  );
  await send(1);
  await send(2);
  const third = send(3);
  while (got.length < 3) await turn();
  assert.deepEqual(done, ["1", "2"], "a third waits until one is loaded");
  shard.postMessage("loaded");
  await third;
  const end = feed.end().then(() => void done.push("end"));
  while (got.length < 4) await turn();
  shard.postMessage({ warnings: ["odd", "strange"] });
  shard.postMessage("loaded");
  while (warnings.length < 2) await turn();
  await turn();
  assert.deepEqual(done, ["1", "2", "3"], "the end waits for the last batch");
  shard.postMessage("loaded");
  await end;
  assert.deepEqual(
    [got, warnings],
    [
      [1, 2, 3, "end"],
      ["odd", "strange"],
    ],
  );
  await closed;
});
