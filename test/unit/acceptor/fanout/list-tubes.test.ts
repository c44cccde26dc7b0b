// Tests of replies that are written piece by piece: whole and in order, however many names or jobs
// there are, and in turns with others.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ConversationHost } from "../../../../src/acceptor/fanout/conversation.ts";
import { ListReplies } from "../../../../src/acceptor/fanout/list-reply.ts";
import { type TubeLister, TubeListings } from "../../../../src/acceptor/fanout/list-tubes.ts";
import { InspectWatched, ListWatched } from "../../../../src/acceptor/fanout/list-watched.ts";
import { BatchReply, GatheredJobs } from "../../../../src/acceptor/fanout/pick-batch.ts";
import { TubeRef, WatchList } from "../../../../src/acceptor/state/watch-list.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { ControlWord } from "../../../../src/message/topology.ts";
import { Request, Span } from "../../../../src/protocol/request.ts";
import { JobIds } from "../../../../src/ring/shared-words.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const PIECE_BYTES = 32 * 1024;
/** Pieces in a turn, of all replies. */
const TURN_PIECES = 8;

/** A client that gets pieces as long as it reads. */
class Client {
  readonly pieces: string[] = [];
  posts = 0;
  reads = true;
  ended = 0;
  readonly host: ConversationHost = {
    isClient: this,
    appendPiece: (bytes: Uint8Array, length: number, first: boolean) => {
      assert.equal(first, this.pieces.length === 0);
      assert.ok(length > 0 && length <= PIECE_BYTES, `a piece of ${length} bytes`);
      this.pieces.push(Buffer.from(bytes.subarray(0, length)).toString("latin1"));
    },
    finishConversation: () => void this.ended++,
    message: () => new Request(),
    post: () => void this.posts++,
    get mayTakeMore(): boolean {
      return (this as unknown as { isClient: Client }).isClient.reads;
    },
  } as Partial<ConversationHost> as ConversationHost;

  get text(): string {
    return this.pieces.join("");
  }
}

function watching(names: readonly string[]): WatchList {
  const watched = new WatchList(1);
  for (const name of names) watched.add(new TubeRef(name, 1));
  return watched;
}

function writeAll(replies: ListReplies): number {
  let turns = 0;
  for (; replies.hasWork; turns++) replies.turn();
  return turns;
}

describe("a list of watched tubes", () => {
  for (const count of [1, 2, 127, 128, 129, 256, 257])
    it(`has all ${count} of them, each once, and the size that it announces`, () => {
      const names = Array.from({ length: count }, (_, tube) => `tube-${tube}`);
      for (const List of [InspectWatched, ListWatched]) {
        const client = new Client();
        const replies = new ListReplies();
        if (List === InspectWatched) new InspectWatched(client.host, watching(names), undefined, replies);
        else new ListWatched(client.host, watching(names), replies);
        writeAll(replies);
        const [, bytes, text] = /^OK (\d+)\r\n(.*)\r\n$/s.exec(client.text)!;
        assert.equal(text!.length, Number(bytes));
        assert.deepEqual(text!.match(/tube-\d+/g), names);
        assert.equal(client.ended, 1);
      }
    });

  it("fills its pieces to the last byte, and no further", () => {
    for (const spare of [0, 1, 2, 3]) {
      const client = new Client();
      const replies = new ListReplies();
      // The head, entries of 203 bytes each, and one that leaves this many bytes.
      const head = "OK 32758\r\n---\n".length;
      const whole = Math.floor((PIECE_BYTES - head - 2 - 210) / 203);
      const rest = PIECE_BYTES - head - whole * 203 - spare;
      const names = Array.from({ length: whole }, (_, tube) => `${tube}`.padStart(200, "x"));
      names.push("y".repeat(Math.min(200, rest - 3 - 203)), "z".repeat(200));
      new ListWatched(client.host, watching(names), replies);
      writeAll(replies);
      assert.equal(client.text.match(/^- /gm)!.length, names.length);
      assert.match(client.text, /z{200}\n\r\n$/);
    }
  });
});

describe("replies in pieces", () => {
  it("take turns, none twice before all others, and all are written", () => {
    for (const count of [1, TURN_PIECES, TURN_PIECES + 1, 2 * TURN_PIECES + 1]) {
      const replies = new ListReplies();
      const log: number[] = [];
      for (let each = 0; each < count; each++) {
        let left = 3;
        const reply = {
          queued: false,
          mayGoOn: true,
          writePiece: () => {
            log.push(each);
            return --left === 0;
          },
        };
        replies.add(reply, () => log.push(-1));
      }
      const turns = writeAll(replies);
      assert.equal(turns, Math.max(3, Math.ceil((3 * count) / TURN_PIECES)), `${count} replies`);
      const order = log.filter((each) => each >= 0);
      for (let each = 0; each < count; each++)
        assert.equal(order.filter((other) => other === each).length, 3, `reply ${each} of ${count}`);
      for (let round = 0; round < 3; round++)
        assert.equal(new Set(order.slice(round * count, (round + 1) * count)).size, count);
      assert.equal(log.length - order.length, count, "each ends once");
    }
  });

  it("wait for a client that doesn't read, and go on when it does", () => {
    const client = new Client();
    const replies = new ListReplies();
    const list = new ListWatched(client.host, watching(["a"]), replies);
    client.reads = false;
    replies.turn();
    assert.deepEqual([client.pieces.length, replies.hasWork], [0, false]);
    client.reads = true;
    list.onRoom();
    list.onRoom();
    assert.equal(writeAll(replies), 1);
    assert.deepEqual([client.text, client.ended], ["OK 8\r\n---\n- a\n\r\n", 1]);
  });
});

