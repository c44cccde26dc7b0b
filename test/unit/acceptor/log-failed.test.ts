// Tests that an acceptor sends nothing after the log has failed, not even earlier replies that have
// not left.

import assert from "node:assert/strict";
import { it } from "node:test";
import { AcceptorCore } from "../../../src/acceptor/connection/acceptor-core.ts";
import type { Transport } from "../../../src/acceptor/stream/transport.ts";
import { asciiBytes } from "../../../src/base/bytes.ts";
import { ControlWord, createTopology } from "../../../src/message/topology.ts";
import { ControlWords } from "../../../src/ring/control-words.ts";
import { LogWord } from "../../../src/ring/log-words.ts";

it("an acceptor sends no reply after BinlogEnded is set, and has no work left", () => {
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
  new ControlWords(topology.control).set(ControlWord.BinlogEnded);
  core.flush();
  ask();
  core.flush();
  assert.equal(sent, "USING default\r\n");
  assert.equal(core.hasWork, false);
});
