// Tests of an acceptor beside a log that fails, in a group, and beside a full ring.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AcceptorCore } from "../../../../src/acceptor/connection/acceptor-core.ts";
import type { Transport } from "../../../../src/acceptor/stream/transport.ts";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { BinlogLoop } from "../../../../src/binlog/binlog-loop.ts";
import type { Storage } from "../../../../src/binlog/live/storage.ts";
import { binlogGroup, ControlWord, createTopology, type Topology } from "../../../../src/message/topology.ts";
import { Doorbell } from "../../../../src/ring/doorbell.ts";
import { ControlWords, LogWord, LogWords } from "../../../../src/ring/shared-words.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

// Tests that an acceptor sends nothing after the log has failed, not even earlier replies that have
// not left.

it("an acceptor sends no reply after NoMoreReplies is set, and has no work left", () => {
  const topology = createTopology({
    shards: 1,
    acceptors: 1,
    jobBytesMax: 65535,
    ringBytes: 1 << 16,
    binlog: { repliesWaitFor: LogWord.Written, segmentBytes: 1 << 20 },
  });
  const core = new AcceptorCore({ topology, acceptor: 0, nowMs: () => 0, statsText: () => "" });
  let sent = "";
  const transport: Transport = {
    send(buffer, length) {
      sent += Buffer.from(buffer.subarray(0, length)).toString();
      return true;
    },
    pendingBytes: 0,
    pause() {},
    resume() {},
    end() {},
    destroy() {},
    descriptor: 9,
  };
  const connection = core.connect(transport)!;
  const ask = (): void => {
    const bytes = asciiBytes("list-tube-used\r\n");
    connection.onBytes(bytes, bytes.length);
  };
  ask();
  core.publish(() => {});
  core.flush();
  assert.equal(sent, "USING default\r\n");
  ask();
  new ControlWords(topology.control).set(ControlWord.NoMoreReplies);
  core.flush();
  ask();
  core.flush();
  assert.equal(sent, "USING default\r\n");
  assert.equal(core.hasWork, false);
});

// Tests of replies in a group: which word of which log a reply waits for, and what wakes the
// waiting ones.

function groupOf(repliesWaitFor: LogWord, repliesWait: boolean) {
  const topology: Topology = createTopology({
    shards: 1,
    acceptors: 1,
    jobBytesMax: 65535,
    ringBytes: 1 << 16,
    binlog: { repliesWaitFor, segmentBytes: 1 << 20, group: { repliesWait } },
  });
  const core = new AcceptorCore({ topology, acceptor: 0, nowMs: () => 0, statsText: () => "" });
  const shared = new LogWords(binlogGroup(topology).progress, LogWord.Written);
  const tail = { written: new Float64Array(1), synced: new Float64Array(1) };
  const binlog = new BinlogLoop({
    topology,
    storage: { tail } as unknown as Storage,
    shards: [new Doorbell(new Int32Array(topology.doorbells), 0)],
    acceptors: [],
    surroundings: { nowMs: () => 0, isHeldUp: () => false },
  });
  /** Returns whether acceptors are rung. */
  const publish = (change: { readonly written?: number; readonly synced?: number }): boolean => {
    for (const [name, number] of Object.entries(change)) tail[name as keyof typeof tail][0] = number;
    return binlog.publishProgress();
  };
  return { core, shared, publish };
}

describe("a reply in a group", () => {
  it("waits only for the shared log without -f 0: its batches are written", () => {
    const { core, shared, publish } = groupOf(LogWord.Written, true);
    assert.equal(publish({ written: 1 }), false, "no connection is woken without need");
    assert.ok(core.log.isWritten(0, 1) && !core.log.isLogged(0, 1));
    // The answer of the shared log may come before the log's thread has told that it has written
    // the record.
    shared.publish(0, 2);
    assert.ok(core.log.isLogged(0, 2) && core.log.isWritten(0, 2));
    assert.ok(!core.log.isLogged(0, 3) && !core.log.isWritten(0, 3));
  });

  it("waits for both logs with -f 0, and the last one wakes it", () => {
    const { core, shared, publish } = groupOf(LogWord.Synced, true);
    assert.equal(publish({ written: 2 }), false);
    shared.publish(0, 1);
    assert.ok(!core.log.isLogged(0, 1));
    assert.equal(publish({ synced: 2 }), true);
    assert.ok(core.log.isLogged(0, 1) && !core.log.isLogged(0, 2));
    shared.publish(0, 2);
    assert.ok(core.log.isLogged(0, 2));
  });

  it("waits for the own log with --replicate-wait nothing", () => {
    const { core, shared, publish } = groupOf(LogWord.Written, false);
    shared.publish(0, 1);
    assert.ok(!core.log.isLogged(0, 1) && !core.log.isWritten(0, 1));
    assert.equal(publish({ written: 1 }), true);
    assert.ok(core.log.isLogged(0, 1));
  });
});

// Tests of an acceptor whose ring to a shard is full: it may sleep, and is woken when there is
// room.

it("AcceptorCore has no work while a ring is full, and the shard rings after it made room", () => {
  const server = new HandDrivenServer(1);
  const { acceptor } = server;
  const [shard] = server.shards;
  const clients = Array.from({ length: 40 }, () => server.connect(true));
  server.settle();
  const body = "x".repeat(60_000);
  for (const client of clients) client.say(`put 0 0 60 ${body.length}\r\n${body}\r\n`);
  const nobody = (): void => {};
  acceptor.publish(nobody);
  for (let turn = 0; turn < 3; turn++) {
    acceptor.takeAnswers(nobody);
    acceptor.flush();
  }
  assert.equal(acceptor.hasWork, false, "it turns without work");
  acceptor.wantRoom();
  assert.equal(acceptor.hasRoomAgain, false);
  shard!.step(1000);
  assert.equal(shard!.requests[0]!.release(), true, "the shard rings");
  assert.equal(acceptor.hasRoomAgain, true);
  assert.equal(acceptor.hasWork, true);
  server.settle();
  for (const client of clients) assert.match(client.take(), /^INSERTED \d+\r\n$/);
  assert.equal(acceptor.hasRoomAgain, false);
});
