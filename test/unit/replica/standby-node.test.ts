import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { type TestContext, test } from "node:test";
import { FollowerCore } from "../../../src/replica/follower-core.ts";
import type { Presence } from "../../../src/replica/shared-log.ts";
import { LeaderWatch } from "../../../src/replica/standby-node.ts";

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
