import assert from "node:assert/strict";
import { test } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import type { KnownBatch } from "../../../src/message/group.ts";
import {
  encodeLogBatchHeader,
  LOG_BATCH_HEADER_BYTES,
  type LogBatchHeader,
  LogBatchKind,
  sealLogBatch,
} from "../../../src/message/log-batch.ts";
import { FollowerCore } from "../../../src/replica/follower-core.ts";
import type { LogEnds, LogMessage } from "../../../src/replica/shared-log.ts";

const ends = (first: number, last: number): LogEnds => ({ first, last, bytes: 0, limitBytes: 0 });
const OWN: KnownBatch[] = [{ n: 1, tag: 101, epoch: 1, node: 7, unacknowledged: 0, message: 0 }];

function follower(own: readonly KnownBatch[], seed = 0) {
  const did: string[] = [];
  const core = new FollowerCore({
    host: {
      apply: () => void did.push("apply"),
      cutAfter: () => void did.push("cut"),
      appendTail: (after, expectedLast, lost) =>
        void did.push(`${lost ? "lost" : "lacks"} behind ${after}, at ${expectedLast}`),
      tryLead: () => void did.push("try"),
      lead: () => void did.push("lead"),
      ended: (how, why) => void did.push(`${how}: ${why}`),
    },
    node: 1,
    own,
    hasOwnJobs: false,
    seed,
    leaseMs: 3000,
    random: () => 0.5,
  });
  return { core, did };
}

test("a log that claims to be empty for some seconds isn't lost, and no standby takes the lead", () => {
  const { core, did } = follower(OWN);
  for (let nowMs = 0; nowMs < 20_000; nowMs += 100) {
    core.answered(ends(0, 0), core.lastRead, nowMs);
    core.tick(nowMs);
  }
  assert.deepEqual(did, []);
  core.answered(ends(5, 9), core.lastRead, 20_000);
  assert.equal(core.next, 5);
});

test("a log that stays empty is lost for a node that was in the group", () => {
  const { core, did } = follower(OWN);
  for (let nowMs = 0; nowMs < 60_000; nowMs += 100) core.answered(ends(0, 0), core.lastRead, nowMs);
  assert.deepEqual(did, ["log-lost: it is empty, but this node was in the group before"]);
});

test("a new node begins a group in an empty log", () => {
  const { core, did } = follower([]);
  for (let nowMs = 0; nowMs < 2000; nowMs += 100) {
    core.answered(ends(0, 0), core.lastRead, nowMs);
    core.tick(nowMs);
  }
  assert.deepEqual(did, ["try"]);
});

const data = (n: number, more: Partial<LogBatchHeader> = {}): LogMessage => {
  const memory = Memory.ofSize(LOG_BATCH_HEADER_BYTES);
  encodeLogBatchHeader(memory, 0, {
    kind: LogBatchKind.data,
    epoch: 1,
    segment: 1,
    n,
    previousTag: 99 + n,
    tag: 100 + n,
    sequence: n,
    idsLent: 0,
    frames: 0,
    bodyBytes: 0,
    node: 1,
    oldest: 1,
    unacknowledged: 0,
    message: 0,
    ...more,
  });
  sealLogBatch(memory, 0);
  return { sequence: n, bytes: memory.bytes };
};
/** Batches of the node's own log, as node 1 wrote them, none of them known as acknowledged. */
const own = (...numbers: number[]): KnownBatch[] =>
  numbers.map((n) => ({ n, tag: 100 + n, epoch: 1, node: 1, unacknowledged: n - 1, message: 0 }));

test("after a reseed only the server with that directory begins the group", () => {
  const tried = (seed: number): string[] => {
    const { core, did } = follower([], seed);
    for (let nowMs = 0; nowMs < 60_000; nowMs += 100) {
      core.answered(ends(0, 0), core.lastRead, nowMs);
      core.tick(nowMs);
    }
    return did.slice(0, 1);
  };
  assert.deepEqual(tried(2), []);
  assert.deepEqual(tried(1), ["try"]);
});

