// Tests of the refusal by a server that may not serve: a problem with its code, never an error.

import assert from "node:assert/strict";
import { it } from "node:test";
import { requireServing } from "../../../../src/http/api/api.ts";
import { Problem } from "../../../../src/http/api/problem.ts";
import type { Service } from "../../../../src/http/queue/service.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { ControlWords } from "../../../../src/ring/control-words.ts";
import { LogWord } from "../../../../src/ring/log-words.ts";

it("says whether a server of a group follows or is frozen", () => {
  const topology = createTopology({
    shards: 1,
    acceptors: 1,
    http: true,
    jobBytesMax: 65_535,
    ringBytes: 1 << 20,
    binlog: { repliesWaitFor: LogWord.Written, segmentBytes: 1 << 20, group: { repliesWait: true } },
  });
  const words = new ControlWords(topology.control);
  for (const [phase, code] of [
    ["starting", "standby"],
    ["serving", "frozen"],
    ["stopping", "stopping"],
  ] as const) {
    const state = { phase, replayed: 1 };
    const service = { topology, words, state, nowMs: () => 1e6, wallMs: () => 1e6 } as Service;
    assert.throws(
      () => requireServing(service),
      (error) => error instanceof Problem && error.code === code && error.status === 503,
      code,
    );
  }
});
