import assert from "node:assert/strict";
import { test } from "node:test";
import { memberOf, parseReport } from "../../../src/replica/node-report.ts";

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
