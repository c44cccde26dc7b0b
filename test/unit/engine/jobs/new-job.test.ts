// Tests of what a put with a taken key does to the job that has it, by state and option.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { Attribute, metaOf } from "../../../../src/protocol/job-attribute.ts";
import { OnDuplicate } from "../../../../src/protocol/option-rows.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import { TracedEngine } from "../traced-engine.ts";

const KEY = Buffer.from("k");

/** An engine whose job 1 has the key, in a state; it is 1000 ms later. */
function inState(state: string): TracedEngine {
  const traced = new TracedEngine();
  traced.session(0);
  traced.put(
    1,
    { pri: 5, delaySeconds: state === "delayed" ? 9 : 0, bodyBytes: 4 },
    keyed(OnDuplicate.Refuse),
  );
  if (state === "held" || state === "buried") traced.hold(1);
  if (state === "buried") traced.engine.bury(traced.session(0), 1, 5, 0);
  traced.wait(1000);
  return traced;
}

function keyed(onDuplicate: OnDuplicate, more: Partial<JobAttributes> = {}): JobAttributes {
  const attributes = new JobAttributes().clear();
  attributes.setKey(KEY, 0, KEY.length, false);
  return Object.assign(attributes, { onDuplicate, ...more });
}

/** Job 2 with the same key: pri 3, 2.5 s of delay, 6 bytes, and a TTR of 70 s. */
function again(traced: TracedEngine, attributes: JobAttributes, pri = 3, delayMillis = 2500): string {
  return traced.does((engine, nowMs) => {
    const delay = { delaySeconds: Math.floor(delayMillis / 1000), delayMillis: delayMillis % 1000 };
    const job = { id: 2, pri, ...delay, ttrSeconds: 70, bodyBytes: 6, atMs: nowMs };
    return engine.changes.putAgain(1, job, engine.bodies.allocate(6), attributes, nowMs);
  });
}

const { Refuse, Keep, Replace, Escalate, Debounce } = OnDuplicate;
/** What is said, and job 1 afterwards. */
// biome-ignore format: a table
const ROWS: readonly (readonly [state: string, onDuplicate: OnDuplicate, after: string])[] = [
  ["ready", Refuse, "duplicate | t ready pri 5 bytes 4"],
  ["ready", Keep, "kept | t ready pri 5 bytes 4"],
  ["ready", Replace, "replaced: replaced 1, stored 6 | t delayed pri 3 delay 2 ttr 10 at 3500 bytes 6"],
  ["ready", Escalate, "escalated: updated 1 | t ready pri 3 bytes 4"],
  ["ready", Debounce, "kept | t ready pri 5 bytes 4"],
  ["delayed", Replace, "replaced: replaced 1, stored 6 | t delayed pri 3 delay 2 ttr 10 at 3500 bytes 6"],
  ["delayed", Escalate, "escalated: updated 1 | t delayed pri 3 delay 9 at 9000 bytes 4"],
  ["delayed", Debounce, "kept | t delayed pri 5 delay 9 at 9000 bytes 4"],
  ["held", Replace, "duplicate | t reserved pri 5 reserves 1 at 60000 bytes 4"],
  ["buried", Replace, "duplicate | t buried pri 5 reserves 1 buries 1 bytes 4"],
];

