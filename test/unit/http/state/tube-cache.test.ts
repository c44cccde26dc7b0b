// Tests of the table of tubes that the shards' rows make.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ControlClient } from "../../../../src/http/link/control-client.ts";
import { TubeCache } from "../../../../src/http/state/tube-cache.ts";
import { TUBE_ROWS_AT } from "../../../../src/message/control.ts";
import { TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

it("A tube whose best job is dead is known as a dead-letter tube, on whichever shard", async () => {
  const server = new HandDrivenServer(4, undefined, { http: true });
  const client = server.connect(true);
  for (const letter of "abcdef") {
    client.say(`set-tube ${letter} max-attempts=1 dead-letter=${letter}-dead\r\nuse ${letter}\r\n`);
    client.say(`put 0 0 60 1\r\nx\r\nwatch ${letter}\r\nreserve\r\n`);
    server.settle();
    const [, id] = /^RESERVED (\d+) /m.exec(client.take())!;
    client.say(`release ${id} 0 0\r\n`);
    server.settle();
  }
  for (const letter of "abcdef") client.say(`use ${letter}\r\nput 0 0 60 1\r\ny\r\n`);
  server.settle();
  const cache = new TubeCache(new ControlClient(server.http!, () => {}), () => 1000);
  const table = cache.fresh();
  server.settle();
  const tubes = await table;
  for (const letter of "abcdef") {
    assert.equal(tubes.get(`${letter}-dead`)?.get(TubeField.holdsDead), 1, letter);
    assert.equal(tubes.get(letter)?.get(TubeField.holdsDead), 0, letter);
  }
});

/** The part of an answer with these rows. */
function partOf(rows: readonly (readonly [name: string, sequence: number, puts: number])[]): Uint8Array {
  const part = Buffer.alloc(TUBE_ROWS_AT + rows.length * TUBE_FIELDS * 8);
  part.writeUInt32LE(rows.length, 0);
  for (const [index, [, sequence, puts]] of rows.entries()) {
    const at = (field: number): number => TUBE_ROWS_AT + (index * TUBE_FIELDS + field) * 8;
    part.writeDoubleLE(sequence, at(TubeField.sequence));
    part.writeDoubleLE(puts, at(TubeField.puts));
  }
  const names = rows.flatMap(([name]) => [Buffer.from([name.length]), Buffer.from(name)]);
  return Buffer.concat([part, ...names]);
}

/** A cache whose shard answers with `rows`, or fails; `asked` counts its questions. */
function cacheOf(tubes: number) {
  const state = { nowMs: 0, asked: 0, fails: false, puts: 0, sequence: 1 };
  const control = {
    shards: 1,
    askParts: async (_shard: number, _verb: string, _details: object, onPart: (part: Uint8Array) => void) => {
      state.asked++;
      await Promise.resolve();
      if (state.fails) throw new Error("busy");
      for (let from = 0; from < tubes; from += 1000)
        onPart(
          partOf(
            Array.from({ length: Math.min(1000, tubes - from) }, (_, index) => [
              `t${from + index}`,
              state.sequence,
              state.puts,
            ]),
          ),
        );
    },
  } as unknown as ControlClient;
  return { state, cache: new TubeCache(control, () => state.nowMs) };
}

it("The table is made again once it is too old, by one question, and after a failure", async () => {
  const { state, cache } = cacheOf(2);
  await cache.fresh();
  for (const [nowMs, ageMsMax, asked] of [
    [1000, undefined, 1],
    [1001, undefined, 2],
    [1201, 200, 2],
    [1202, 200, 3],
  ] as const) {
    state.nowMs = nowMs;
    await Promise.all([cache.fresh(ageMsMax), cache.fresh(ageMsMax)]);
    assert.equal(state.asked, asked, `at ${nowMs}`);
  }
  state.nowMs = 5000;
  state.fails = true;
  const failed = await Promise.allSettled([cache.fresh(), cache.fresh()]);
  assert.deepEqual([failed.map(({ status }) => status), state.asked], [["rejected", "rejected"], 4]);
  await assert.rejects(cache.fresh(), /busy/);
  state.fails = false;
  assert.deepEqual([[...(await cache.fresh()).keys()], state.asked], [["t0", "t1"], 6]);
});

it("The table of very many tubes is made less often", async () => {
  const { state, cache } = cacheOf(150_000);
  await cache.fresh();
  state.nowMs = 1500;
  await cache.fresh();
  assert.equal(state.asked, 1);
  state.nowMs = 1501;
  assert.equal((await cache.fresh()).size, 150_000);
  assert.equal(state.asked, 2);
});

it("Rates cover the last five to ten seconds, and begin anew with a tube of the same name", async () => {
  const { state, cache } = cacheOf(1);
  const rateAt = async (nowMs: number, puts: number): Promise<number> => {
    Object.assign(state, { nowMs, puts });
    return (await cache.fresh(0)).get("t0")!.rate(TubeField.puts);
  };
  assert.equal(await rateAt(1000, 0), 0, "there is no period yet");
  assert.equal(await rateAt(3000, 20), 10);
  assert.equal(await rateAt(5999, 20), 20 / 4.999);
  assert.equal(await rateAt(6000, 20), 4, "this is the next reference, not yet in use");
  assert.equal(await rateAt(10_000, 20), 20 / 9);
  assert.equal(await rateAt(11_000, 20), 0, "from 6000 on");
  assert.equal(await rateAt(12_000, 26), 1);
  state.sequence = 2;
  assert.equal(await rateAt(13_000, 50), 0, "it is another tube");
  assert.equal(await rateAt(14_000, 60), 10);
});
