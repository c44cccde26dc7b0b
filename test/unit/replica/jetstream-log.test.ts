import assert from "node:assert/strict";
import { test } from "node:test";
import { serverProblem, streamProblems } from "../../../src/replica/jetstream-log.ts";

const peer = (name: string, more: object = {}) => ({ name, offline: false, current: true, lag: 0, ...more });

test("three log servers with a leader are healthy", () => {
  assert.deepEqual(streamProblems({ leader: "a", replicas: 3, peers: [peer("b"), peer("c")] }), []);
});

test("the report names a stream without a leader, and each absent server", () => {
  const silent = { active: 60e9 };
  const peers = [peer("a"), peer("b", { offline: true }), peer("c", silent)];
  const problems = streamProblems({ leader: "", replicas: 3, peers });
  assert.match(
    problems.join("\n"),
    /^the stream has no leader.*\nlog server b .*\nlog server c .*start it again$/,
  );
});

test("the report names a server that is far behind, not one with a message in flight", () => {
  const peers = [peer("b", { current: false, lag: 5000 }), peer("c", { current: false, lag: 1 })];
  assert.deepEqual(streamProblems({ leader: "a", replicas: 3, peers }), [
    "log server b is 5000 messages behind",
  ]);
});

test("the report names a stream that a server has left", () => {
  assert.deepEqual(streamProblems({ leader: "a", replicas: 3, peers: [peer("b")] }), [
    "the stream is on 2 of 3 log servers",
  ]);
});

test("the report names a log server without JetStream, and one without sync_always", () => {
  assert.match(serverProblem({ disabled: true }) ?? "", /JetStream is off.*start it again/);
  assert.match(serverProblem({ config: {} }) ?? "", /does not always sync/);
  assert.equal(serverProblem({ config: { sync_always: true } }), undefined);
});
