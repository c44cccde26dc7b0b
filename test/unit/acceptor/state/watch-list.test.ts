import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { TubeRef, WatchList } from "../../../../src/acceptor/state/watch-list.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const SHARDS = 4;
const names = (list: WatchList): string[] => list.tubes.map((tube) => tube.name);
const find = (list: WatchList, name: string): number =>
  list.find(asciiBytes(`<${name}>`), 1, 1 + name.length);

it("WatchList lists in beanstalkd's order: the last tube moves into the gap (protocol/README.md 7.3)", () => {
  const list = new WatchList(SHARDS);
  for (const name of ["default", "a", "b", "c", "d"]) list.add(new TubeRef(name, SHARDS));
  list.removeAt(find(list, "a"));
  assert.deepEqual(names(list), ["default", "d", "b", "c"]);
  list.removeAt(find(list, "default"));
  assert.deepEqual(names(list), ["c", "d", "b"]);
  list.add(new TubeRef("a", SHARDS));
  assert.deepEqual(names(list), ["c", "d", "b", "a"]);
  list.removeAt(3);
  assert.deepEqual(names(list), ["c", "d", "b"]);
});

it("WatchList counts the shards of its tubes", (t) => {
  const step = fc.record({
    add: fc.boolean(),
    name: fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "ab", "default"),
  });
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const list = new WatchList(SHARDS);
      for (const { add, name } of steps) {
        const position = find(list, name);
        assert.equal(position, names(list).indexOf(name));
        if (add && position < 0) list.add(new TubeRef(name, SHARDS));
        if (!add && position >= 0) list.removeAt(position);
        const shards = new Set(list.tubes.map((tube) => tube.shard));
        assert.equal(list.size, list.tubes.length);
        assert.equal(list.nameBytes, names(list).join("").length);
        assert.equal(list.shardCount, shards.size);
        for (let shard = 0; shard < SHARDS; shard++) assert.equal(list.watches(shard), shards.has(shard));
        if (shards.size === 1) assert.ok(shards.has(list.onlyShard));
      }
    }),
  );
});

it("WatchList finds all tubes while it shrinks and grows past the size at which it looks names up", () => {
  const name = (tube: number): string => `tube-${tube}`;
  for (let size = 7; size <= 12; size++)
    for (let gap = 0; gap < size; gap++) {
      const list = new WatchList(SHARDS);
      let next = 0;
      while (list.size < size) list.add(new TubeRef(name(next++), SHARDS));
      // From either end of the list, or from its middle, and back again.
      for (const change of [-1, -1, 1, -1, -1, -1, 1, 1, 1, 1, 1, 1, -1]) {
        if (change > 0) list.add(new TubeRef(name(next++), SHARDS));
        else list.removeAt(Math.min(gap, list.size - 1));
        for (let tube = 0; tube < next; tube++)
          assert.equal(find(list, name(tube)), names(list).indexOf(name(tube)), `${size} tubes, gap ${gap}`);
      }
    }
});

it("TubeRef.is compares the whole name", () => {
  const tube = new TubeRef("abc", SHARDS);
  const bytes = asciiBytes("xabcd");
  assert.equal(tube.is(bytes, 1, 4), true);
  assert.equal(tube.is(bytes, 1, 3), false);
  assert.equal(tube.is(bytes, 1, 5), false);
  assert.equal(tube.is(bytes, 0, 3), false);
});

// Tests of clients with many watches or many commands at once: others get their turn.

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
