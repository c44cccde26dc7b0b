import assert from "node:assert/strict";
import { test } from "node:test";
import { FollowerCore, type OwnBatch } from "../../../src/replica/follower-core.ts";
import type { LogEnds } from "../../../src/replica/shared-log.ts";

const ends = (first: number, last: number): LogEnds => ({ first, last, bytes: 0, limitBytes: 0 });
const OWN: OwnBatch[] = [{ n: 1, tag: 101, epoch: 1, node: 7, unacknowledged: 0 }];

function follower(own: readonly OwnBatch[]) {
  const did: string[] = [];
  const core = new FollowerCore({
    host: {
      apply: () => void did.push("apply"),
      cutAfter: () => void did.push("cut"),
      tryLead: () => void did.push("try"),
      lead: () => void did.push("lead"),
      ended: (how, why) => void did.push(`${how}: ${why}`),
    },
    node: 1,
    own,
    hasOwnJobs: false,
    leaseMs: 3000,
    random: () => 0.5,
  });
  return { core, did };
}

test("a log that says for some seconds that it is empty is not taken for lost, and nobody takes the lead by that", () => {
  const { core, did } = follower(OWN);
  for (let nowMs = 0; nowMs < 20_000; nowMs += 100) {
    core.answered(ends(0, 0), nowMs);
    core.tick(nowMs);
  }
  assert.deepEqual(did, []);
  core.answered(ends(5, 9), 20_000);
  assert.equal(core.next, 5);
});

test("one that stays empty is lost, for a node that was in the group", () => {
  const { core, did } = follower(OWN);
  for (let nowMs = 0; nowMs < 60_000; nowMs += 100) core.answered(ends(0, 0), nowMs);
  assert.deepEqual(did, ["log-lost: it is empty, and this node was in the group before"]);
});

test("a new node begins a group in an empty log", () => {
  const { core, did } = follower([]);
  for (let nowMs = 0; nowMs < 2000; nowMs += 100) {
    core.answered(ends(0, 0), nowMs);
    core.tick(nowMs);
  }
  assert.deepEqual(did, ["try"]);
});