describe("a put whose key another job has", () => {
  for (const [state, onDuplicate, after] of ROWS)
    it(`${state}, ${Object.keys(OnDuplicate)[onDuplicate]}`, () => {
      const traced = inState(state);
      assert.equal(`${again(traced, keyed(onDuplicate))} | ${traced.job(1)}`, after);
    });

  it("raises a priority only", () => {
    for (const [pri, outcome] of [
      [5, "kept"],
      [6, "kept"],
      [4, "escalated: updated 1"],
    ] as const)
      assert.equal(again(inState("delayed"), keyed(Escalate), pri), outcome);
  });

  it("puts off, and never brings forward", () => {
    const traced = inState("delayed");
    assert.equal(again(traced, keyed(Debounce), 3, 8000), "kept", "the same moment");
    assert.equal(again(traced, keyed(Debounce), 3, 8001), "debounced: updated 1");
    assert.match(traced.job(1), /^t delayed pri 5 delay 8 at 9001 /);
    assert.equal(again(traced, keyed(Debounce, { debounceMaxMs: 9001 }), 3, 20_000), "kept");
    assert.equal(again(traced, keyed(Debounce, { debounceMaxMs: 9002 }), 3, 20_000), "debounced: updated 1");
    assert.match(traced.job(1), / at 9002 /);
  });

  it("replaces within the limits of the tube, and with its time to live", () => {
    const traced = inState("ready");
    traced.set("t", { maxBytes: 5, ttlMs: 300 });
    assert.equal(again(traced, keyed(Replace)), "tubefull");
    assert.equal(traced.tube("t"), "totalJobs 1 rejected 1");
    traced.set("t", { maxBytes: 6, ttlMs: 300 });
    assert.equal(again(traced, keyed(Replace)), "replaced: replaced 1, stored 6");
    assert.match(traced.job(1), / expires 1300 /);
    assert.equal(again(traced, keyed(Replace, { expiresAtMs: 1200 })), "replaced: replaced 1, stored 6");
    assert.match(traced.job(1), / expires 1200 /);
    traced.wait(200);
    assert.equal(traced.job(1), "gone");
  });

  it("gives a job without a delay to a client that waits", () => {
    const traced = inState("delayed");
    traced.engine.reserve(traced.session(1, "t"), 1e6, traced.nowMs);
    const said = again(traced, keyed(Replace), 3, 0);
    assert.equal(said, "replaced: replaced 1, stored 6, waited 0, 1: gets 1");
  });

  it("leaves a job that waits for a batch waiting, whatever the delay, until that is complete", () => {
    for (const delayMillis of [0, 2500]) {
      const traced = new TracedEngine();
      traced.session(0);
      const assume = (state: BatchState, outcome: BatchOutcome = BatchOutcome.None): void =>
        void traced.engine.batches.assume({
          ...{ number: 7, name: "b", state, outcome, keepMs: 0, openedAtMs: 0, completeAtMs: 0 },
          ...{ allDone: 0, allFailed: 0 },
        });
      assume(BatchState.Open);
      traced.put(1, { bodyBytes: 4 }, keyed(Refuse, { afterName: "b" }));
      traced.engine.reserve(traced.session(1, "t"), 1e6, traced.nowMs);
      assert.equal(again(traced, keyed(Replace), 3, delayMillis), "replaced: replaced 1, stored 6");
      assert.match(traced.job(1), /^t delayed pri 3 /);
      assert.equal(traced.wait(3000), "", "it waits for no time");
      assume(BatchState.Committed);
      assume(BatchState.Complete, BatchOutcome.Success);
      const said = `${traced.does((engine, nowMs) => engine.batchEnds.work(nowMs))}, ${traced.wait(2000)}`;
      assert.match(said, /1: gets 1/);
    }
  });
});

