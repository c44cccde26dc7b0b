// Tests of the class of each error reply, and of what its message says to do next.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as client from "../../../src/client/client.ts";
import { errorOf } from "../../../src/client/errors.ts";

describe("the error for a reply", () => {
  for (const [reply, Class, next] of [
    ["NOT_FOUND", client.NotFound],
    ["TUBE_FULL", client.TubeFull],
    ["DEADLINE_SOON", client.DeadlineSoon],
    ["JOB_TOO_BIG", client.JobTooBig, "(-z) says so"],
    ["OUT_OF_MEMORY", client.OutOfMemory, "the server's max-memory"],
    ["BURIED 7", client.Buried],
    ["DRAINING", client.Draining],
    ["BAD_FORMAT", client.BadFormat, "such as 0.5"],
    ["BAD_SCHEDULE cron: 61 is too much", client.BadSchedule],
    ["BATCH_NOT_FOUND", client.NotFound, "open it first"],
    ["BATCH_EXISTS", client.BatchConflict, "choose another name"],
    ["BATCH_COMMITTED", client.BatchConflict, "open another one"],
    ["BATCH_CANCELLED", client.BatchConflict, "open another one"],
    ["BATCH_COMPLETE", client.BatchConflict, "nothing left to cancel"],
    ["BATCH_ORDER", client.BatchConflict, "open that one first"],
    ["UNAUTHORIZED", client.Unauthorized, "don't allow this"],
    ["UNKNOWN_COMMAND", client.NotSupported],
    ["UNKNOWN_OPTION unique", client.NotSupported],
    ["INTERNAL_ERROR", client.ReplyError],
    ["EXPECTED_CRLF", client.ReplyError],
    ["NOT_IGNORED", client.ReplyError],
  ] as const) {
    it(`${reply} has its class`, () => {
      const error = errorOf("kick 1", reply);
      assert.equal(error.constructor, Class);
      assert.ok(error instanceof client.ReplyError && error instanceof client.QueueError);
      assert.deepEqual([error.name, error.reply], [Class.name, reply]);
      const [, hint] = /^kick 1: [^(]+(?: \((.+)\))?$/.exec(error.message)!;
      assert.equal(hint?.endsWith(next ?? ""), next === undefined ? undefined : true, error.message);
    });
  }

  it("says more about a batch that finds no room", () => {
    assert.match(errorOf("open-batch b", "OUT_OF_MEMORY").message, /shorter keep/);
    assert.doesNotMatch(errorOf("put 1 0 1 1", "OUT_OF_MEMORY").message, /keep/);
  });

  it("that is none of these is one of the protocol, and is cut", () => {
    for (const reply of ["INSERTED 7", "KICKED", `A${"x".repeat(1000)}`]) {
      const error = errorOf("kick 1", reply);
      assert.equal(error.constructor, client.ProtocolError);
      assert.ok(error.message.length < 450 && error.message.includes(reply.slice(0, 400)));
    }
  });
});