test("a tail beyond the shared log is appended again, not cut, if no node has led since", () => {
  const { core, did } = follower(own(1, 2, 3));
  core.answered(ends(1, 1), core.lastRead, 0);
  core.read(data(1), 0);
  core.answered(ends(1, 1), core.lastRead, 100);
  core.tick(100);
  assert.deepEqual(did, ["lacks behind 1, at 1"]);
  core.tailSent();
  core.answered(ends(1, 3), core.lastRead, 200);
  core.read(data(2), 200);
  core.read(data(3), 200);
  core.answered(ends(1, 3), core.lastRead, 300);
  assert.ok(core.isCaughtUp);
  core.tick(300);
  assert.deepEqual(did.slice(1), ["try"], "nothing was cut");
});

test("batches that the shared log acknowledged and lost are appended again", () => {
  const { core, did } = follower(own(1, 2, 3).map((batch) => ({ ...batch, unacknowledged: 0 })));
  core.answered(ends(1, 1), core.lastRead, 0);
  core.read(data(1), 0);
  core.answered(ends(1, 1), core.lastRead, 100);
  assert.deepEqual(did, ["lost behind 1, at 1"]);
});

test("if another node has led since, the own tail is cut off, and counted as not kept before", () => {
  const { core, did } = follower(own(1, 2, 3));
  const durable = { epoch: 1, n: 3, tag: 103 };
  assert.equal(core.keptOf(durable), 0, "nothing of it is known to be the group's");
  core.answered(ends(1, 4), core.lastRead, 0);
  core.read(data(1), 0);
  assert.equal(core.keptOf(durable), 1);
  core.read({ ...data(2, { kind: LogBatchKind.lead, epoch: 2, node: 2, tag: 202 }), sequence: 2 }, 0);
  assert.deepEqual(did, ["cut", "apply"]);
  core.read(data(3, { epoch: 2, node: 2, previousTag: 202, tag: 203 }), 0);
  assert.equal(core.keptOf(durable), 0, "the other node's batch 3 is not on the disk");
  assert.equal(core.keptOf({ epoch: 2, n: 3, tag: 203 }), 3);
});

test("a shared log that ends before the own one begins was lost, and the directory isn't set aside", () => {
  const { core, did } = follower(own(7, 8));
  core.answered(ends(1, 1), core.lastRead, 0);
  core.read(data(1), 0);
  core.answered(ends(1, 1), core.lastRead, 100);
  assert.deepEqual(did, [], "it may be a log server that lags behind");
  for (let nowMs = 200; nowMs < 10_000; nowMs += 100) core.answered(ends(1, 1), core.lastRead, nowMs);
  assert.deepEqual(did, ["log-lost: it ends with batch 1, but had acknowledged 6"]);
});

test("a restarted node reads on from the last message that its own log names", () => {
  const batches = own(1, 2, 3).map((batch) => ({ ...batch, unacknowledged: 0, message: batch.n + 39 }));
  const { core } = follower(batches);
  assert.equal(core.knownMessage(2 ** 32 + 50), 2 ** 32 + 42, "its lower 32 bits are known");
  assert.equal(core.knownMessage(50), 42);
  core.beginAt({ ...data(2), sequence: 42 });
  core.answered(ends(1, 50), core.lastRead, 0);
  assert.equal(core.next, 42);
  assert.equal(core.beganAt, 42);
});

const LEAD = { kind: LogBatchKind.lead, previousTag: 0 } as const;

test("a place to begin that no log server has let it read yet isn't the end of the log", () => {
  const { core, did } = follower([]);
  const all = [1, 2, 3, 4].map((n) => data(n, { ...(n === 1 ? LEAD : {}), node: 2, message: n - 1 }));
  core.answered(ends(1, 4), core.lastRead, 0);
  for (const message of all) core.read(message, 0);
  core.answered(ends(1, 4), core.lastRead, 0);
  // A lagging log server answers, then a current one: it seeks its place anew.
  core.answered(ends(1, 3), core.lastRead, 300);
  core.answered(ends(1, 4), core.lastRead, 600);
  assert.equal(core.knownMessage(4), 3);
  core.beginAt(all[2]!);
  assert.equal(core.next, 3);
  core.answered(ends(1, 4), core.lastRead, 700);
  // Reading fails, and the lagging one answers that there is nothing to read.
  for (let nowMs = 900; nowMs < 20_000; nowMs += 100) {
    core.answered(ends(1, 2), core.lastRead, nowMs);
    core.tick(nowMs);
  }
  assert.ok(!did.includes("try"));
});

