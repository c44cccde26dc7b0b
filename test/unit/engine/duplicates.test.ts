// Tests of puts that change the waiting job with their key: limits, a full log, no memory, and a
// search that rests in a body meanwhile.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { REPLACING_BODY_BYTES_MAX } from "../../../src/engine/duplicates.ts";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { JobAttributes } from "../../../src/engine/jobs/job-attributes.ts";
import { JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { NewJob } from "../../../src/engine/jobs/new-job.ts";
import { ALL_STATES } from "../../../src/engine/walks/job-walk.ts";
import { Attribute } from "../../../src/protocol/job-attribute.ts";
import { OnDuplicate } from "../../../src/protocol/job-options.ts";
import { unheardEffects, unheardRecords } from "../../support/in-process/effects.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { withoutMemory } from "../../support/in-process/without-memory.ts";

const KEY = asciiBytes("k");

function jobOf(id: number, delaySeconds: number, bodyBytes: number, atMs = 0): NewJob {
  return { id, pri: 5, delaySeconds, delayMillis: 0, ttrSeconds: 60, bodyBytes, atMs };
}

function keyed(onDuplicate: OnDuplicate, fields: Partial<JobAttributes> = {}): JobAttributes {
  const attributes = new JobAttributes();
  attributes.setKey(KEY, 0, KEY.length, false);
  return Object.assign(attributes, { onDuplicate, ...fields });
}

class Tube {
  isFull = false;
  readonly engine: Engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
    records: unheardRecords({ roomForPut: () => !this.isFull }),
  });
  readonly session = this.engine.session(0);

  /** Puts job 1 with the key. */
  constructor(delaySeconds: number, body: string) {
    const attributes = keyed(OnDuplicate.Refuse);
    const outcome = this.engine.put(
      this.session,
      jobOf(1, delaySeconds, body.length),
      this.bodyOf(body),
      0,
      "default",
      attributes,
    );
    assert.equal(outcome, Outcome.Done);
  }

  bodyOf(text: string): number {
    const body = this.engine.bodies.allocate(text.length);
    this.engine.bodies.write(body, 0, asciiBytes(text), 0, text.length);
    return body;
  }

  /** Puts once more; frees the body as the shard does. */
  again(job: NewJob, attributes: JobAttributes, body = this.bodyOf("x".repeat(job.bodyBytes))): Outcome {
    const nowMs = job.atMs;
    assert.equal(this.engine.put(this.session, job, body, nowMs, "default", attributes), Outcome.Duplicate);
    const outcome = this.engine.putAgain(1, job, body, attributes, nowMs);
    if (outcome !== Outcome.Replaced) this.engine.bodies.free(body);
    checkInvariants(this.engine, [nowMs]);
    return outcome;
  }

  get facts(): { state: number; deadlineAtMs: number; bodyBytes: number } {
    const slot = this.engine.find(1);
    const page = this.engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    return {
      state: page.state[row]!,
      deadlineAtMs: page.deadlineAtMs[row]!,
      bodyBytes: page.bodyBytes[row]!,
    };
  }
}

