// Contract tests of the shared log (src/replica/shared-log.ts), for the in-memory one and for the
// newest and oldest supported real servers.

import assert from "node:assert/strict";
import { basename, dirname } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { connect } from "@nats-io/transport-node";
import { parseGroupUrl } from "../../src/replica/group-url.ts";
import { JetStreamLog } from "../../src/replica/jetstream-log.ts";
import {
  LogError,
  type LogErrorKind,
  type LogMessage,
  type SharedLog,
} from "../../src/replica/shared-log.ts";
import { missingNats, NATS_SERVERS, NatsCluster } from "../support/server/nats-cluster.ts";
import { MemoryLog } from "./memory-log.ts";

interface Kind {
  readonly name: string;
  make(t: TestContext): Promise<SharedLog & { answer(node: number, answer: () => string): void }>;
  readonly skip: string | undefined;
}

async function jetStream(t: TestContext, program: string | undefined): Promise<JetStreamLog> {
  const cluster = await NatsCluster.start(t, 1, program);
  const log = await JetStreamLog.connect(parseGroupUrl(cluster.url("contract")), "contract", false);
  t.after(() => log.close());
  await log.create({ replicas: 1, maxBytes: 64 * 1024 * 1024, groupId: "id", seed: 0 });
  return log;
}

const versionOf = (program: string): string => basename(dirname(dirname(dirname(program))));

const KINDS: readonly Kind[] = [
  { name: "in memory", make: async () => new MemoryLog(), skip: undefined },
  ...(NATS_SERVERS.length === 0 ? [undefined] : NATS_SERVERS).map((program) => ({
    name: `JetStream (${program === undefined ? "no nats-server" : versionOf(program)})`,
    make: (t: TestContext) => jetStream(t, program),
    skip: program === undefined ? missingNats() : undefined,
  })),
];

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

async function all(log: SharedLog, from: number, to: number): Promise<string[]> {
  const found: string[] = [];
  for await (const { sequence, bytes } of log.read(from, to) as AsyncIterable<LogMessage>)
    found.push(`${sequence} ${new TextDecoder().decode(bytes)}`);
  return found;
}

async function fails(promise: Promise<unknown>, kind: LogErrorKind): Promise<void> {
  await assert.rejects(promise, (error) => error instanceof LogError && error.kind === kind);
}

it("a primary is told what a standby keeps in numbers alone", { skip: missingNats() ?? false }, async (t) => {
  const cluster = await NatsCluster.start(t, 1);
  const url = parseGroupUrl(cluster.url("kept"));
  const log = await JetStreamLog.connect(url, "contract", false);
  t.after(() => log.close());
  const kept = Promise.withResolvers<void>();
  const heard: number[] = [];
  log.onKept((n) => {
    heard.push(n);
    if (n === 8) kept.resolve();
  });
  log.tellKept(7);
  await log.ask(1);
  const stranger = await connect({ servers: url.servers });
  t.after(() => stranger.close());
  for (const text of ["many", "NaN", "", "-1", "1.5", "Infinity", "8"])
    stranger.publish("runnerbean.kept.kept", text);
  await kept.promise;
  assert.deepEqual(heard, [7, 8]);
});

for (const { name, make, skip } of KINDS) {
  describe(`the shared log ${name}`, { skip: skip ?? false }, () => {
    it("is empty at first", async (t) => {
      const { first, last } = await (await make(t)).ends();
      assert.ok(last === 0 && first <= 1);
    });

    it("gives each append the next sequence, with 16 in flight or one, and returns them in that order", async (t) => {
      const log = await make(t);
      const sequences = await Promise.all(
        Array.from({ length: 16 }, (_, n) => log.append(bytesOf(`m${n}`), n)),
      );
      assert.deepEqual(
        sequences,
        Array.from({ length: 16 }, (_, n) => n + 1),
      );
      assert.deepEqual(
        await all(log, 1, 16),
        Array.from({ length: 16 }, (_, n) => `${n + 1} m${n}`),
      );
      assert.equal((await log.ends()).last, 16);
    });

    it("refuses a sequence that isn't the next, and stores nothing of it", async (t) => {
      const log = await make(t);
      await log.append(bytesOf("a"), 0);
      await fails(log.append(bytesOf("b"), 0), "refused");
      await fails(log.append(bytesOf("b"), 5), "refused");
      assert.equal(await log.append(bytesOf("c"), 1), 2);
      assert.deepEqual(await all(log, 1, 2), ["1 a", "2 c"]);
    });

    it("stores equal bytes twice as two messages", async (t) => {
      const log = await make(t);
      assert.deepEqual([await log.append(bytesOf("a"), 0), await log.append(bytesOf("a"), 1)], [1, 2]);
    });

    it("returns more messages than one answer holds, in order", async (t) => {
      const log = await make(t);
      const texts = Array.from({ length: 1200 }, (_, n) => `m${n}`.padEnd(n % 100 === 0 ? 60_000 : 5, "."));
      // Few at a time: on a busy machine, an answer to each must come in time.
      for (let n = 0; n < texts.length; n += 10)
        await Promise.all(texts.slice(n, n + 10).map((text, k) => log.append(bytesOf(text), n + k)));
      assert.deepEqual(
        await all(log, 3, texts.length),
        texts.slice(2).map((text, k) => `${k + 3} ${text}`),
      );
    });

    it("takes a quarter of a mebibyte, and bytes of any kind", async (t) => {
      const log = await make(t);
      const bytes = Uint8Array.from({ length: 256 * 1024 }, (_, n) => n * 7);
      await log.append(bytes, 0);
      for await (const message of log.read(1, 1)) assert.ok(Buffer.from(bytes).equals(message.bytes));
    });

    it("forgets purged messages, continues its sequences, and serves reads meanwhile", async (t) => {
      const log = await make(t);
      for (let n = 0; n < 10; n++) await log.append(bytesOf(`m${n}`), n);
      const reading = all(log, 6, 10);
      await log.purge(6);
      assert.equal((await reading).length, 5);
      const { first, last } = await log.ends();
      assert.deepEqual([first, last], [6, 10]);
      assert.equal(await log.append(bytesOf("more"), 10), 11);
      await log.purge(11);
      assert.deepEqual(await log.ends().then((ends) => [ends.first, ends.last]), [11, 11]);
    });

    it("reports a purged message, and never skips it", async (t) => {
      const log = await make(t);
      for (let n = 0; n < 4; n++) await log.append(bytesOf(`m${n}`), n);
      await log.purge(3);
      await fails(all(log, 2, 4), "purged");
    });

    it("knows which members are present and which have left", async (t) => {
      const log = await make(t);
      log.answer(7, () => "seven");
      assert.equal(await log.ask(7), "seven");
      assert.equal(await log.ask(8), "gone");
    });
  });
}
