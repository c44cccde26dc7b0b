// Tests of a put that runs out of memory at any point, or finds the log full: no job, key or group
// remains, nor its weight, and the body is still the caller's.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { Attribute } from "../../../../src/protocol/job-attribute.ts";
import { unheardEffects, unheardRecords } from "../../../support/in-process/effects.ts";
import { checkInvariants } from "../../../support/in-process/engine-invariants.ts";
import { withoutMemory } from "../../../support/in-process/without-memory.ts";

const PUTS = 200;

it("a put that runs out of memory anywhere leaves nothing behind", () => {
  const engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
  });
  const session = engine.session(0);
  let refused = 0;
  for (let id = 1; id <= PUTS; id++) {
    const text = asciiBytes(`name ${id} ${"x".repeat(id % 180)}`);
    const attributes = new JobAttributes();
    attributes.setKey(text, 0, text.length, false);
    attributes.fixed.text(Attribute.Group, text, 0, text.length);
    attributes.expiresAtMs = 1000;
    const job = { id, pri: 0, delaySeconds: id % 3, delayMillis: 0, ttrSeconds: 60, bodyBytes: 64, atMs: 0 };
    for (let failing = 1, fails = true; fails; failing++) {
      const body = engine.bodies.allocate(64);
      const before = engine.jobs.live;
      let error: unknown;
      fails = withoutMemory(failing, () => {
        try {
          assert.equal(engine.put(session, job, body, 0, "default", attributes), Outcome.Done);
        } catch (thrown) {
          error = thrown;
        }
      });
      if (!fails) {
        assert.equal(error, undefined);
        break;
      }
      assert.ok(error instanceof RangeError, `put ${id}, allocation ${failing}: ${error}`);
      refused++;
      assert.equal(engine.jobs.live, before, `put ${id}, allocation ${failing}`);
      engine.bodies.free(body);
      checkInvariants(engine, [0]);
    }
    checkInvariants(engine, [0]);
    assert.equal(engine.policies.keys.table.size, id);
    assert.equal(engine.findTube("default")!.groups!.size, id);
  }
  assert.ok(refused > 20, `${refused} puts were refused`);
});

it("a put that finds the log full leaves its group's weight as it was", () => {
  let hasRoom = true;
  const engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
    records: unheardRecords({ put: () => hasRoom }),
  });
  const put = (id: number, weight: number): Outcome => {
    const attributes = new JobAttributes();
    attributes.fixed.text(Attribute.Group, asciiBytes("g"), 0, 1);
    attributes.fixed.uint16(Attribute.Weight, weight);
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    return engine.put(engine.session(0), job, engine.bodies.allocate(0), 0, "default", attributes);
  };
  const weight = (): number | undefined => {
    const { extras } = engine.jobs.pageOf(engine.find(1));
    return engine.findTube("default")!.groups!.describe(extras!.groupRow[rowOf(engine.find(1))]!)?.weight;
  };
  assert.equal(put(1, 2), Outcome.Done);
  hasRoom = false;
  assert.equal(put(2, 3), Outcome.NoRoom);
  assert.equal(weight(), 2);
  checkInvariants(engine, [0]);
  hasRoom = true;
  assert.equal(put(3, 1000), Outcome.Done);
  assert.equal(weight(), 1000);
});

it("unique jobs that come and go one at a time allocate nothing", () => {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const session = engine.session(0);
  const attributes = new JobAttributes();
  const text = asciiBytes("welcome-00000");
  let id = 0;
  const comeAndGo = (jobs: number): void => {
    for (let last = id + jobs; id < last; ) {
      id++;
      for (let at = text.length - 1, rest = id; rest > 0; at--, rest = Math.floor(rest / 10))
        text[at] = 48 + (rest % 10);
      attributes.clear().setKey(text, 0, text.length, false);
      const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 64, atMs: 0 };
      const body = engine.bodies.allocate(64);
      assert.equal(engine.put(session, job, body, 0, "default", attributes), Outcome.Done);
      assert.equal(engine.delete(session, id, 0), Outcome.Done);
    }
  };
  // Each of the parts that keys are found in is made with its first key.
  comeAndGo(5000);
  assert.equal(
    withoutMemory(1, () => comeAndGo(50)),
    false,
  );
  checkInvariants(engine, [0]);
});
