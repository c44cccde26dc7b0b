// The rounds that end a batch, step by step: members that move, or are put, between the reports of
// two shards.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { shardOfTube } from "../../../src/base/bytes.ts";
import { Span } from "../../../src/protocol/request.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { InProcessServer } from "../server/in-process-server.ts";
import "../../support/checked.ts";
import { BatchClient } from "./batch-client.ts";

const SHARDS = 3;

/** Returns a name that belongs to this shard. */
function nameOn(shard: number): string {
  for (let n = 0; ; n++) {
    const name = Buffer.from(`n${n}`);
    if (shardOfTube(name, 0, name.length, SHARDS) === shard) return name.toString();
  }
}

const BATCH = nameOn(0);
const FROM = nameOn(1);
const TO = nameOn(2);

class SlowServer {
  readonly server: InProcessServer = new InProcessServer({
    shards: SHARDS,
    acceptors: 1,
    random: new SeededRandom(1),
  });
  /** By shard, the messages about batches that have not arrived. */
  readonly #held: ((() => void)[] | undefined)[] = [];
  /** By replies, who has asked. */
  readonly #asked = new Map<readonly string[], BatchClient>();

  constructor() {
    for (const [shard, { homes }] of this.server.shards.entries()) {
      const take = homes.take.bind(homes);
      homes.take = (kind, from, { bytes, start, end }, nowMs) => {
        const span = new Span();
        span.set(bytes.slice(start, end), 0, end - start);
        const held = this.#held[shard];
        if (held === undefined) take(kind, from, span, nowMs);
        else held.push(() => take(kind, from, span, nowMs));
      };
    }
  }

  /** Holds back what a shard is told about batches. */
  hold(shard: number): void {
    this.#held[shard] = [];
  }

  letGo(shard: number): void {
    const held = this.#held[shard] ?? [];
    assert.ok(held.length > 0, "the shard was told something");
    this.#held[shard] = undefined;
    for (const go of held) go();
    // The shard shows in its turn what it has said.
    this.ask("stats");
  }

  /** Asks, and returns the replies, which may come later. */
  begin(request: string): string[] {
    const client = new BatchClient(this.server.connect());
    this.server.settle();
    const replies: string[] = [];
    client.ask(request, ({ line, body }) => replies.push(line.startsWith("OK ") ? body : line));
    this.server.settle();
    client.take();
    this.#asked.set(replies, client);
    return replies;
  }

  /** Returns the reply that has come since. */
  answers(replies: readonly string[]): string {
    this.#asked.get(replies)!.take();
    return replies[0] ?? "nothing";
  }

  ask(request: string): string {
    const [reply] = this.begin(request);
    assert.ok(reply !== undefined, `${request} is answered`);
    return reply;
  }

  put(): number {
    const reply = this.ask(`put-in-tube ${FROM} 0 0 60 1 batch=${BATCH}\r\nx`);
    assert.match(reply, /^INSERTED \d+$/);
    return Number(reply.slice("INSERTED ".length));
  }

  move(id: number): void {
    assert.equal(this.ask(`update-job ${id} tube=${TO}`), "UPDATED");
  }

  /** Asserts that the batch is complete only after this member. */
  checkEndsWith(id: number): void {
    assert.match(this.ask(`inspect-batch ${BATCH}`), /state: committed\n.*\nmembers: 1\nopen: 1\n/);
    assert.equal(this.ask(`delete ${id}`), "DELETED");
    assert.match(this.ask(`inspect-batch ${BATCH}`), /state: complete\n/);
  }
}

describe("the rounds of a batch", () => {
  it("don't miss a member that moves to a shard that has reported", () => {
    const server = new SlowServer();
    server.ask(`open-batch ${BATCH}`);
    const id = server.put();
    server.hold(1);
    server.begin(`commit-batch ${BATCH}`);
    server.move(id);
    server.letGo(1);
    server.checkEndsWith(id);
  });

  it("count only from the commit, if one was under way before", () => {
    const server = new SlowServer();
    server.ask(`open-batch ${BATCH}`);
    server.hold(2);
    server.begin(`inspect-batch ${BATCH}`);
    server.begin(`commit-batch ${BATCH}`);
    // This shard has reported, and doesn't know of the commit.
    const id = server.put();
    server.hold(1);
    server.letGo(2);
    server.move(id);
    server.letGo(1);
    server.checkEndsWith(id);
  });

  it("let no member in before all shards know the batch, to which it may move", () => {
    const server = new SlowServer();
    server.hold(2);
    const opened = server.begin(`open-batch ${BATCH}`);
    for (const option of ["batch", "after", "after-any"])
      assert.equal(
        server.ask(`put-in-tube ${FROM} 0 0 60 1 ${option}=${BATCH}\r\nx`),
        "BATCH_NOT_FOUND",
        option,
      );
    const again = server.begin(`open-batch ${BATCH}`);
    const inspected = server.begin(`inspect-batch ${BATCH}`);
    assert.deepEqual([opened, again, inspected], [[], [], []]);
    server.letGo(2);
    assert.deepEqual([server.answers(opened), server.answers(again)], ["OPENED", "BATCH_EXISTS"]);
    assert.match(server.answers(inspected), /state: open\n/);
    const id = server.put();
    server.move(id);
    server.begin(`commit-batch ${BATCH}`);
    server.checkEndsWith(id);
  });

  it("are a hundred a turn when many batches are due", () => {
    const server = new InProcessServer({ shards: 1, acceptors: 1, random: new SeededRandom(1) });
    const { engine, homes } = server.shards[0]!;
    const socket = server.connect();
    for (let n = 0; n < 250; n++)
      socket.write(Buffer.from(`open-batch b${n} keep=1\r\ncommit-batch b${n}\r\n`));
    server.settle();
    assert.equal(engine.batches.size, 250);
    let most = 0;
    const step = homes.step.bind(homes);
    homes.step = (nowMs) => {
      const before = engine.batches.size;
      step(nowMs);
      most = Math.max(most, before - engine.batches.size);
    };
    server.advance(2000);
    assert.equal(engine.batches.size, 0);
    assert.ok(most <= 100, `${most} batches are forgotten in one turn`);
  });
});