/** The part of a batch that a shard sends: sizes, then jobs. */
function part(sizes: readonly number[], letter: string): GatheredJobs {
  const bytesMax = sizes.reduce((sum, size) => sum + size, 0);
  const gathered = new GatheredJobs(sizes.length, bytesMax);
  const bytes = new Uint8Array(4 * sizes.length + bytesMax);
  for (const [index, size] of sizes.entries()) new DataView(bytes.buffer).setUint32(4 * index, size, true);
  bytes.fill(letter.charCodeAt(0), 4 * sizes.length);
  const span = new Span();
  span.set(bytes, 0, bytes.length);
  gathered.add(span);
  return gathered;
}

it("a batch of several shards has its jobs in order, whatever their sizes and the gaps", () => {
  const head = "RESERVED_BATCH 2\r\n".length;
  for (const [first, second, third] of [
    [10, 20, 30],
    [PIECE_BYTES - head, 20, 30],
    [PIECE_BYTES - head - 1, 1, 1],
    [PIECE_BYTES - head + 1, 20, 30],
    [3 * PIECE_BYTES - head, PIECE_BYTES, 30],
    [10, 20, 0],
    [10, 0, PIECE_BYTES],
    [0, 0, 7],
  ] as const) {
    const client = new Client();
    const parts = new Map([
      [0, part([first, third], "a")],
      [1, part([second], "b")],
    ]);
    const reply = new BatchReply(client.host, [0, 1, 0], parts);
    for (let pieces = 1; !reply.writePiece(); pieces++) assert.ok(pieces < 9, "it ends");
    const jobs = [first, second, third].filter((size) => size > 0).length;
    const expected = `RESERVED_BATCH ${jobs}\r\n${"a".repeat(first)}${"b".repeat(second)}${"a".repeat(third)}`;
    assert.ok(client.text === expected, `jobs of ${first}, ${second} and ${third} bytes`);
  }
});

describe("lists of tubes that clients share", () => {
  const SHARDS = 2;
  const asker = (): TubeLister & { readonly client: Client; readonly got: string[] } => {
    const client = new Client();
    const got: string[] = [];
    return {
      client,
      got,
      host: client.host,
      read: () => void got.push("list"),
      refuse: () => got.push("no"),
    };
  };
  const tubes = (bytes: number): Span => {
    const span = new Span();
    const entry = Buffer.concat([Buffer.alloc(8), Buffer.from([1]), asciiBytes("t")]);
    span.set(
      new Uint8Array(Buffer.alloc(bytes - (bytes % entry.length), entry)),
      0,
      bytes - (bytes % entry.length),
    );
    return span;
  };

  it("are asked for again if the client leaves to which the shards send one", () => {
    const listings = new TubeListings(SHARDS);
    const [first, second, third] = [asker(), asker(), asker()];
    listings.ask(first);
    for (const each of [second, third]) listings.ask(each);
    assert.equal(first.client.posts, SHARDS);
    // Both wait for the next list, which the second asks for.
    for (let shard = 0; shard < SHARDS; shard++) listings.onShardDone();
    assert.deepEqual([first.got, second.client.posts, third.client.posts], [["list"], SHARDS, 0]);
    const fourth = asker();
    listings.ask(fourth);
    listings.leave(second);
    assert.equal(third.client.posts, SHARDS, "on behalf of all that are left");
    for (let shard = 0; shard < SHARDS; shard++) listings.onShardDone();
    assert.deepEqual([second.got, third.got, fourth.got], [[], ["list"], ["list"]]);
  });

  it("are refused while too many bytes are unread, and not afterwards", () => {
    const listings = new TubeListings(1);
    const bytes = 64 * 1024 * 1024;
    const kept: Parameters<TubeLister["read"]>[0][] = [];
    const reader = (): TubeLister => ({ ...asker(), read: (listing) => void kept.push(listing) });
    for (let each = 0; each < 2; each++) {
      listings.ask(reader());
      listings.onTubes(0, tubes(bytes + 10));
      listings.onShardDone();
    }
    assert.equal(kept.length, 2);
    const refused = asker();
    listings.ask(refused);
    assert.deepEqual([refused.got, refused.client.posts], [["no"], 0]);
    listings.doneReading(kept[0]!);
    const later = asker();
    listings.ask(later);
    assert.equal(later.client.posts, 1);
    listings.onShardDone();
    assert.deepEqual(later.got, ["list"]);
  });
});

// Test that list-tubes keeps the order of creation, however long a server runs.

for (const made of [0, 2 ** 31 - 3, 2 ** 32 - 3, 2 ** 40]) {
  it(`list-tubes lists tubes in the order of their creation after ${made} tubes`, () => {
    const server = new InProcessServer({ shards: 3, acceptors: 1, random: new SeededRandom(1) });
    if (made > 0) new JobIds(new Int32Array(server.topology.control), ControlWord.TubeSequence).reset(made);
    const client = server.connect();
    const ask = (text: string): string => {
      client.write(Buffer.from(text));
      server.settle();
      return client.takeReceived().toString();
    };
    const names = Array.from({ length: 8 }, (_, i) => `${(i * 5) % 8}`);
    for (const name of names) ask(`watch ${name}\r\n`);
    assert.deepEqual(ask("list-tubes\r\n").match(/(?<=- ).*(?=\n)/g), ["default", ...names]);
  });
}