describe("a put whose key a waiting job has", () => {
  it("puts a delayed job off until the longest wait, and not beyond", () => {
    const tube = new Tube(10, "abc");
    const attributes = keyed(OnDuplicate.Debounce, { debounceMaxMs: 25_000 });
    assert.equal(tube.again(jobOf(2, 10, 1, 9000), attributes), Outcome.Debounced);
    assert.deepEqual(tube.facts, { state: JobState.Delayed, deadlineAtMs: 19_000, bodyBytes: 3 });
    assert.equal(tube.again(jobOf(3, 10, 1, 18_000), attributes), Outcome.Debounced);
    assert.equal(tube.facts.deadlineAtMs, 25_000);
    assert.equal(tube.again(jobOf(4, 10, 1, 24_000), attributes), Outcome.Kept);
    assert.equal(tube.facts.deadlineAtMs, 25_000);
  });

  it("is refused with a body that needs several records, or while the log is full", () => {
    const tube = new Tube(0, "abc");
    const replacing = keyed(OnDuplicate.Replace);
    assert.equal(tube.again(jobOf(2, 0, REPLACING_BODY_BYTES_MAX + 1), replacing), Outcome.TooBig);
    tube.isFull = true;
    assert.equal(tube.again(jobOf(3, 0, 1), replacing), Outcome.NoRoom);
    assert.equal(tube.facts.bodyBytes, 3);
    tube.isFull = false;
    assert.equal(tube.again(jobOf(4, 0, REPLACING_BODY_BYTES_MAX), replacing), Outcome.Replaced);
    assert.equal(tube.facts.bodyBytes, REPLACING_BODY_BYTES_MAX);
  });

  it("changes nothing when memory runs out at any point", () => {
    const tube = new Tube(0, "abc");
    const { engine } = tube;
    let refused = 0;
    for (let failing = 1; ; failing++) {
      const job = jobOf(1 + failing, 7, 64);
      const attributes = keyed(OnDuplicate.Replace, { expiresAtMs: 100_000 });
      const body = engine.bodies.allocate(64);
      let error: unknown;
      const fails = withoutMemory(failing, () => {
        try {
          engine.putAgain(1, job, body, attributes, 0);
        } catch (thrown) {
          error = thrown;
        }
      });
      if (!fails) {
        assert.equal(error, undefined);
        break;
      }
      assert.ok(error instanceof RangeError, `allocation ${failing}: ${error}`);
      refused++;
      assert.deepEqual(tube.facts, { state: JobState.Ready, deadlineAtMs: 0, bodyBytes: 3 });
      engine.bodies.free(body);
      checkInvariants(engine, [0]);
    }
    assert.ok(refused > 0);
    assert.deepEqual(tube.facts, { state: JobState.Delayed, deadlineAtMs: 7000, bodyBytes: 64 });
    checkInvariants(engine, [0]);
  });

  it("makes room in its group before a delayed job becomes ready", () => {
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const session = engine.session(0);
    const group = asciiBytes("g");
    const attributesOf = (id: number): JobAttributes => {
      const key = asciiBytes(`k${id}`);
      const attributes = new JobAttributes();
      attributes.setKey(key, 0, key.length, false);
      attributes.fixed.text(Attribute.Group, group, 0, group.length);
      return Object.assign(attributes, { onDuplicate: OnDuplicate.Replace });
    };
    const jobs = 200;
    for (let id = 1; id <= jobs; id++)
      assert.equal(
        engine.put(session, jobOf(id, 100, 8), engine.bodies.allocate(8), 0, "default", attributesOf(id)),
        Outcome.Done,
      );
    let refused = 0;
    for (let id = 1; id <= jobs; id++) {
      const attributes = attributesOf(id);
      const body = engine.bodies.allocate(8);
      let outcome: Outcome | undefined;
      for (let failing = 1; outcome === undefined; failing++) {
        let error: unknown;
        withoutMemory(failing, () => {
          try {
            outcome = engine.putAgain(id, jobOf(jobs + id, 0, 8), body, attributes, 0);
          } catch (thrown) {
            error = thrown;
          }
        });
        if (outcome !== undefined) break;
        assert.ok(error instanceof RangeError, `job ${id}, allocation ${failing}: ${error}`);
        checkInvariants(engine, [0]);
        refused++;
      }
      assert.equal(outcome, Outcome.Replaced, `job ${id}`);
      checkInvariants(engine, [0]);
    }
    assert.ok(refused > 0, "its heaps grow");
  });

  it("may replace a body by one that ends where a search rests", () => {
    const tube = new Tube(0, "x".repeat(5000));
    const { engine } = tube;
    const walk = engine.walk({ states: ALL_STATES, createdByMs: Infinity, contains: asciiBytes("y") }, 0);
    assert.equal(walk.next(undefined, { looksLeft: 10, searchBytesLeft: 1000 }), -1);
    assert.equal(tube.again(jobOf(2, 0, 1000), keyed(OnDuplicate.Replace)), Outcome.Replaced);
    assert.equal(walk.next(undefined, { looksLeft: 10, searchBytesLeft: 5000 }), -1);
    assert.equal(walk.hasEnded, true);
  });

  it("may replace a body in which a search rests", () => {
    const tube = new Tube(0, "x".repeat(5000));
    const { engine } = tube;
    const filter = { states: ALL_STATES, createdByMs: Infinity, contains: asciiBytes("y") };
    const walk = engine.walk(filter, 0);
    assert.equal(walk.next(undefined, { looksLeft: 10, searchBytesLeft: 1000 }), -1);
    assert.equal(walk.hasEnded, false, "the search rests");
    assert.equal(
      tube.again(jobOf(2, 0, 3), keyed(OnDuplicate.Replace), tube.bodyOf("xyz")),
      Outcome.Replaced,
    );
    const slot = walk.next(undefined, { looksLeft: 10, searchBytesLeft: 1000 });
    assert.equal(slot, engine.find(1), "the new body is searched from its beginning");
  });
});
