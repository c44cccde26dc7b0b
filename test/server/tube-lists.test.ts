// Tests of long tube lists: their content, the delay of other clients, and their cost.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { latin1 } from "../../src/base/bytes.ts";
import { type HandDrivenClient, HandDrivenServer } from "../support/in-process/hand-driven-server.ts";
import { memoryInUse, settledBytes } from "../support/machine/memory-in-use.ts";

const MIB = 1024 * 1024;
const NAME_BYTES = 200;

const nameOf = (tube: number): string => `${tube}-`.padEnd(tube % 3 === 0 ? 8 : NAME_BYTES, "n");

/** Has a client watch `count` tubes besides default. */
function watchMany(server: HandDrivenServer, count: number): HandDrivenClient {
  const client = server.connect(true);
  client.forgets = true;
  for (let tube = 0; tube < count; tube++) {
    client.say(`watch ${nameOf(tube)}\r\n`);
    if (tube % 1000 === 999) server.settle();
  }
  server.settle();
  client.forgets = false;
  return client;
}

function expectedList(count: number): string {
  const names = ["default", ...Array.from({ length: count }, (_, tube) => nameOf(tube))];
  const text = `---\n${names.map((name) => `- ${name}\n`).join("")}`;
  return `OK ${text.length}\r\n${text}\r\n`;
}

describe("lists of 20,000 tubes", () => {
  for (const shards of [1, 3]) {
    it(`are whole and in order over ${shards} shards, and others are served meanwhile`, () => {
      const server = new HandDrivenServer(shards);
      const watcher = watchMany(server, 20_000);
      const expected = expectedList(20_000);
      const other = server.connect(true);
      server.settle();
      for (const command of ["list-tubes", "list-tubes-watched"]) {
        watcher.say(`${command}\r\nlist-tube-used\r\n`);
        let turns = 0;
        const pieces: string[] = [];
        for (let goesOn = true; goesOn; turns++) {
          if (turns % 4 === 0) other.say("peek-ready\r\n");
          goesOn = server.turn();
          pieces.push(watcher.take());
          if (turns % 4 === 3 && goesOn) assert.equal(other.take(), "NOT_FOUND\r\n");
        }
        assert.ok(turns > 10, `${command}: ${turns} turns`);
        server.settle();
        other.take();
        assert.ok(
          `${pieces.join("")}${watcher.take()}` === `${expected}USING default\r\n`,
          `${command} is not the list`,
        );
        const longest = Math.max(...pieces.map((piece) => piece.length));
        assert.ok(longest < 512 * 1024, `${command}: ${longest} bytes in one turn`);
      }
    });
  }

  it("are refused without a wait while too many lists are unread", () => {
    const server = new HandDrivenServer(2);
    watchMany(server, 20_000);
    let [asked, refused] = [0, ""];
    for (; asked < 100 && refused === ""; asked++) {
      const client = server.connect(asked % 2 === 0);
      // Every other one reads nothing, and keeps its list.
      client.say("list-tubes\r\nlist-tube-used\r\n");
      server.settle();
      if (asked % 2 === 0 && !client.take().startsWith("OK ")) refused = "refused";
      if (asked % 2 === 0) server.disconnect(client);
    }
    assert.equal(refused, "refused", "a client was refused");
    const client = server.connect(true);
    client.say("list-tubes\r\nlist-tube-used\r\n");
    server.settle();
    assert.equal(client.take(), "OUT_OF_MEMORY\r\nUSING default\r\n");
    assert.ok(asked > 20, `${asked} lists`);
  });

  it("share their memory among all clients that don't read", () => {
    const server = new HandDrivenServer(2);
    watchMany(server, 20_000);
    const expected = expectedList(20_000);
    // The second collection finds what the first has let go of.
    memoryInUse();
    const before = memoryInUse();
    const clients = Array.from({ length: 100 }, () => server.connect(false));
    for (const client of clients) client.say("list-tubes\r\n");
    server.settle();
    const takenMax = 3 * expected.length + 100 * 100 * 1024;
    const taken = settledBytes(takenMax, () => memoryInUse() - before);
    assert.ok(taken <= takenMax, `${taken / MIB} MiB for lists of ${expected.length}`);
    // One reads on, the others leave.
    const [reader, ...others] = clients as [HandDrivenClient, ...HandDrivenClient[]];
    for (const client of others) server.disconnect(client);
    while (reader.pendingBytes > 0) {
      reader.read();
      server.settle();
    }
    assert.ok(reader.take() === expected);
    server.disconnect(reader);
    server.settle();
    const left = settledBytes(4 * MIB, () => memoryInUse() - before);
    assert.ok(left <= 4 * MIB, `${left / MIB} MiB are left`);
  });

  it("reach waiting clients after the client that asked first has left", () => {
    const server = new HandDrivenServer(2);
    watchMany(server, 20_000);
    const [first, second, later] = [
      server.connect(true),
      server.connect(true),
      server.connect(true),
    ] as const;
    server.settle();
    first.say("list-tubes\r\n");
    second.say("list-tubes\r\n");
    server.turn();
    server.turn();
    // The list is being gathered for the first; a tube created now must be in the list of a client
    // that asks afterwards.
    later.say("use new\r\nlist-tubes\r\n");
    server.turn();
    server.disconnect(first);
    server.settle();
    assert.equal(second.take().slice(0, 3), "OK ");
    assert.match(later.take(), /^USING new\r\nOK [\s\S]*- new\n\r\n$/);
    assert.equal(server.acceptor.hasWork, false);
  });
});

it("names made by latin1() take little more than their bytes", () => {
  const bytes = new Uint8Array(new SharedArrayBuffer(NAME_BYTES)).fill(110);
  const names: string[] = [];
  const before = memoryInUse();
  for (let i = 0; i < 10_000; i++) {
    bytes[i % NAME_BYTES] = 97 + (i % 26);
    names.push(latin1(bytes, 0, NAME_BYTES));
  }
  const each = (memoryInUse() - before) / names.length;
  assert.ok(each < 2 * NAME_BYTES, `${each} bytes a name`);
  assert.equal(names[1]!.length, NAME_BYTES);
});
