// Tests of lent ids: they count once the record that states the lend is durable, not before.

import assert from "node:assert/strict";
import { it } from "node:test";
import { IdLending } from "../../../../src/binlog/live/log-writer.ts";

const LENT = 100;

it("ids may be seen once the record of their lend is durable, whatever was synced before", () => {
  const lending = new IdLending(LENT);
  assert.ok(lending.isDue(1));
  lending.extend(1);
  lending.lent(5);
  lending.synced(4);
  assert.deepEqual([lending.durableUpTo, lending.waitsForSync(4)], [0, true]);
  lending.synced(5);
  assert.deepEqual([lending.durableUpTo, lending.waitsForSync(5)], [1 + LENT, false]);
  assert.ok(!lending.isDue(1 + LENT / 2) && lending.isDue(2 + LENT / 2));
  lending.extend(2 + LENT / 2);
  lending.lent(8);
  lending.synced(7);
  assert.equal(lending.durableUpTo, 1 + LENT, "those of before are still lent");
  lending.synced(9);
  assert.equal(lending.durableUpTo, 2 + LENT / 2 + LENT);
});
