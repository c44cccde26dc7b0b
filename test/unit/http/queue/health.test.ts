// Tests of what is known of all shards: the signs of a batch are the sums over its shards.

import assert from "node:assert/strict";
import { it } from "node:test";
import { knownSigns } from "../../../../src/http/queue/health.ts";
import type { Service } from "../../../../src/http/queue/service.ts";
import type { BatchSign, FlowSigns } from "../../../../src/message/control.ts";

/** A service whose shards report these signs of batches, in order. */
function serviceOf(...shards: (readonly BatchSign[])[]): Service {
  const none = { count: 0, first: [] };
  const schedules = { paused: none, refused: none, missing: none };
  const control = {
    shards: shards.length,
    askParts: async (shard: number, _verb: string, _question: undefined, take: (part: FlowSigns) => void) =>
      take({ batches: shards[shard]!, schedules }),
    valueOf: (part: FlowSigns) => part,
  };
  return { control, topology: {}, nowMs: () => 0, state: { phase: "serving" } } as unknown as Service;
}

it("a batch has the name that any shard knows, and the sums of all", async () => {
  for (const shards of [
    [[7, "rows", 2, 1, 0] as const, [7, "", 0, 0, 3] as const],
    [[7, "", 0, 0, 3] as const, [7, "rows", 2, 1, 0] as const],
  ]) {
    const { batches } = await knownSigns(serviceOf(...shards.map((sign) => [sign])));
    assert.deepEqual(batches, [[7, "rows", 2, 1, 3]]);
  }
});
