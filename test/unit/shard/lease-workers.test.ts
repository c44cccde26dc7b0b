// The names of the workers that hold leases: the right one for each job, and no more than there are
// leases.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { LeaseWorkers } from "../../../src/shard/shard-core.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";

const LEASES = 5;

it("each lease has its worker's name, and names of ended leases are forgotten", () => {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const session = engine.session(0);
  engine.use(session, "default");
  const workers = new LeaseWorkers(engine, session.index);
  for (let id = 1; id <= 1000; id++) {
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    assert.equal(engine.put(session, job, EMPTY_BODY, 0), Outcome.Done);
    assert.equal(engine.reserveJob(session, id, 0), Outcome.Done);
    workers.note(id, `w${id % 3}`);
    // Some end in each way, and the table learns of none.
    const over = id - LEASES;
    if (over > 0 && over % 2 === 0) engine.delete(session, over, 0);
    else if (over > 0) engine.release(session, over, 0, 0, 0);
    for (let held = Math.max(1, over + 1); held <= id; held++)
      assert.equal(workers.of(held), `w${held % 3}`, `job ${held} of ${id}`);
    assert.ok(workers.size <= 3 * (LEASES + 1), `${workers.size} names for ${LEASES} leases`);
  }
  assert.equal(workers.of(1), "");
});