test("a place to begin that is found while another look already reads changes nothing", () => {
  const batches = own(1, 2, 3).map((batch) => ({ ...batch, unacknowledged: 0, message: batch.n + 39 }));
  const { core, did } = follower(batches);
  core.beginAt({ ...data(2), sequence: 42 });
  core.read({ ...data(2), sequence: 42 }, 0);
  core.beginAt({ ...data(2), sequence: 42 });
  assert.equal(core.next, 43);
  core.read({ ...data(3), sequence: 43 }, 0);
  assert.deepEqual(did, []);
});

test("a log server that lags behind for a while, time and again, has lost nothing", () => {
  const { core, did } = follower(own(7, 8));
  let nowMs = 0;
  const answered = (last: number): void => core.answered(ends(1, last), core.lastRead, (nowMs += 100));
  for (let time = 0; time < 5; time++) {
    answered(1);
    core.read(data(1), nowMs);
    for (let times = 0; times < 30; times++) answered(1);
    assert.ok(!core.isCaughtUp);
    answered(8);
    for (let n = 2; n <= 8; n++) core.read(data(n), nowMs);
    answered(8);
    assert.ok(core.isCaughtUp);
    // A log server with fewer messages answers, and the node reads all of them again.
    answered(1);
    answered(8);
    assert.ok(!core.isCaughtUp);
  }
  assert.deepEqual(did, []);
});

test("a message that differs from the own log is no place to begin", () => {
  const { core } = follower(own(1, 2, 3).map((batch) => ({ ...batch, unacknowledged: 0, message: 42 })));
  core.beginAt({ ...data(2, { tag: 999 }), sequence: 42 });
  core.answered(ends(1, 50), core.lastRead, 0);
  assert.equal(core.next, 1);
});

test("a leader that loads isn't silent, and the lead is taken a lease after its last word", () => {
  const { core, did } = follower([]);
  core.answered(ends(1, 1), core.lastRead, 0);
  core.read(data(1, { node: 2 }), 0);
  const wait = (fromMs: number, toMs: number, loads: boolean): void => {
    for (let nowMs = fromMs; nowMs < toMs; nowMs += 100) {
      core.answered(ends(1, 1), core.lastRead, nowMs);
      if (loads && nowMs % 1000 === 0) core.leaderLoads();
      core.tick(nowMs);
    }
  };
  wait(0, 60_000, true);
  assert.deepEqual(did, ["apply"], "it has much to load");
  wait(60_000, 61_500, false);
  assert.deepEqual(did, ["apply"]);
  wait(61_500, 64_000, false);
  assert.deepEqual(did, ["apply", "try"]);
});

test("a leader isn't silent as long as the log has messages that the node has not read", () => {
  const { core, did } = follower([]);
  core.answered(ends(1, 1), core.lastRead, 0);
  core.read(data(1, { node: 2 }), 0);
  core.answered(ends(1, 1), core.lastRead, 0);
  assert.ok(core.isCaughtUp);
  for (let nowMs = 0; nowMs < 60_000; nowMs += 100) {
    core.answered(ends(1, 3), core.lastRead, nowMs);
    core.tick(nowMs);
  }
  assert.deepEqual(did, ["apply"]);
});

test("a lead that was given up lets the next one serve at once, and none after that", () => {
  const { core } = follower([]);
  const lead = (n: number, epoch: number, node: number): LogMessage =>
    data(n, { kind: LogBatchKind.lead, epoch, node, ...(n === 1 ? { previousTag: 0 } : {}) });
  core.read(lead(1, 1, 2), 0);
  assert.ok(!core.mayServeAtOnce, "its lease counts");
  core.read(data(2, { kind: LogBatchKind.yield, node: 2 }), 100);
  assert.ok(core.mayServeAtOnce);
  core.read(lead(3, 2, 3), 200);
  assert.ok(!core.mayServeAtOnce, "the lease of the new leader counts");
  core.read(data(4, { epoch: 2, node: 3 }), 300);
  assert.ok(!core.mayServeAtOnce);
});

