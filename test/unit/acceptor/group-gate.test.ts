// Tests of replies in a group: which word of which log a reply waits for, and what wakes the
// waiting ones.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import { BinlogCore } from "../../../src/binlog/binlog-core.ts";
import type { Storage } from "../../../src/binlog/live/storage.ts";
import { binlogGroup, createTopology, type Topology } from "../../../src/message/topology.ts";
import { LogWord, LogWords } from "../../../src/ring/log-words.ts";

function groupOf(repliesWaitFor: LogWord, repliesWait: boolean) {
  const topology: Topology = createTopology({
    shards: 1,
    acceptors: 1,
    jobBytesMax: 65535,
    ringBytes: 1 << 16,
    binlog: { repliesWaitFor, segmentBytes: 1 << 20, group: { repliesWait } },
  });
  const core = new AcceptorCore({ topology, acceptor: 0, nowMs: () => 0, statsText: () => "" });
  const binlog = new BinlogCore(topology);
  const shared = new LogWords(binlogGroup(topology).progress, LogWord.Written);
  const log = { written: 0, synced: 0 };
  const storage = { writtenUpTo: () => log.written, syncedUpTo: () => log.synced } as unknown as Storage;
  /** Returns whether acceptors are rung. */
  const publish = (change: Partial<typeof log>): boolean => {
    Object.assign(log, change);
    return binlog.publishProgress(storage);
  };
  return { core, shared, publish };
}

describe("a reply in a group", () => {
  it("waits only for the shared log without -f 0: its batches are written", () => {
    const { core, shared, publish } = groupOf(LogWord.Written, true);
    assert.equal(publish({ written: 1 }), false, "no connection is woken in vain");
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
