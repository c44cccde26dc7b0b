// Tests of a shard's part in a batch over several: a listed job that may not be given any more
// stays.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { NO_SLOT } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { OnDuplicate } from "../../../src/protocol/option-rows.ts";
import { TracedEngine } from "./traced-engine.ts";

const JOBS = 3;

/**
 * Jobs 1 to 3 of tube `a`, listed for a client; what `meanwhile` does; and which of them the client
 * gets then.
 */
function taken(
  meanwhile: (traced: TracedEngine, engine: Engine) => unknown,
  groups: readonly string[] = [],
): number[] {
  const traced = new TracedEngine();
  const { engine } = traced;
  const client = traced.session(0, "a");
  for (let id = 1; id <= JOBS; id++)
    traced.put(id, { tube: "a", group: groups[id - 1] ?? "" }, { leaving: false });
  const listed: number[] = [];
  engine.batchReserves.list(client, { jobsMax: JOBS, bytesMax: 1000 }, 0, listed);
  const ids = traced.ids(listed);
  assert.deepEqual(ids, groups.length === 0 ? [1, 2, 3] : [1]);
  meanwhile(traced, engine);
  const slots: number[] = [];
  const jobs = ids.map((id) => ({ id, pri: 0, bodyBytes: 0 }));
  const count = engine.batchReserves.take(client, jobs, false, 0, slots);
  assert.equal(slots.length, ids.length);
  const got = traced.ids(slots.filter((slot) => slot !== NO_SLOT));
  assert.equal(count, got.length);
  return got;
}

describe("a part of a batch", () => {
  it("contains everything listed if nothing has happened", () =>
    assert.deepEqual(
      taken(() => {}),
      [1, 2, 3],
    ));

  it("respects a rate or concurrency limit reached meanwhile", () => {
    assert.deepEqual(
      taken((traced) => traced.set("a", { maxReserved: 2 })),
      [1, 2],
    );
    const closed = (traced: TracedEngine): void => {
      traced.set("a", { maxReserved: 1 });
      traced.hold(2, traced.session(1));
    };
    assert.deepEqual(taken(closed), []);
    assert.deepEqual(
      taken((traced) => traced.set("a", { rate: "1/60" })),
      [1],
    );
  });

  it("contains no job whose priority changed meanwhile", () => {
    const change = { pri: 7, ttrSeconds: undefined, delayMs: undefined };
    assert.deepEqual(
      taken((_, engine) => engine.changes.update(engine.session(1), 2, change, 0)),
      [1, 3],
    );
    const releases = (traced: TracedEngine): void => {
      traced.hold(2, traced.session(1));
      traced.engine.release(traced.session(1), 2, 7, 0, 0);
    };
    assert.deepEqual(taken(releases), [1, 3]);
  });

  it("contains no job with a larger body than was listed", () => {
    const replaces = ({ engine }: TracedEngine, bodyBytes: number): void => {
      const attributes = new JobAttributes().clear();
      attributes.setKey(Buffer.from("k"), 0, 1, false);
      attributes.onDuplicate = OnDuplicate.Replace;
      const job = { id: 9, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes, atMs: 0 };
      const body = bodyBytes === 0 ? EMPTY_BODY : engine.bodies.allocate(bodyBytes);
      assert.equal(engine.changes.putAgain(2, job, body, attributes, 0), Outcome.Replaced);
    };
    assert.deepEqual(
      taken((traced) => replaces(traced, 1)),
      [1, 3],
    );
    assert.deepEqual(
      taken((traced) => replaces(traced, 0)),
      [1, 2, 3],
    );
  });

  it("contains no job that a worker lost meanwhile, unless it is the whole batch", () => {
    const loses = (traced: TracedEngine): void => {
      traced.hold(2, traced.session(1));
      traced.engine.timeOutNow(2, 0);
    };
    assert.deepEqual(taken(loses), [1, 3]);
  });

  it("respects pauses, and contains no job taken meanwhile", () => {
    assert.deepEqual(
      taken((_, engine) => engine.pause("a", 5, 0)),
      [],
    );
    assert.deepEqual(
      taken((traced) => traced.hold(2, traced.session(1))),
      [1, 3],
    );
  });

  it("contains no job of a group whose turn has passed", () => {
    assert.deepEqual(
      taken(() => {}, ["x", "x", "y"]),
      [1],
    );
    assert.deepEqual(
      taken((traced) => traced.hold(2, traced.session(1)), ["x", "x", "y"]),
      [],
    );
  });
});
