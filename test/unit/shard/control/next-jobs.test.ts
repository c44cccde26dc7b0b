// Tests of the first jobs of a tube, including one whose groups may all be at their limit.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { Attribute } from "../../../../src/protocol/job-attribute.ts";
import { nextJobs } from "../../../../src/shard/control/browse.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { setTubes } from "../../../support/in-process/set-tubes.ts";

const JOBS = 9;

/** Ids of ready jobs of a tube, whose first two jobs are held. */
function readyIds(group: string, limit: number): number[] {
  const engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
  });
  const session = engine.session(0);
  setTubes(engine, "a", { groupMaxReserved: 2 }, 0);
  for (let id = 1; id <= JOBS; id++) {
    const attributes = new JobAttributes();
    attributes.fixed.text(Attribute.Group, asciiBytes(group), 0, group.length);
    const job = { id, pri: 9 - id, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    engine.put(session, job, EMPTY_BODY, 0, "a", group === "" ? undefined : attributes);
  }
  for (const id of [1, 2]) engine.reserveJob(session, id, 0);
  return nextJobs(engine, engine.findTube("a")!, "ready", limit).map(
    (slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!,
  );
}

it("ready jobs come best first", () => assert.deepEqual(readyIds("", 4), [9, 8, 7, 6]));

it("ready jobs of groups come in the order in which they became ready, also at the limit", () => {
  assert.deepEqual(readyIds("x", 4), [3, 4, 5, 6]);
  assert.deepEqual(readyIds("x", 100), [3, 4, 5, 6, 7, 8, 9]);
});

it("delayed jobs come in the order in which they become ready, those of one moment by their ids", () => {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const session = engine.session(0);
  // Each number is coprime to 23: all ids come, and no two orders of putting are alike.
  for (const step of [1, 5, 22]) {
    const ids = Array.from({ length: 22 }, (_, index) => ((index + 1) * step) % 23);
    const tube = `step-${step}`;
    for (const id of ids) {
      const times = { delaySeconds: 1 + (id % 3), delayMillis: 0, ttrSeconds: 60, atMs: 0 };
      engine.put(session, { id: 100 * step + id, pri: 0, bodyBytes: 0, ...times }, EMPTY_BODY, 0, tube);
    }
    const expected = ids.toSorted((a, b) => (a % 3) - (b % 3) || a - b).map((id) => 100 * step + id);
    const found = nextJobs(engine, engine.findTube(tube)!, "delayed", 100);
    assert.deepEqual(
      found.map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]),
      expected,
    );
  }
});
