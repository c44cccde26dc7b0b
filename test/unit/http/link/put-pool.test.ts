// Tests of puts sent to shards: the bytes reserved for them, before any of a batch is sent and
// until its end, their connections, and the pieces of a batch.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PutPool } from "../../../../src/http/link/put-pool.ts";
import type { PutOutcome, WireClients } from "../../../../src/http/link/wire-connection.ts";
import { soon } from "../../../support/eventually.ts";

const MIB = 1 << 20;
const BYTES_MAX = 128 * MIB;
const CONNECTIONS_MAX = 8;
/** Commands under way from which a connection counts as busy. */
const BUSY = 100;
/** A longer body has a connection of its own. */
const GATHERED_BYTES_MAX = 32 * 1024;
const SCRATCH_BYTES = 2 * GATHERED_BYTES_MAX;
const put = { tube: "t", pri: 0, delay: 0, ttr: 1 };

function scene(): { pool: PutPool; lines: string[]; puts: PromiseWithResolvers<PutOutcome>[] } {
  const lines: string[] = [];
  const puts: PromiseWithResolvers<PutOutcome>[] = [];
  const connection = {
    ...{ isGone: false, underWay: 0, close() {} },
    put(line: string) {
      lines.push(line);
      const outcome = Promise.withResolvers<PutOutcome>();
      puts.push(outcome);
      return outcome.promise;
    },
  };
  return { pool: new PutPool({ open: () => connection } as unknown as WireClients, 1), lines, puts };
}

describe("PutPool", () => {
  it("writes delays in milliseconds, as the command accepts them", () => {
    const { pool, lines } = scene();
    for (const delay of [0, 1, 0.1 + 0.2, 1e-7, 0.0005, 1.9996, 2 ** 32 - 1])
      void pool.put({ ...put, delay }, "");
    assert.deepEqual(
      lines.map((line) => line.split(" ")[3]),
      ["0", "1", "0.3", "0", "0.001", "2", "4294967295"],
    );
  });

  it("has room for all large bodies of a batch, or puts none", async () => {
    const { pool, puts } = scene();
    const batch = pool.putMany([MIB, 20 * MIB].map((bytes) => ({ put, body: new Uint8Array(bytes) })));
    // Comes while the first is under way, and is more than there is room for beside both.
    const other = (async () => pool.put(put, new Uint8Array(120 * MIB)))();
    other.catch(() => {});
    puts[0]!.resolve({ id: 1 });
    await soon("the second is put", () => puts.length === 2);
    puts[1]!.resolve({ id: 2 });
    puts[2]?.resolve({ id: 3 });
    assert.deepEqual(await batch, [{ id: 1 }, { id: 2 }]);
    await assert.rejects(other, /too many bytes/);
  });
});

type Ending = "taken" | "refused" | "broken off";

/** A connection whose commands all end in the same way. */
class Stand {
  readonly pieces: string[] = [];
  readonly #ending: Ending;
  isOver = false;
  underWay = 0;
  closed = 0;

  constructor(ending: Ending) {
    this.#ending = ending;
  }

  put(): Promise<PutOutcome> {
    return this.#end<PutOutcome>({ id: 1 }, { refusal: "OUT_OF_MEMORY" });
  }

  puts(pieces: () => Uint8Array | undefined, count: number): Promise<PutOutcome[]> {
    for (let piece = pieces(); piece !== undefined; piece = pieces())
      this.pieces.push(Buffer.from(piece).toString("latin1"));
    const all = (outcome: PutOutcome): PutOutcome[] => Array.from({ length: count }, () => outcome);
    return this.#end(all({ id: 1 }), all({ refusal: "OUT_OF_MEMORY" }));
  }

  command(): Promise<{ line: string }> {
    return this.#end({ line: "INSERTED 1" }, { line: "OUT_OF_MEMORY" });
  }

