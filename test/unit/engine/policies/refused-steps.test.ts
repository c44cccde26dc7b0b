// Steps that are refused at their last moment, for every kind of job: afterwards, the engine is as
// it was before, and the same step succeeds once there is room.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "../../../../src/engine/engine.ts";
import { MoveOutcome } from "../../../../src/engine/job-walk.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { ENDS, Outcome } from "../../../../src/engine/jobs/ends.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type JobChange } from "../../../../src/engine/jobs/new-job.ts";
import { Travel } from "../../../../src/engine/transfers.ts";
import { Attribute } from "../../../../src/protocol/job-attribute.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import { fixedCounters } from "../../../../src/schema/job.ts";
import { snapshotOf } from "../../../support/in-process/engine-snapshot.ts";
import { TracedEngine } from "../traced-engine.ts";

const BODY_BYTES = 100;
const NO_CHANGE: JobChange = { pri: undefined, ttrSeconds: undefined, delayMs: undefined };

interface Kind {
  readonly delaySeconds?: number;
  readonly key?: string;
  readonly untilReserve?: boolean;
  readonly group?: string;
  readonly weight?: number;
  readonly fields?: Partial<JobAttributes>;
}

/** Batch 1 is open, 2 has succeeded, 3 has failed. */
const KINDS: Readonly<Record<string, Kind>> = {
  plain: {},
  delayed: { delaySeconds: 9 },
  unique: { key: "new" },
  "unique for a time": { key: "new", fields: { uniqueUntilMs: 9000 } },
  "unique until it is reserved": { key: "new", untilReserve: true },
  "in a new group": { group: "new" },
  "in a known group, with another weight": { group: "g", weight: 7 },
  "with a time to live": { fields: { expiresAtMs: 7000 } },
  "a member": { fields: { batchName: "b1" } },
  "behind a batch": { fields: { afterName: "b1" } },
  "behind a batch that has succeeded": { fields: { afterName: "b2" } },
  "behind a batch that has failed": { fields: { afterName: "b3" } },
  everything: {
    ...{ delaySeconds: 9, key: "new", group: "new", weight: 3 },
    fields: { uniqueUntilMs: 9000, expiresAtMs: 7000, afterName: "b2", batchName: "b4" },
  },
};

class Bench extends TracedEngine {
  /** There is a job of each kind, so that no table is new. */
  constructor() {
    super();
    this.session(0);
    const { batches } = this.engine;
    for (const number of [1, 2, 3, 4]) {
      const facts = { number, name: `b${number}`, keepMs: 0, openedAtMs: 0, completeAtMs: 0, allDone: 0 };
      const assume = (state: BatchState, outcome: BatchOutcome = BatchOutcome.None): void =>
        void batches.assume({ ...facts, state, outcome, allFailed: number === 3 ? 1 : 0 });
      assume(BatchState.Open);
      if (number === 2 || number === 3) {
        assume(BatchState.Committed);
        assume(BatchState.Complete, number === 2 ? BatchOutcome.Success : BatchOutcome.Failure);
      }
    }
    const usual = { key: "old", group: "g", fields: { expiresAtMs: 1e9, afterName: "b1", batchName: "b4" } };
    assert.equal(this.puts(1, "t", usual), Outcome.Done);
    assert.equal(this.puts(2, "u", { fields: { afterName: "b3" } }), Outcome.Done);
  }

  /** Puts a job, as a command does: a body that is not taken is freed. */
  puts(id: number, tube: string, kind: Kind): Outcome {
    const { delaySeconds = 0, key = "", untilReserve = false, group = "", weight, fields = {} } = kind;
    const attributes = Object.assign(new JobAttributes().clear(), fields);
    if (key !== "") attributes.setKey(Buffer.from(key), 0, key.length, untilReserve);
    if (group !== "") attributes.fixed.text(Attribute.Group, Buffer.from(group), 0, group.length);
    if (weight !== undefined) attributes.fixed.uint16(Attribute.Weight, weight);
    const facts = { id, pri: 5, delaySeconds, delayMillis: 0, ttrSeconds: 60, bodyBytes: BODY_BYTES };
    const { engine, nowMs } = this;
    const body = engine.bodies.allocate(BODY_BYTES);
    const job = { ...facts, atMs: nowMs };
    const isPlain = Object.keys(kind).every((each) => each === "delaySeconds");
    const outcome = engine.put(engine.session(0), job, body, nowMs, tube, isPlain ? undefined : attributes);
    if (outcome !== Outcome.Done) engine.bodies.free(body);
    this.take();
    return outcome;
  }

