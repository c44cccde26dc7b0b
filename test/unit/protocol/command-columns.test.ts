// Tests of the table of commands by op: which commands each column names, and what it says of ops
// without a row.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ALL_PERMISSIONS } from "../../../src/access/identity.ts";
import * as columns from "../../../src/protocol/commands.ts";
import { COMMAND_CLASSES, COMMAND_OPS, Op, Route, Scope } from "../../../src/protocol/commands.ts";

const ops = (column: Uint8Array, value = 1): string[] =>
  Object.entries(Op)
    .filter(([, op]) => column[op] === value)
    .map(([name]) => name);
const ofClass = (name: (typeof COMMAND_CLASSES)[number]): string[] =>
  ops(columns.TIMING_OF, COMMAND_CLASSES.indexOf(name));

describe("the columns of the commands", () => {
  it("have a place for each op that a byte of a message may have", () => {
    for (const column of [columns.ROUTE_OF, columns.PERMISSION_OF, columns.SCOPE_OF, columns.TIMING_OF])
      assert.equal(column.length, COMMAND_OPS);
  });

  it("name the commands with a property", () => {
    assert.deepEqual(ops(columns.PASSES_BEFORE_AUTH), ["Quit"]);
    assert.deepEqual(ops(columns.DELETES), ["Delete", "DeleteBatch"]);
    assert.deepEqual(ops(columns.MOVES_JOBS), ["UpdateJob", "MoveJobs"]);
    assert.deepEqual(ops(columns.WAITS_FOR_TRANSFER), ["Delete", "ReserveJob", "KickJob", "UpdateJob"]);
  });

  it("time puts, reserves, deletes and all others", () => {
    assert.deepEqual(ofClass("put"), ["Put", "PutInTube"]);
    assert.deepEqual(ofClass("reserve"), ["Reserve", "ReserveWithTimeout", "ReserveJob", "ReserveBatch"]);
    assert.deepEqual(ofClass("delete"), ["Delete", "DeleteBatch"]);
    assert.equal(ofClass("other").length, Object.keys(Op).length - 8);
  });

  it("have the row of each op, and let no one use an op without a row", () => {
    assert.equal(columns.wordOf(Op.Touch), "touch ");
    assert.equal(columns.wordOf(Op.Auth), "auth ");
    assert.equal(columns.ROUTE_OF[Op.Touch], Route.Job);
    assert.equal(columns.SCOPE_OF[Op.Use], Scope.NamedTube);
    const known: readonly number[] = Object.values(Op);
    for (let op = 0; op < COMMAND_OPS; op++) {
      if (op !== Op.Unknown && known.includes(op)) continue;
      assert.equal(columns.wordOf(op), "<unknown>");
      assert.notEqual(columns.PERMISSION_OF[op], 0);
      assert.equal(columns.PERMISSION_OF[op]! & ALL_PERMISSIONS, 0, "no role has this permission");
      assert.equal(columns.TIMING_OF[op], COMMAND_CLASSES.indexOf("other"));
      const { PASSES_BEFORE_AUTH, DELETES, MOVES_JOBS, WAITS_FOR_TRANSFER } = columns;
      for (const column of [PASSES_BEFORE_AUTH, DELETES, MOVES_JOBS, WAITS_FOR_TRANSFER])
        assert.equal(column[op], 0);
    }
    assert.equal(columns.wordOf(COMMAND_OPS), "<unknown>");
  });
});
