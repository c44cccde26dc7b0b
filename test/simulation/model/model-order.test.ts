// Tests that the model accepts any order of timers due at the same moment, and no other.

import assert from "node:assert/strict";
import { it } from "node:test";
import { type Effect, Model } from "./model.ts";
import { NO_POLICY } from "./model-policies.ts";

const LATER_MS = 5000;

/**
 * Two sessions hold a job each and wait for another one, which their tube keeps back: session 3 has
 * waited longer.
 */
function twoHolders(): Model {
  const model = new Model(1);
  const tube = model.tube("default");
  model.set(0, "default", { maxReserved: 2, backoffMs: 700 });
  model.follow([], () => model.applySettings("default", 0));
  for (const id of [1, 2, 3, 4]) {
    const job = { id, pri: 0, delaySeconds: 0, ttrSeconds: 2, body: "", policy: { ...NO_POLICY } };
    model.follow([], () => model.put(job, tube, 0, 0));
  }
  for (const index of [3, 1, 3, 1]) {
    const session = model.session(index);
    model.watch(session, "default");
    model.follow([], () => model.reserve(session, 0, Number.POSITIVE_INFINITY, 0));
  }
  return model;
}

const run = (seen: readonly Effect[]): void => {
  const model = twoHolders();
  model.follow(seen, () => model.runDue(0, LATER_MS));
};

it("Model.runDue takes the order that later effects reveal", () => {
  const first: Effect = { kind: "reserved", session: 3, job: 3 };
  // Whoever comes first, it is session 3 that gets job 3: its own job has made room for it, or the
  // other's.
  run([first, { kind: "reserved", session: 1, job: 4 }]);
  run([first, { kind: "deadlineSoon", session: 1 }]);
});

it("Model.runDue refuses effects that fit no order", () => {
  const first: Effect = { kind: "reserved", session: 3, job: 3 };
  for (const seen of [
    [first],
    [{ kind: "reserved", session: 1, job: 3 }],
    [first, { kind: "reserved", session: 1, job: 4 }, { kind: "deadlineSoon", session: 1 }],
    [
      { kind: "deadlineSoon", session: 1 },
      { kind: "deadlineSoon", session: 3 },
    ],
  ] satisfies Effect[][])
    assert.throws(() => run(seen), /the effects of an engine's call/);
});