  /** Has a step refused: nothing changes except for these counts of the tube and of the shard. */
  refuses(step: () => unknown, refusal: unknown, counted: Readonly<Counted> = {}): void {
    const before = withCounts(snapshotOf(this.engine), counted);
    assert.equal(step(), refusal);
    assert.deepEqual(snapshotOf(this.engine), before);
  }
}

interface Counted {
  readonly tube?: string;
  readonly ofTube?: string;
  readonly ofShard?: string;
}

/** Adds 1 to a count of a tube and of the shard. */
function withCounts(snapshot: object, { tube, ofTube, ofShard }: Counted): object {
  const { shard, tubes } = snapshot as {
    shard: Record<string, number>;
    tubes: { name: string; counts: Record<string, number> }[];
  };
  if (ofShard !== undefined) shard[ofShard]!++;
  const counts = tubes.find(({ name }) => name === tube)?.counts;
  if (counts !== undefined) counts[ofTube!] = (counts[ofTube!] ?? 0) + 1;
  return snapshot;
}

describe("a put", () => {
  for (const [what, kind] of Object.entries(KINDS)) {
    it(`of a job ${what} that finds the log full leaves nothing, and succeeds later`, () => {
      for (const tube of ["t", "new"])
        for (const at of ["begins", "ends"] as const) {
          const bench = new Bench();
          bench.log[at] = false;
          bench.refuses(() => bench.puts(9, tube, kind), Outcome.NoRoom);
          bench.log[at] = true;
          assert.equal(bench.puts(9, tube, kind), Outcome.Done);
        }
    });

    it(`of a job ${what} that its tube has no room for counts as that, and leaves nothing else`, () => {
      for (const [settings, isFull] of [
        [{ maxJobs: 1 }, true],
        [{ maxJobs: 2 }, false],
        [{ maxBytes: 2 * BODY_BYTES - 1 }, true],
        [{ maxBytes: 2 * BODY_BYTES }, false],
        [{ maxGroups: 1 }, kind.group === "new"],
        [{ maxGroups: 2 }, false],
      ] as const) {
        const bench = new Bench();
        bench.set("t", settings);
        const counted = { tube: "t", ofTube: "rejected", ofShard: "putRefusals" };
        if (isFull) bench.refuses(() => bench.puts(9, "t", kind), Outcome.TubeFull, counted);
        else assert.equal(bench.puts(9, "t", kind), Outcome.Done);
      }
    });
  }

  it("whose key is taken counts as a duplicate, and leaves nothing else", () => {
    const bench = new Bench();
    const counted = { tube: "t", ofTube: "duplicates", ofShard: "putDuplicates" };
    for (const kind of [{}, KINDS["everything"]!])
      bench.refuses(() => bench.puts(9, "t", { ...kind, key: "old" }), Outcome.Duplicate, counted);
  });

  it("that names no batch, or one that takes none, leaves nothing", () => {
    for (const [fields, refusal] of [
      [{ batchName: "b9" }, Outcome.NoBatch],
      [{ afterName: "b9" }, Outcome.NoBatch],
      [{ batchName: "b2" }, Outcome.BatchCommitted],
      [{ batchName: "b1", afterName: "b1" }, Outcome.BatchOrder],
      [{ batchName: "b1", afterName: "b4" }, Outcome.BatchOrder],
    ] as const) {
      const bench = new Bench();
      bench.refuses(() => bench.puts(9, "new", { key: "new", group: "new", fields }), refusal);
    }
  });
});

