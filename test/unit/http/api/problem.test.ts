// Tests of the problem that a refused put becomes.

import assert from "node:assert/strict";
import { it } from "node:test";
import { requireServing } from "../../../../src/http/api/api.ts";
import { Problem } from "../../../../src/http/api/problem.ts";
import { refused } from "../../../../src/http/jobs/put-routes.ts";
import type { Service } from "../../../../src/http/queue/service.ts";
import { ControlWord, createTopology } from "../../../../src/message/topology.ts";
import { ControlWords, LogWord } from "../../../../src/ring/shared-words.ts";

/** Returns the code of a put that runs out of memory while these words are set. */
function codeWith(set: readonly number[], isFull = false): string {
  const words = { isSet: (word: number) => set.includes(word) };
  return refused("OUT_OF_MEMORY", { words, memory: { isFull } } as Service).code;
}

it("names what is full: the group's log, the disk, or memory", () => {
  assert.equal(codeWith([ControlWord.SharedLogFull]), "shared-log-full");
  assert.equal(codeWith([ControlWord.BinlogFull]), "disk-full");
  assert.equal(codeWith([], true), "out-of-memory");
  assert.equal(codeWith([]), "out-of-memory");
});

// Tests of the refusal by a server that may not serve: a problem with its code, never an error.

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
