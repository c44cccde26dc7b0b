// Tests that the model accepts any order of timers due at the same moment, and no other.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Model } from "./model/model.ts";
import { NO_POLICY } from "./model/model-policies.ts";
import type { Effect } from "./model/model-types.ts";

const LATER_MS = 5000;

/**
 * Two sessions hold a job each and wait for another one, which their tube keeps back: session 3 has
 * waited longer.
 */
function twoHolders(): Model {
  const model = new Model(1);
  const tube = model.registry.tube("default");
  model.registry.set(0, "default", { maxReserved: 2, backoffMs: 700 });
  model.follow([], () => model.commands.applySettings("default", 0));
  for (const id of [1, 2, 3, 4]) {
    const job = { id, pri: 0, delaySeconds: 0, ttrSeconds: 2, body: "", policy: { ...NO_POLICY } };
    model.follow([], () => model.commands.put(job, tube, 0, 0));
  }
  for (const index of [3, 1, 3, 1]) {
    const session = model.connections.session(index);
    model.registry.watch(session, "default");
    model.follow([], () => model.reserves.reserve(session, 0, Number.POSITIVE_INFINITY, 0));
  }
  return model;
}

const run = (seen: readonly Effect[]): void => {
  const model = twoHolders();
  model.follow(seen, () => model.timers.runDue(0, LATER_MS));
};

it("Model.runDue takes the order that later effects reveal", () => {
  const first: Effect = { kind: "reserved", session: 3, job: 3 };
  // In any order session 3 gets job 3: its own job has made room for it, or the other's.
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
