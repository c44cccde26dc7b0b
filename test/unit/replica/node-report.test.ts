import assert from "node:assert/strict";
import { test } from "node:test";
import {
  inconsistentMembers,
  memberOf,
  memberProblems,
  type NodeReport,
  parseReport,
} from "../../../src/replica/node-report.ts";

test("fields of a report have their type and are short, whatever was sent", () => {
  const report = {
    node: 7,
    role: "emperor",
    address: "a".repeat(100_000),
    epoch: -1,
    n: "many",
    mayServe: "yes",
    pendingBatches: 1.5,
    isComplete: true,
    behind: 3,
    pid: null,
    version: { toString: "no" },
    more: "x".repeat(1000),
  };
  const member = memberOf(parseReport(JSON.stringify(report))!);
  assert.deepEqual(member, {
    node: 7,
    role: "starting",
    address: "a".repeat(260),
    epoch: 0,
    n: 0,
    mayServe: false,
    pendingBatches: 0,
    isComplete: true,
    behind: 3,
    pid: 0,
    version: "",
  });
  assert.equal(parseReport('{"node":"7","address":"a"}'), undefined);
  assert.equal(parseReport("\0"), undefined);
});

const NOW_MS = 1_000_000;
const OWN = { node: 1, address: "a:11300", leaseMs: 3000, logVersion: 4 };

const odd = (more: Partial<NodeReport>): string[] => {
  const report = {
    node: 2,
    address: "b:11300",
    leaseMs: 3000,
    wallMs: NOW_MS,
    logVersion: 4,
    ...more,
  } as NodeReport;
  return [...inconsistentMembers(OWN, [report], NOW_MS).values()];
};

test("servers that fit together, this server, and silent ones aren't odd", () => {
  assert.deepEqual(odd({}), []);
  assert.deepEqual(odd({ wallMs: NOW_MS - 500 }), [], "an answer takes its time");
  assert.deepEqual(odd({ node: 1, address: "a:11300", leaseMs: 9000 }), []);
  assert.deepEqual(
    [...inconsistentMembers(OWN, [{ node: 2, address: "b:1", logVersion: 5 } as NodeReport], NOW_MS)],
    [],
  );
});

test("an equal address, another lease, clock and an older version are reported with their values", () => {
  assert.match(odd({ address: "a:11300" })[0]!, /node 2 at a:11300 has the same --replicate-as/);
  assert.match(odd({ leaseMs: 20_000 })[0]!, /--replicate-lease 20, this server 3: /);
  assert.match(odd({ wallMs: NOW_MS + 3_600_000 })[0]!, /is 3600 s ahead of this one/);
  for (const logVersion of [undefined, 3])
    assert.match(odd({ version: "2.6.0", logVersion } as never)[0]!, /runs runnerbean 2.6.0, .* upgrade it/);
  assert.match(odd({ wallMs: NOW_MS - 3_600_000 })[0]!, /is 3600 s behind this one/);
});

test("a group without a server, a lead or a complete standby has a problem", () => {
  const member = { node: 1, address: "a:1", epoch: 1, n: 9, pid: 1, version: "2.8.0", behind: 0 };
  const rest = { tag: 0, messagesUnderWay: 0, doubts: 0, ignored: 0, pendingBatches: 0 };
  const primary: NodeReport = { ...member, ...rest, role: "primary", mayServe: true, isComplete: true };
  const standby: NodeReport = { ...primary, node: 2, role: "standby", mayServe: false };
  assert.deepEqual(memberProblems([primary, standby]), []);
  assert.match(memberProblems([]).join(), /^no server of the group is connected/);
  assert.match(memberProblems([primary]).join(), /^no standby has all jobs/);
  assert.match(
    memberProblems([primary, { ...standby, isComplete: false }]).join(),
    /^no standby has all jobs/,
  );
  assert.match(memberProblems([standby]).join(), /^no server of the group has the lead/);
  assert.match(memberProblems([{ ...primary, mayServe: false }, standby]).join(), /^a:1 is frozen/);
});
