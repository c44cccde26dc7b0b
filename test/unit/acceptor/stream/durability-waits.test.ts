import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { DurabilityWaits } from "../../../../src/acceptor/stream/outbox.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const reply = fc.record({
  bytes: fc.integer({ min: 1, max: 50 }),
  shard: fc.nat(2),
  /** Whether it waits for a record, and whether the log takes a step before it. */
  waits: fc.boolean(),
  logged: fc.nat(3),
});

it("DurabilityWaits releases a reply once its record is in the log, and all replies once all are", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(reply, { maxLength: 60 }), (replies) => {
      const holds = new DurabilityWaits();
      const made = [0, 0, 0];
      const logged = [0, 0, 0];
      const sent: { endsAt: number; shard: number; number: number }[] = [];
      let answered = 0;
      let left = 0;
      const flush = (): void => {
        while (!holds.empty && holds.number <= logged[holds.shard]!) holds.shift();
        const limit = holds.empty ? answered - left : holds.position;
        assert.ok(limit >= 0);
        left += limit;
        holds.moved(limit);
        for (const { endsAt, shard, number } of sent)
          if (endsAt <= left)
            assert.ok(number <= logged[shard]!, "a reply left before its record was logged");
      };
      for (const { bytes, shard, waits, logged: steps } of replies) {
        if (waits) {
          made[shard]!++;
          holds.add(answered - left, shard, made[shard]!);
          sent.push({ endsAt: answered + bytes, shard, number: made[shard]! });
        }
        answered += bytes;
        logged[shard] = Math.min(made[shard]!, logged[shard]! + steps);
        flush();
      }
      logged.splice(0, 3, ...made);
      flush();
      assert.equal(left, answered);
    }),
    300,
  );
});

it("DurabilityWaits releases the first reply of an endless pipeline once its own record is in the log", () => {
  const holds = new DurabilityWaits();
  for (let number = 1; number <= 100; number++) holds.add(10 * (number - 1), 0, number);
  assert.equal(holds.number, 1);
  holds.shift();
  assert.equal(holds.position, 10);
});

it("DurabilityWaits keeps one place per change of shard", () => {
  const holds = new DurabilityWaits();
  for (let number = 1; number <= 1000; number++) holds.add(number, number % 200 < 100 ? 0 : 1, number);
  let places = 0;
  for (; !holds.empty; holds.shift()) places++;
  // Eleven stretches of one shard, and the first place, which never changes.
  assert.equal(places, 12);
});