describe("a put with batches whose key another job has", () => {
  const assume = (
    traced: TracedEngine,
    number: number,
    state: BatchState,
    outcome = BatchOutcome.None,
  ): void =>
    void traced.engine.batches.assume({
      ...{ number, name: `b${number}`, state, outcome: outcome as BatchOutcome, keepMs: 0 },
      ...{ openedAtMs: 0, completeAtMs: 0, allDone: 0, allFailed: 0 },
    });
  /** Batches 7, 8 and 9 are open, and job 1 has the key. */
  const withBatches = (first: Partial<JobAttributes> = {}): TracedEngine => {
    const traced = new TracedEngine();
    traced.session(0);
    for (const number of [7, 8, 9]) assume(traced, number, BatchState.Open);
    traced.put(1, { bodyBytes: 4 }, keyed(Refuse, first));
    return traced;
  };
  /** What the second put does; the log then has the job's batches. */
  const puts = (traced: TracedEngine, how: OnDuplicate, more: Partial<JobAttributes>): string => {
    const attributes = keyed(how, more);
    assert.ok(["b7", "b8", "b9", ""].includes(attributes.batchName));
    traced.engine.policies.flows.judge(attributes);
    const said = again(traced, attributes, 3, 0).split(":")[0]!;
    const { batch, after, afterAny } = traced.logged(1);
    return `${said} batch ${batch} after ${after}${afterAny ? " any" : ""}`;
  };

  it("makes the job a member, or lets it wait, and logs that", () => {
    const member = withBatches();
    assert.equal(puts(member, Replace, { batchName: "b7" }), "replaced batch 7 after 0");
    assert.equal(member.engine.batches.of(7)!.open, 1);
    assert.equal(puts(member, Replace, { batchName: "b7" }), "replaced batch 7 after 0", "once more");
    assert.equal(member.engine.batches.of(7)!.open, 1);
    const waiting = withBatches();
    assert.equal(puts(waiting, Replace, { afterName: "b7", afterAny: true }), "replaced batch 0 after 7 any");
    assert.equal(waiting.engine.batches.of(7)!.waitingJobs, 1);
    assert.match(waiting.job(1), /^t delayed/);
    assert.equal(puts(waiting, Replace, { batchName: "b8" }), "replaced batch 8 after 7 any");
    assert.equal(puts(waiting, Replace, { afterName: "b7" }), "replaced batch 8 after 7");
  });

  it("is refused if the job is in another batch, waits for another, or would wait for its own", () => {
    const member = withBatches({ batchName: "b7" });
    assert.equal(puts(member, Replace, { batchName: "b8" }), "duplicate batch 7 after 0");
    assert.equal(puts(member, Replace, { afterName: "b8" }), "batchorder batch 7 after 0");
    const waiting = withBatches({ afterName: "b8" });
    assert.equal(puts(waiting, Replace, { afterName: "b7" }), "duplicate batch 0 after 8");
    assert.equal(puts(waiting, Replace, { batchName: "b7" }), "batchorder batch 0 after 8");
    assert.equal(member.job(1), "t ready bytes 4");
  });

  it("succeeds without a change only if the job has these batches already", () => {
    for (const how of [Keep, Escalate, Debounce]) {
      assert.match(puts(withBatches(), how, { batchName: "b7" }), /^duplicate batch 0 after 0/);
      assert.match(puts(withBatches(), how, { afterName: "b7" }), /^duplicate batch 0 after 0/);
      assert.match(puts(withBatches({ batchName: "b7" }), how, { batchName: "b8" }), /^duplicate /);
      assert.match(puts(withBatches({ batchName: "b7" }), how, { batchName: "b7" }), /^(?:kept|escalated) /);
      assert.match(puts(withBatches({ afterName: "b7" }), how, { afterName: "b7" }), /^(?:kept|escalated) /);
    }
  });

  it("buries the job if the batch has failed, and not if it has succeeded", () => {
    for (const [outcome, state] of [
      [BatchOutcome.Failure, /^t buried/],
      [BatchOutcome.Success, /^t ready/],
    ] as const) {
      const traced = withBatches();
      assume(traced, 7, BatchState.Committed);
      assume(traced, 7, BatchState.Complete, outcome as never);
      assert.equal(puts(traced, Replace, { afterName: "b7" }), "replaced batch 0 after 0");
      assert.match(traced.job(1), state);
    }
  });

  it("gives the job the rest of what it names, and refuses another group", () => {
    const traced = withBatches();
    const text = (attributes: JobAttributes, tag: Attribute, value: string): JobAttributes => {
      attributes.fixed.text(tag, Buffer.from(value), 0, value.length);
      return attributes;
    };
    const first = text(keyed(Replace, { uniqueUntilMs: 5000, untilReserve: true }), Attribute.Meta, "a:1");
    first.fixed.flag(Attribute.UntilReserve);
    assert.match(again(traced, first), /^replaced/);
    assert.match(again(traced, keyed(Replace)), /^replaced/);
    const { fixed, uniqueUntilMs, untilReserve } = traced.logged(1);
    assert.deepEqual(metaOf(fixed.bytes.slice(0, fixed.length)), ["a:1"], "what the put doesn't name stays");
    assert.deepEqual([uniqueUntilMs, untilReserve], [5000, true]);
    assert.match(again(traced, text(keyed(Replace), Attribute.Meta, "b:2")), /^replaced/);
    const logged = traced.logged(1).fixed;
    assert.deepEqual(metaOf(logged.bytes.slice(0, logged.length)), ["b:2"]);
    assert.equal(again(traced, text(keyed(Replace), Attribute.Group, "g")), "duplicate");
  });
});
