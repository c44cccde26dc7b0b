// Tests of jobs that move to another shard: sizes around the capacity of one message, and a target
// without memory.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, shardOfTube } from "../../../../src/base/bytes.ts";
import { BodyArena } from "../../../../src/engine/jobs/body-arena.ts";
import { TransferMessage } from "../../../../src/message/transfer.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { checkArenaAtRest } from "../../../support/in-process/engine-invariants.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const SHARDS = 2;
const MIB = 1 << 20;
/** A quarter of the rings of such a server: no message is longer. */
const MESSAGE_BYTES_MAX = 1 << 14;

/** A tube that lives on this shard. */
function tubeOn(shard: number): string {
  for (let number = 0; ; number++) {
    const name = `tube-${number}`;
    if (shardOfTube(asciiBytes(name), 0, name.length, SHARDS) === shard) return name;
  }
}
const [HERE, THERE] = [tubeOn(0), tubeOn(1)];

interface Scene {
  readonly server: InProcessServer;
  /**
   * Sends, lets everything come to rest, and returns the replies; nothing may be left in an arena
   * without a job.
   */
  readonly ask: (text: string) => string;
}

/** A server whose second shard has so much memory for bodies. */
function scene(thereBytes = Number.POSITIVE_INFINITY): Scene {
  const server = new InProcessServer({
    shards: SHARDS,
    acceptors: 1,
    random: new SeededRandom(1),
    jobBytesMax: 64 * MIB,
    arena: (shard) => new BodyArena(shard === 1 ? thereBytes : Number.POSITIVE_INFINITY),
  });
  const client = server.connect();
  const ask = (text: string): string => {
    client.write(Buffer.from(text, "latin1"));
    server.settle();
    for (const { engine } of server.shards) checkArenaAtRest(engine);
    return client.takeReceived().toString("latin1");
  };
  return { server, ask };
}

/** Bytes of which each is where it belongs. */
function bodyOf(bytes: number): string {
  return Buffer.from(new Uint8Array(bytes).map((_, at) => 33 + ((at + (at >> 8)) % 90))).toString("latin1");
}

const put = (bytes: number, options = ""): string =>
  `put-in-tube ${HERE} 0 0 60 ${bytes}${options}\r\n${bodyOf(bytes)}\r\n`;
const found = (id: number, bytes: number): string => `FOUND ${id} ${bytes}\r\n${bodyOf(bytes)}\r\n`;
const MOVE = `move-jobs ${HERE} ${THERE}\r\n`;

/** What a shard says to others from now on. */
function wordsOf({ shards }: InProcessServer, shard: number): number[] {
  const words: number[] = [];
  for (const port of shards[shard]!.ports) {
    const begin = port.beginCarry.bind(port);
    port.beginCarry = (kind, ...rest) => {
      words.push(kind);
      begin(kind, ...rest);
    };
  }
  return words;
}

describe("jobs that move to another shard", () => {
  const kinds = [
    ["without attributes", () => ""],
    ["with a time to live", () => " ttl=600"],
    [
      "with a group and a unique key",
      (key: number) => ` unique=${"k".repeat(190)}${key} group=${"g".repeat(50)} ttl=600`,
    ],
  ] as const;
  for (const [kind, options] of kinds) {
    it(`arrive whole, ${kind}, whatever size two of them have together`, () => {
      const { ask } = scene();
      let id = 0;
      const firstBytes = 5000;
      for (let together = MESSAGE_BYTES_MAX - 1200; together <= MESSAGE_BYTES_MAX + 40; together += 7) {
        const secondBytes = together - firstBytes;
        assert.equal(ask(put(firstBytes, options(1))), `INSERTED ${++id}\r\n`);
        assert.equal(ask(put(secondBytes, options(2))), `INSERTED ${++id}\r\n`);
        assert.equal(ask(MOVE), "MOVED 2\r\n", `${firstBytes} and ${secondBytes} bytes`);
        assert.equal(ask(`peek ${id - 1}\r\n`), found(id - 1, firstBytes));
        assert.equal(ask(`peek ${id}\r\n`), found(id, secondBytes));
        assert.equal(ask(`delete ${id - 1}\r\ndelete ${id}\r\n`), "DELETED\r\nDELETED\r\n");
      }
    });

    it(`arrive whole, ${kind}, in one piece or in several`, () => {
      const { ask } = scene();
      let id = 0;
      for (let bytes = MESSAGE_BYTES_MAX - 1000; bytes <= MESSAGE_BYTES_MAX + 100; bytes += 7) {
        assert.equal(ask(put(bytes, options(1))), `INSERTED ${++id}\r\n`);
        assert.equal(ask(MOVE), "MOVED 1\r\n", `${bytes} bytes`);
        assert.equal(ask(`peek ${id}\r\n`), found(id, bytes));
        assert.equal(ask(`delete ${id}\r\n`), "DELETED\r\n");
      }
    });
  }
});

