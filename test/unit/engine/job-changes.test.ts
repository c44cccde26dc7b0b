// Tests of puts that change the waiting job with their key: limits, a full log, no memory, and a
// search that rests in a body meanwhile.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, Memory } from "../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { REPLACING_BODY_BYTES_MAX } from "../../../src/engine/job-changes.ts";
import { ALL_STATES } from "../../../src/engine/job-walk.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type NewJob } from "../../../src/engine/jobs/new-job.ts";
import { ALL_ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { OnDuplicate } from "../../../src/protocol/option-rows.ts";
import { BatchOutcome, BatchState } from "../../../src/schema/batch.ts";
import { fixedCounters } from "../../../src/schema/job.ts";
import { unheardEffects, unheardRecords } from "../../support/in-process/effects.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { snapshotOf } from "../../support/in-process/engine-snapshot.ts";
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

/** The number of the batch that a put names as the job's own. */
const batchOf = (names: { readonly batchName?: string }): number => Number(names.batchName?.slice(1) ?? 0);

function assumeBatch(
  { batches }: Engine,
  number: number,
  state: BatchState,
  outcome: BatchOutcome = BatchOutcome.None,
): void {
  const facts = { number, name: `b${number}`, keepMs: 0, openedAtMs: 0, completeAtMs: 0 };
  batches.assume({ ...facts, state, outcome, allDone: 0, allFailed: 0 });
}

function withoutArena({ bodies }: Engine, run: () => void): void {
  const { allocate } = bodies;
  bodies.allocate = () => {
    throw new RangeError("the arena is full");
  };
  run();
  bodies.allocate = allocate;
}

class Tube {
  isFull = false;
  readonly engine: Engine = new Engine({
    effects: unheardEffects(),
    ownsDefaultTube: true,
    records: unheardRecords({ roomForPut: () => !this.isFull }),
  });
  readonly session = this.engine.session(0);

  /** Puts job 1 with the key, unless the log has it. */
  constructor(
    delaySeconds: number,
    body: string,
    of?: { readonly group: string; readonly weight: number },
    puts = true,
  ) {
    if (!puts) return;
    const attributes = keyed(OnDuplicate.Refuse);
    if (of !== undefined) {
      attributes.fixed.text(Attribute.Group, asciiBytes(of.group), 0, of.group.length);
      attributes.fixed.uint16(Attribute.Weight, of.weight);
    }
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
    return this.putAgain(job, attributes, body);
  }

  /** The second step of that. */
  putAgain(job: NewJob, attributes: JobAttributes, body = this.bodyOf("x".repeat(job.bodyBytes))): Outcome {
    const outcome = this.engine.changes.putAgain(1, job, body, attributes, job.atMs);
    if (outcome !== Outcome.Replaced) this.engine.bodies.free(body);
    checkInvariants(this.engine, [job.atMs]);
    return outcome;
  }

  /** The weight of the job's group. */
  get weight(): number | undefined {
    const slot = this.engine.find(1);
    const { extras } = this.engine.jobs.pageOf(slot);
    return this.engine.tubeOf(slot).groups?.describe(extras!.groupRow[rowOf(slot)]!)?.weight;
  }

  /** The attributes of the job as its records have them. */
  get logged(): JobAttributes {
    return this.loggedOf(1);
  }

  loggedOf(id: number): JobAttributes {
    const writer = new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
    const { attributes } = this.engine.policies;
    attributes.writeFixed(this.engine.find(id), writer, 0);
    attributes.writeMutable(this.engine.find(id), writer, 0);
    return new JobAttributes().read(writer.bytes, 0, writer.length, 0);
  }

  /** All that the engine knows, except for the room that its tables have. */
  get everything(): object {
    const { logged } = this;
    const { bytes, length } = logged.fixed;
    const fixed = Buffer.from(bytes.subarray(0, length)).toString("latin1");
    return { ...snapshotOf(this.engine), memory: 0, logged: [logged.batch, logged.after, fixed] };
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
          engine.changes.putAgain(1, job, body, attributes, 0);
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

  for (const [what, names] of Object.entries({
    "a batch": { batchName: "b7" },
    "a batch to wait for": { afterName: "b8", afterAny: true },
    both: { batchName: "b9", afterName: "b8" },
    "a batch that has failed": { afterName: "b6" },
  }))
    for (const [delaySeconds, where] of [
      [0, "tables"],
      [7, "tables"],
      [0, "arena"],
      [7, "arena"],
    ] as const)
      it(`changes nothing without memory in the ${where}, naming ${what}, delay ${delaySeconds}`, () => {
        const tube = new Tube(delaySeconds, "abc", { group: "g", weight: 3 });
        const { engine } = tube;
        for (const number of [6, 7, 8, 9]) assumeBatch(engine, number, BatchState.Open);
        assumeBatch(engine, 6, BatchState.Committed);
        assumeBatch(engine, 6, BatchState.Complete, BatchOutcome.Failure);
        const attributes = keyed(OnDuplicate.Replace, { ...names, expiresAtMs: 100_000 });
        attributes.fixed.uint16(Attribute.Weight, 5);
        attributes.fixed.text(Attribute.Meta, asciiBytes("a:b"), 0, 3);
        const job = jobOf(2, 3, 64);
        // Without a change; it finds the batches.
        tube.isFull = true;
        assert.equal(tube.again(job, attributes), Outcome.NoRoom);
        const unchanged = tube.everything;
        assert.equal(tube.putAgain(job, attributes), Outcome.NoRoom);
        assert.deepEqual(tube.everything, unchanged);
        tube.isFull = false;
        let refused = 0;
        for (let failing = 1; ; failing++) {
          const body = tube.bodyOf("x".repeat(64));
          assert.equal(engine.put(tube.session, job, body, 0, "default", attributes), Outcome.Duplicate);
          const before = tube.everything;
          if (where === "arena") {
            withoutArena(engine, () =>
              assert.throws(() => engine.changes.putAgain(1, job, body, attributes, 0), RangeError),
            );
            assert.deepEqual(tube.everything, before);
          }
          let error: unknown;
          let outcome: Outcome | undefined;
          const fails = withoutMemory(failing, () => {
            try {
              outcome = engine.changes.putAgain(1, job, body, attributes, 0);
            } catch (thrown) {
              error = thrown;
            }
          });
          // Without memory, only the failure that names the batch is left out.
          if (error === undefined) {
            assert.ok(!fails || what === "a batch that has failed");
            assert.equal(outcome, Outcome.Replaced);
            break;
          }
          assert.ok(error instanceof RangeError, `allocation ${failing}: ${error}`);
          assert.deepEqual(tube.everything, before, `allocation ${failing}`);
          engine.bodies.free(body);
          checkInvariants(engine, [0]);
          refused++;
        }
        assert.ok(where === "arena" || refused > 1, `${refused} allocations failed`);
        checkInvariants(engine, [0]);
        assert.equal(tube.weight, 5);
        const { batch, after } = tube.logged;
        assert.deepEqual(
          [batch, after],
          [batchOf(names), "afterName" in names && what !== "a batch that has failed" ? 8 : 0],
        );
      });

  it("sets the weight of the group, which a restart takes from the group's youngest job", () => {
    for (const [younger, weight] of [
      [false, 5],
      [true, 2],
    ] as const) {
      const tube = new Tube(0, "abc", { group: "g", weight: 3 });
      if (younger) {
        const attributes = new JobAttributes();
        attributes.fixed.text(Attribute.Group, asciiBytes("g"), 0, 1);
        attributes.fixed.uint16(Attribute.Weight, 2);
        const outcome = tube.engine.put(tube.session, jobOf(2, 0, 0), EMPTY_BODY, 0, "default", attributes);
        assert.equal(outcome, Outcome.Done);
        assert.equal(tube.weight, 2);
      }
      const attributes = keyed(OnDuplicate.Replace);
      attributes.fixed.uint16(Attribute.Weight, 5);
      assert.equal(tube.again(jobOf(3, 0, 4), attributes), Outcome.Replaced);
      assert.equal(tube.weight, 5);
      const after = new Tube(0, "", undefined, false);
      // The log lists jobs in any order.
      for (const id of younger ? [2, 1] : [1])
        after.engine.restore(
          {
            ...{ ...jobOf(id, 0, 0), tube: "default", state: JobState.Ready, deadlineAtMs: 0 },
            ...{ file: 0, counters: fixedCounters() },
          },
          EMPTY_BODY,
          tube.loggedOf(id),
        );
      after.engine.endRestore();
      assert.equal(after.weight, weight);
    }
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
            outcome = engine.changes.putAgain(id, jobOf(jobs + id, 0, 8), body, attributes, 0);
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