/** Job 8, in this state, in `t`. */
const STATES: Readonly<Record<string, (engine: Engine, nowMs: number) => void>> = {
  ready: () => {},
  held: (engine, nowMs) => void engine.reserveJob(engine.session(0), 8, nowMs),
  buried: (engine, nowMs) => {
    engine.reserveJob(engine.session(0), 8, nowMs);
    engine.bury(engine.session(0), 8, 0, nowMs);
  },
};

describe("a job", () => {
  for (const [state, enter] of Object.entries(STATES))
    for (const [settings, isFull] of [
      [{ maxJobs: 1 }, true],
      [{ maxJobs: 2 }, false],
      [{ maxBytes: 2 * BODY_BYTES - 1 }, true],
      [{ maxBytes: 2 * BODY_BYTES }, false],
    ] as const) {
      const full = `${JSON.stringify(settings)}`;
      const scene = (): Bench => {
        const bench = new Bench();
        bench.puts(8, "t", { key: "moves", group: "moves", fields: { expiresAtMs: 7000, batchName: "b1" } });
        bench.set("u", settings);
        enter(bench.engine, bench.nowMs);
        return bench;
      };

      it(`that is ${state} changes its tube to one with ${full}, or nothing at all`, () => {
        const bench = scene();
        const { engine, nowMs } = bench;
        const change = { ...NO_CHANGE, pri: 1, delayMs: 3000, ttrSeconds: 9, ttlMs: 4, tube: "u" };
        const update = (): unknown => engine.changes.update(engine.session(0), 8, change, nowMs);
        if (isFull) bench.refuses(update, Outcome.TubeFull);
        else assert.equal(update(), Outcome.Done);
        bench.take();
      });

      if (state !== "held")
        it(`that is ${state} is moved to one with ${full}, or stays as it is`, () => {
          const bench = scene();
          const { engine, nowMs } = bench;
          const move = (): unknown => engine.changes.move(engine.find(8), "u", true, nowMs);
          if (isFull) bench.refuses(move, MoveOutcome.Full);
          else assert.equal(move(), MoveOutcome.Moved);
          bench.take();
        });
    }

  it("that comes from another shard to a tube that is full leaves nothing", () => {
    for (const settings of [{ maxJobs: 0 }, { maxBytes: BODY_BYTES - 1 }])
      for (const attributes of [undefined, new JobAttributes()]) {
        const bench = new Bench();
        bench.set("*", settings);
        const { engine } = bench;
        const arrive = (travel: Travel, tube: string): unknown => {
          const facts = { id: 9, pri: 0, delaySeconds: 0, ttrSeconds: 60, bodyBytes: BODY_BYTES, atMs: 0 };
          const counts = { counters: fixedCounters(), file: 0 };
          const job = { ...facts, ...counts, state: JobState.Ready, deadlineAtMs: 0, tube };
          const body = engine.bodies.allocate(BODY_BYTES);
          const arrival = { travel, asReady: false, delayMs: undefined };
          const outcome = engine.transfers.arrive(job, body, attributes, arrival, 0);
          if (outcome !== Outcome.Done) engine.bodies.free(body);
          return outcome;
        };
        for (const tube of ["t", "new"])
          for (const travel of [Travel.Move, Travel.Update, Travel.Handed])
            bench.refuses(() => arrive(travel, tube), Outcome.TubeFull);
        // A dead job has to go somewhere.
        assert.equal(arrive(Travel.Death, "new"), Outcome.Done);
        bench.take();
      }
  });

  it("has no body in the arena when it is gone", () => {
    const bench = new Bench();
    assert.equal(bench.engine.bodies.allocate(0), EMPTY_BODY);
    for (const id of [1, 2]) bench.engine.discard(bench.engine.find(id), ENDS.Cleared, 0);
    bench.take();
    assert.equal(bench.engine.bodies.usedBytes, 0);
  });
});
