import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { it, type TestContext, test } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import {
  encodeLogBatchHeader,
  LOG_BATCH_BYTES_MAX,
  LOG_BATCH_HEADER_BYTES,
  LogBatchKind,
  logBatchesOf,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";
import { FollowerCore } from "../../../src/replica/follower-core.ts";
import type { Presence } from "../../../src/replica/shared-log.ts";
import { appendTail, joined, LeaderWatch } from "../../../src/replica/standby-node.ts";

const LEADER = 7;
type Answer = string | "gone" | undefined;

/** A follower that notes what it is told, and a way to answer each question when the test wants. */
class Bench {
  readonly seen: Presence[] = [];
  readonly questions: ((answer: Answer) => void)[] = [];
  readonly watch: LeaderWatch;
  readonly follower: FollowerCore;

  constructor(ownAddress = "127.0.0.1:1") {
    const ask = (): Promise<Answer> => new Promise((resolve) => this.questions.push(resolve));
    this.watch = new LeaderWatch({ ask }, ownAddress);
    const host = { apply() {}, cutAfter() {}, appendTail() {}, tryLead() {}, lead() {}, ended() {} };
    this.follower = new FollowerCore({
      host,
      node: 1,
      own: [],
      hasOwnJobs: false,
      seed: 0,
      leaseMs: 3000,
      random: () => 0.5,
    });
    this.follower.leader = LEADER;
    this.follower.seen = (_node, presence) => void this.seen.push(presence);
  }

  /** A look that is answered at once. */
  async look(answer: Answer): Promise<void> {
    const look = this.watch.look(this.follower);
    this.questions.at(-1)!(answer);
    await look;
  }
}

const report = (address: string): string => JSON.stringify({ node: LEADER, role: "primary", address });

/** An address with a listener, and a function that ends it. */
async function listener(t: TestContext): Promise<{ address: string; end: () => Promise<unknown> }> {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { address, end: () => new Promise((resolve) => server.close(resolve)) };
}

test("a primary that died after a question is asked again, and its death counts before the first timeout", async (t) => {
  const bench = new Bench();
  const { address, end } = await listener(t);
  await bench.look(report(address));
  const unanswered = bench.watch.look(bench.follower);
  const timeOut = bench.questions.at(-1)!;
  await end();
  await bench.look("gone");
  assert.deepEqual(bench.seen, ["there", "gone"]);
  timeOut(undefined);
  await unanswered;
  assert.deepEqual(bench.seen, ["there", "gone"], "what was asked earlier takes nothing back");
});

test("a disconnected node is silent, not dead, if its address answers or never did", async (t) => {
  const bench = new Bench();
  const { address } = await listener(t);
  await bench.look("gone");
  await bench.look(report(address));
  await bench.look("gone");
  assert.deepEqual(bench.seen, ["silent", "there", "silent"]);
});

test("an answer from the previous primary doesn't count for the present one", async (t) => {
  const bench = new Bench();
  const { address, end } = await listener(t);
  const late = bench.watch.look(bench.follower);
  const answer = bench.questions.at(-1)!;
  bench.follower.leader = LEADER + 1;
  await bench.look("gone");
  answer(report(address));
  await late;
  await end();
  await bench.look("gone");
  assert.deepEqual(bench.seen, ["silent", "silent"], "the address of the former is no proof");
});

test("a restarted primary at another address isn't dead because nothing listens there yet", async (t) => {
  const bench = new Bench();
  const { address } = await listener(t);
  const next = await listener(t);
  await next.end();
  await bench.look(report(address));
  await bench.look(report(next.address));
  await bench.look("gone");
  assert.deepEqual(bench.seen, ["there", "there", "silent"], "a firewall refuses, too");
});

test("a primary whose batch arrives during a check isn't dead, though its port is closed", async (t) => {
  const bench = new Bench();
  let heardAtMs = 0;
  Object.defineProperty(bench.follower, "heardAtMs", { get: () => heardAtMs });
  const { address, end } = await listener(t);
  await bench.look(report(address));
  await end();
  const look = bench.watch.look(bench.follower);
  heardAtMs = 1000;
  bench.questions.at(-1)!("gone");
  await look;
  await bench.look("gone");
  assert.deepEqual(bench.seen, ["there", "silent", "gone"]);
});

// Tests of the messages by which the end of the local log goes to the shared log.

/** Batch `n` of a segment, of so many bytes. */
function batch(n: number, segment: number, bytes = LOG_BATCH_HEADER_BYTES): Uint8Array {
  const memory = Memory.ofSize(bytes);
  encodeLogBatchHeader(memory, 0, {
    ...{ kind: LogBatchKind.data, epoch: 1, segment, n, previousTag: n - 1, tag: n, sequence: n, idsLent: 0 },
    ...{
      frames: 0,
      bodyBytes: bytes - LOG_BATCH_HEADER_BYTES,
      node: 1,
      oldest: 1,
      unacknowledged: 0,
      message: 0,
    },
  });
  sealLogBatch(memory, 0);
  return memory.bytes;
}

/** The numbers of the batches in each message. */
const numbersOf = (batches: readonly Uint8Array[]): number[][] =>
  [...joined(batches)].map((message) => logBatchesOf(message)!.map(({ header }) => header.n));

it("joins batches of one segment alone", () => {
  assert.deepEqual(numbersOf([batch(1, 1), batch(2, 1), batch(3, 2), batch(4, 2), batch(5, 3)]), [
    [1, 2],
    [3, 4],
    [5],
  ]);
  assert.deepEqual(numbersOf([]), []);
});

it("fills each message up to its limit, the first like those behind it", () => {
  const half = LOG_BATCH_BYTES_MAX / 2;
  const sizes = [half, half, half, half, half, half + 1, LOG_BATCH_BYTES_MAX, 100, 100];
  assert.deepEqual(numbersOf(sizes.map((bytes, at) => batch(at + 1, 1, bytes))), [
    [1, 2],
    [3, 4],
    [5],
    [6],
    [7],
    [8, 9],
  ]);
});

it("appends each message behind the one before", async () => {
  const behind: number[] = [];
  const log = {
    append: (_message: Uint8Array, last: number): Promise<number> => {
      behind.push(last);
      return Promise.resolve(last + 3);
    },
  };
  await appendTail(log, [batch(1, 1), batch(2, 2), batch(3, 3)], 10);
  assert.deepEqual(behind, [10, 13, 16]);
});
