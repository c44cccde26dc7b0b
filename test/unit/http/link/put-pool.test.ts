// Tests of puts sent to shards, and of the reservation of bytes for a whole batch before any of it
// is sent.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PutPool } from "../../../../src/http/link/put-pool.ts";
import type { WireClients } from "../../../../src/http/link/wire-clients.ts";
import type { PutOutcome } from "../../../../src/http/link/wire-connection.ts";

const MIB = 1 << 20;
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
    while (puts.length < 2) await Promise.resolve();
    puts[1]!.resolve({ id: 2 });
    puts[2]?.resolve({ id: 3 });
    assert.deepEqual(await batch, [{ id: 1 }, { id: 2 }]);
    await assert.rejects(other, /too many bytes/);
  });
});
