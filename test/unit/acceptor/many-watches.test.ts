// Tests of clients with many watches or many commands at once: others get their turn.

import assert from "node:assert/strict";
import { it } from "node:test";
import { TubeRef, WatchList } from "../../../src/acceptor/state/watch-list.ts";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

it("WatchList finds a tube among 20,000 about as fast as among 200", () => {
  const timeMs = (count: number): number => {
    const list = new WatchList(1);
    for (let i = 0; i < count; i++) list.add(new TubeRef(`tube-${i}`, 1));
    const name = asciiBytes("tube-nosuch");
    // The quickest of several looks: a busy machine may hold up any of them.
    let leastMs = Number.POSITIVE_INFINITY;
    for (let look = 0; look < 10; look++) {
      const startedAt = performance.now();
      for (let i = 0; i < 500; i++) assert.equal(list.find(name, 0, name.length), -1);
      leastMs = Math.min(leastMs, performance.now() - startedAt);
    }
    return leastMs;
  };
  timeMs(200);
  const [few, many] = [timeMs(200), timeMs(20_000)];
  assert.ok(many < 20 * few + 2, `${few} ms among 200, ${many} ms among 20,000`);
});

it("Connection executes some hundred lines in a turn, and the rest in later ones", () => {
  const server = new HandDrivenServer(1);
  const client = server.connect(true);
  server.settle();
  const count = 5000;
  client.say("nonsense\r\n".repeat(count));
  server.acceptor.flush();
  const answered = client.take().length / "UNKNOWN_COMMAND\r\n".length;
  assert.ok(answered > 0 && answered <= 300, `${answered} commands were answered at once`);
  assert.ok(server.acceptor.hasWork, "the thread goes on turning");
  client.connection.onEnd();
  server.settle();
  assert.equal(client.take(), "UNKNOWN_COMMAND\r\n".repeat(count - answered));
  assert.ok(client.ended);
});

it("a shard answers many reserves over many tubes in one turn: each looks at few tubes", () => {
  const server = new HandDrivenServer(1);
  const client = server.connect(true);
  const tubes = 5000;
  for (let tube = 0; tube < tubes; tube++) {
    client.say(`use t${tube}\r\nput 0 0 60 1\r\nx\r\nwatch t${tube}\r\n`);
    if (tube % 50 === 0) server.settle();
  }
  server.settle();
  client.take();
  client.say("reserve\r\n".repeat(60));
  const perTurn: number[] = [];
  for (let goesOn = true; goesOn; ) {
    goesOn = server.turn();
    perTurn.push(client.take().split("RESERVED").length - 1);
  }
  assert.equal(
    perTurn.reduce((sum, count) => sum + count, 0),
    60,
  );
  assert.equal(Math.max(...perTurn), 60, `${perTurn} in each turn`);
});