  feed(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {
    this.closed++;
  }

  #end<T>(taken: T, refused: T): Promise<T> {
    if (this.#ending === "broken off") return Promise.reject(new Error("broken off"));
    return Promise.resolve(this.#ending === "taken" ? taken : refused);
  }
}

function stands(ending: Ending): { pool: PutPool; opened: Stand[] } {
  const opened: Stand[] = [];
  const open = (): Stand => {
    opened.push(new Stand(ending));
    return opened.at(-1)!;
  };
  return { pool: new PutPool({ open } as unknown as WireClients, 1), opened };
}

async function* pieces(...lengths: number[]): AsyncGenerator<Uint8Array> {
  for (const length of lengths) yield new Uint8Array(length);
}

/** Exactly all bytes can be reserved. */
function mustBeEmpty(pool: PutPool, what: string): void {
  pool.hold(1);
  pool.hold(BYTES_MAX - 1);
  assert.throws(() => pool.hold(1), /too many bytes/, what);
  pool.give(BYTES_MAX);
}

describe("bytes reserved for puts", () => {
  const job = (bytes: number) => ({ put, body: new Uint8Array(bytes) });
  interface Way {
    readonly act: (pool: PutPool) => Promise<unknown>;
    /** Connections that it opens for itself alone. */
    readonly own?: number;
    /** Its fault, whatever the replies are. */
    readonly fault?: RegExp;
  }
  const ways: Readonly<Record<string, Way>> = {
    "a short job": { act: (pool) => pool.put(put, new Uint8Array(10)) },
    "a long job": { act: (pool) => pool.put(put, new Uint8Array(MIB)), own: 1 },
    "a batch": { act: (pool) => pool.putMany([job(10), job(0), job(100)]) },
    "a batch of long jobs": { act: (pool) => pool.putMany([job(MIB), job(2 * MIB)]), own: 2 },
    "a body in pieces": { act: (pool) => pool.putPieces(put, 50, pieces(20, 30)), own: 1 },
    "a short body": {
      ...{ act: (pool: PutPool) => pool.putPieces(put, 50, pieces(20, 29)), own: 1 },
      fault: /too early/,
    },
    "a body that goes on": {
      ...{ act: (pool: PutPool) => pool.putPieces(put, 50, pieces(20, 31)), own: 1 },
      fault: /more bytes/,
    },
  };
  for (const [what, { act, own = 0, fault }] of Object.entries(ways))
    for (const ending of ["taken", "refused", "broken off"] as const)
      it(`are given back after ${what}, ${ending}`, async () => {
        const { pool, opened } = stands(ending);
        const why = fault ?? (ending === "broken off" ? /broken off/ : undefined);
        if (why === undefined) await act(pool);
        else await assert.rejects(act(pool), why);
        mustBeEmpty(pool, what);
        const closed = opened.filter((each) => each.closed === 1).length;
        const begun = ending === "broken off" ? Math.min(own, 1) : own;
        assert.equal(closed, begun, "its own connections are closed");
        assert.equal(opened.length, Math.max(1, begun));
      });

  it("are limited, except for a single job", async () => {
    const { pool } = stands("taken");
    const first = pool.put(put, { length: BYTES_MAX + 1 } as Uint8Array);
    assert.throws(() => void pool.put(put, new Uint8Array(1)), /too many bytes/);
    await first;
    mustBeEmpty(pool, "a job above the limit");
  });
});

describe("connections for puts", () => {
  it("are opened while all others are busy, up to eight of a shard; then the least busy one serves", () => {
    const { pool, opened } = stands("taken");
    const putOne = (): void => void pool.put(put, "x");
    for (let time = 0; time < 3; time++) putOne();
    assert.equal(opened.length, 1);
    opened[0]!.underWay = BUSY - 1;
    putOne();
    assert.equal(opened.length, 1);
    for (let count = 1; count < CONNECTIONS_MAX; count++) {
      opened.at(-1)!.underWay = BUSY;
      putOne();
      assert.equal(opened.length, count + 1);
    }
    for (const [index, each] of opened.entries()) each.underWay = BUSY + (index === 5 ? 0 : 1);
    const calls: number[] = [];
    for (const [index, each] of opened.entries()) {
      each.put = () => {
        calls.push(index);
        return Promise.resolve({ id: 1 });
      };
    }
    putOne();
    assert.deepEqual([opened.length, calls], [CONNECTIONS_MAX, [5]]);
    opened[5]!.isOver = true;
    putOne();
    assert.equal(opened.length, CONNECTIONS_MAX + 1, "another one takes the place of one that is over");
  });
});

describe("the pieces of a batch", () => {
  it("join as many whole puts as fit, and are the same bytes whatever their lengths", async () => {
    const lineBytes = (bytes: number): number => `put-in-tube t 0 0 1 ${bytes}`.length;
    const half = SCRATCH_BYTES / 2;
    // Two puts fill a piece exactly, or exceed it by 1.
    const full = half - lineBytes(half) - 4;
    for (const [lengths, counts] of [
      [[full, full], [2]],
      [
        [full, full + 1],
        [1, 1],
      ],
      [
        [full, full - 1, 0],
        [2, 1],
      ],
      [
        [GATHERED_BYTES_MAX, GATHERED_BYTES_MAX],
        [1, 1],
      ],
      [Array.from({ length: 9 }, () => full), [2, 2, 2, 2, 1]],
    ] as const)
      for (const asText of [true, false]) {
        const { pool, opened } = stands("taken");
        const bodies = lengths.map((length, index) => String.fromCharCode(97 + index).repeat(length));
        await pool.putMany(bodies.map((body) => ({ put, body: asText ? body : Buffer.from(body) })));
        const said = bodies.map((body) => `put-in-tube t 0 0 1 ${body.length}\r\n${body}\r\n`);
        const { pieces: sent } = opened[0]!;
        assert.ok(sent.join("") === said.join(""), `${lengths}`);
        assert.deepEqual(
          sent.map((piece) => piece.split("put-in-tube").length - 1),
          counts,
          `${lengths}`,
        );
      }
  });
});
