// Tests of a shard's part in a batch over several: a listed job that may not be given any more
// stays.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobAttributes } from "../../../src/engine/jobs/job-attributes.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { Attribute } from "../../../src/protocol/job-attribute.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { setTubes } from "../../support/in-process/set-tubes.ts";

const JOBS = 3;

/**
 * Jobs 1 to 3 of tube `a`, listed for a client; what `meanwhile` does; and which of them the client
 * gets then.
 */
function taken(meanwhile: (engine: Engine) => void, groups: readonly string[] = []): number[] {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const client = engine.session(0);
  engine.watch(client, "a");
  for (let id = 1; id <= JOBS; id++) {
    const attributes = new JobAttributes();
    const group = groups[id - 1];
    if (group !== undefined) attributes.fixed.text(Attribute.Group, asciiBytes(group), 0, group.length);
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    const outcome = engine.put(client, job, EMPTY_BODY, 0, "a", group === undefined ? undefined : attributes);
    assert.equal(outcome, Outcome.Done);
  }
  const idsOf = (slots: readonly number[]): number[] =>
    slots.filter((slot) => slot !== NO_SLOT).map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!);
  const listed: number[] = [];
  engine.listBatch(client, { jobsMax: JOBS, bytesMax: 1000 }, 0, listed);
  const ids = idsOf(listed);
  assert.deepEqual(ids, groups.length === 0 ? [1, 2, 3] : [1]);
  meanwhile(engine);
  const slots: number[] = [];
  const count = engine.takeBatch(
    client,
    ids.map((id) => ({ id, pri: 0 })),
    false,
    0,
    slots,
  );
  assert.equal(slots.length, ids.length);
  assert.equal(count, idsOf(slots).length);
  return idsOf(slots);
}

describe("a part of a batch", () => {
  it("contains everything listed if nothing has happened", () =>
    assert.deepEqual(
      taken(() => {}),
      [1, 2, 3],
    ));

  it("respects a rate or concurrency limit reached meanwhile", () => {
    assert.deepEqual(
      taken((engine) => setTubes(engine, "a", { maxReserved: 2 }, 0)),
      [1, 2],
    );
    const closed = (engine: Engine): void => {
      setTubes(engine, "a", { maxReserved: 1 }, 0);
      engine.reserveJob(engine.session(1), 2, 0);
    };
    assert.deepEqual(taken(closed), []);
    assert.deepEqual(
      taken((engine) => setTubes(engine, "a", { rate: "1/60" }, 0)),
      [1],
    );
  });

  it("contains no job whose priority changed meanwhile", () => {
    const releases = (engine: Engine): void => {
      const other = engine.session(1);
      engine.reserveJob(other, 2, 0);
      engine.release(other, 2, 7, 0, 0);
    };
    assert.deepEqual(
      taken(
        (engine) =>
          void engine.update(engine.session(1), 2, { pri: 7, ttrSeconds: undefined, delayMs: undefined }, 0),
      ),
      [1, 3],
    );
    assert.deepEqual(taken(releases), [1, 3]);
  });

  it("respects pauses, and contains no job taken meanwhile", () => {
    assert.deepEqual(
      taken((engine) => engine.pause("a", 5, 0)),
      [],
    );
    assert.deepEqual(
      taken((engine) => engine.reserveJob(engine.session(1), 2, 0)),
      [1, 3],
    );
  });

  it("contains no job of a group whose turn has passed", () => {
    const other = (engine: Engine): void => void engine.reserveJob(engine.session(1), 2, 0);
    assert.deepEqual(
      taken(() => {}, ["x", "x", "y"]),
      [1],
    );
    assert.deepEqual(taken(other, ["x", "x", "y"]), []);
  });
});