test("an answer that later messages have overtaken is not stale, and the node reads on", () => {
  const { core, did } = follower([]);
  core.answered(ends(1, 1), core.lastRead, 0);
  core.read(data(1, { ...LEAD, node: 2 }), 0);
  const readBefore = core.lastRead;
  core.read(data(2, { node: 2 }), 10);
  core.read(data(3, { node: 2 }), 20);
  core.answered(ends(1, 1), readBefore, 30);
  core.answered(ends(3, 3), core.lastRead, 130);
  assert.equal(core.next, 4, "it reads on, although the messages before were purged");
  assert.equal(core.behind, 0);
  assert.deepEqual(did, ["apply", "apply", "apply"]);
});

test("a place that is purged while the node searches for it is searched for again", () => {
  const { core, did } = follower(own(1, 2, 3));
  core.answered(ends(1, 3), 0, 0);
  assert.equal(core.next, 1);
  core.answered(ends(2, 3), core.lastRead, 100);
  core.answered(ends(2, 3), core.lastRead, 200);
  assert.equal(core.next, 2);
  core.read(data(2), 200);
  core.read(data(3), 200);
  core.hasRead(200);
  assert.ok(core.isCaughtUp);
  assert.deepEqual(did, []);
});

test("a new node whose first message is purged begins with the next one", () => {
  const { core, did } = follower([]);
  core.answered(ends(1, 9), 0, 0);
  core.answered(ends(5, 9), core.lastRead, 100);
  core.answered(ends(5, 9), core.lastRead, 200);
  assert.equal(core.next, 5);
  assert.deepEqual(did, []);
});

test("a node that has not read the log is behind, and one that has is never less than 0 behind", () => {
  const { core } = follower([]);
  assert.equal(core.behind, 1, "it does not know the log yet");
  core.answered(ends(7, 8), 0, 0);
  assert.equal(core.behind, 2, "purged messages don't count");
  core.read({ ...data(7, { node: 2 }), sequence: 7 }, 0);
  core.read({ ...data(8, { node: 2 }), sequence: 8 }, 0);
  core.hasRead(0);
  assert.equal(core.behind, 0);
  core.read({ ...data(9, { node: 2 }), sequence: 9 }, 10);
  assert.equal(core.behind, 0);
  core.answered(ends(7, 12), core.lastRead, 100);
  assert.equal(core.behind, 3);
});

test("a node in a log that has lost its last messages counts none of these as unread", () => {
  const { core } = follower([]);
  core.answered(ends(1, 4), 0, 0);
  core.read(data(1, { ...LEAD, node: 2 }), 0);
  core.read(data(2, { node: 2 }), 0);
  core.answered(ends(1, 2), core.lastRead, 100);
  assert.equal(core.behind, 0);
});

test("a log of strangers' messages alone is lost for a node that was in the group", () => {
  const { core, did } = follower(OWN);
  core.answered(ends(1, 1), 0, 0);
  core.read({ sequence: 1, bytes: new TextEncoder().encode("hello") }, 0);
  for (let nowMs = 100; nowMs < 60_000; nowMs += 100) {
    core.answered(ends(1, 1), core.lastRead, nowMs);
    core.tick(nowMs);
  }
  assert.deepEqual(did, ["log-lost: it has no batch, but this node was in the group before"]);
});

test("a standby remembers where the segments that count begin, and no others", () => {
  const { core } = follower([]);
  core.answered(ends(1, 99), 0, 0);
  core.read(data(1, { ...LEAD, node: 2 }), 0);
  for (let n = 2; n < 99; n++) core.read(data(n, { node: 2, segment: n, oldest: n - 3 }), 0);
  assert.deepEqual([...core.firstSequences.keys()], [95, 96, 97, 98]);
});