describe("a shard without memory for jobs that move there", () => {
  for (const [what, bytes] of [
    ["in one message", 10_000],
    ["in pieces, for none of them", 40_000],
    ["in pieces, for the later of them", 5 * MIB],
  ] as const) {
    it(`refuses a job that comes ${what}, and the job stays whole where it was`, () => {
      // Room for two MiB, one of which a job of another size has.
      const { server, ask } = scene(bytes > MIB ? 2 * MIB : MIB);
      const blocker = `put-in-tube ${THERE} 0 0 60 100\r\n${bodyOf(100)}\r\n`;
      assert.equal(ask(blocker), "INSERTED 1\r\n");
      assert.equal(ask(put(bytes, " ttl=600")), "INSERTED 2\r\n");
      for (let time = 0; time < 3; time++) {
        assert.match(ask(MOVE), /^(MOVED 0|OUT_OF_MEMORY)\r\n$/);
        assert.equal(ask("peek 2\r\n"), found(2, bytes));
        assert.match(ask(`stats-job 2\r\n`), new RegExp(`\\ntube: ${HERE}\\nstate: ready\\n`));
        assert.equal(server.shards[1]!.engine.jobs.live, 1);
      }
    });
  }

  it("reports nothing more about a job in pieces after its refusal", () => {
    const { server, ask } = scene(MIB);
    const said = wordsOf(server, 1);
    assert.equal(
      ask(`put-in-tube ${THERE} 0 0 60 100\r\n${bodyOf(100)}\r\n${put(40_000)}`),
      "INSERTED 1\r\nINSERTED 2\r\n",
    );
    assert.match(ask(MOVE), /^(MOVED 0|OUT_OF_MEMORY)\r\n$/);
    assert.deepEqual(said, [TransferMessage.Landed]);
  });

  it("accepts the jobs of a transfer that fit into memory, and no other", () => {
    const { server, ask } = scene(MIB);
    for (let id = 1; id <= 4; id++) assert.equal(ask(put(id === 3 ? 3000 : 200)), `INSERTED ${id}\r\n`);
    assert.match(ask(MOVE), /^(MOVED 2|OUT_OF_MEMORY)\r\n$/);
    assert.deepEqual(
      server.shards.map(({ engine }) => engine.jobs.live),
      [2, 2],
    );
    for (let id = 1; id <= 4; id++) assert.equal(ask(`peek ${id}\r\n`), found(id, id === 3 ? 3000 : 200));
  });
});

describe("a tube that is full", () => {
  for (const [what, bytes] of [
    ["in one message", 10_000],
    ["in pieces", 40_000],
  ] as const)
    it(`refuses a job that comes ${what}, and keeps nothing of it`, () => {
      const { ask } = scene();
      assert.equal(ask(`set-tube ${THERE} max-jobs=1\r\n`), "SET\r\n");
      assert.equal(ask(`put-in-tube ${THERE} 0 0 60 1\r\nx\r\n`), "INSERTED 1\r\n");
      assert.equal(ask(put(bytes)), "INSERTED 2\r\n");
      for (let time = 0; time < 3; time++) {
        assert.match(ask(MOVE), /^(?:MOVED 0|TUBE_FULL)\r\n$/);
        assert.equal(ask("peek 2\r\n"), found(2, bytes));
      }
    });
});
