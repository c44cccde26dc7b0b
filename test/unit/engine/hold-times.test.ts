// Tests of the measured time that a job was held, whatever ends the hold.

import assert from "node:assert/strict";
import { it } from "node:test";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import { EngineBench } from "./engine-bench.ts";

const NOTHING: JobChange = {
  pri: undefined,
  delayMs: undefined,
  ttrSeconds: undefined,
  ttlMs: undefined,
  tube: undefined,
};

/** Returns the times of holds that a change of a job measures, held for three seconds. */
function heldMs(change: Partial<JobChange>): number[] {
  const held: number[] = [];
  const bench = new EngineBench({
    waited: () => {},
    held: (ms) => void held.push(ms),
    stored: () => {},
    of: () => undefined,
  });
  const session = bench.session(0, "t", "t");
  bench.put(session, { ttr: 60 });
  bench.reserve(session);
  bench.nowMs = 3000;
  bench.engine.changes.update(session, 1, { ...NOTHING, ...change }, bench.nowMs);
  bench.check();
  return held;
}

it("a job that update-job returns was held since it was reserved", () => {
  for (const ttrSeconds of [undefined, 1, 60, 5000])
    for (const where of [{ delayMs: 0 }, { delayMs: 9000 }, { tube: "t" }, { tube: "other" }])
      assert.deepEqual(heldMs({ ttrSeconds, ...where }), [3000], JSON.stringify({ ttrSeconds, ...where }));
});

it("a job that its holder keeps is measured later", () => {
  assert.deepEqual(heldMs({ ttrSeconds: 5000, pri: 7, ttlMs: 10_000 }), []);
});
