// Checks that what a command alone decides is in its row of COMMANDS: no other file lists commands.
//
// A file may name the command that it executes or sends. Two or more commands in one file are a
// table or a switch, which the next command would have to be added to.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import {
  AUTH,
  COMMAND_CLASSES,
  COMMANDS,
  DELETES,
  MOVES_JOBS,
  Op,
  PASSES_BEFORE_AUTH,
  PERMISSION_OF,
  ROUTE_OF,
  SCOPE_OF,
  TIMING_OF,
  WAITS_FOR_TRANSFER,
} from "../../src/protocol/commands.ts";
import { SHARD_COMMANDS } from "../../src/shard/commands/command-table.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Files or folders whose files name several commands, each with the most and the reason. */
const SEVERAL: Readonly<Record<string, readonly [number, string]>> = {
  "src/protocol/commands.ts": [Object.keys(Op).length, "the table"],
  "src/shard/commands/command-table.ts": [Object.keys(Op).length, "the function of each command"],
  "src/acceptor/connection/routes.ts": [15, "what a route does for each of its commands"],
  "src/acceptor/fanout/await-acks.ts": [2, "what all shards acknowledge"],
};

/** Returns the files that name more commands than they may, with these. */
function lists(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([file, text]) => {
    const named = new Set([...text.matchAll(/(?<!\w)Op\.([A-Z]\w+)/g)].map(([, name]) => name!));
    const [, [most] = [1]] = Object.entries(SEVERAL).find(([path]) => file.startsWith(path)) ?? [];
    return named.size > most ? [`${file}: ${[...named].join(" ")}`] : [];
  });
}

describe("the facts of a command", () => {
  const files = new Map(
    globSync("src/**/*.ts", { cwd: ROOT }).map((file) => [file, readFileSync(join(ROOT, file), "utf8")]),
  );

  it("are in its row: no other file lists commands", () => {
    assert.ok(files.size > 300, `${files.size} files`);
    assert.deepEqual(lists(files), []);
    for (const path of Object.keys(SEVERAL))
      assert.ok(
        [...files.keys()].some((file) => file.startsWith(path)),
        path,
      );
  });

  it("are found beside it (canary)", () => {
    const set = "const CHEAP = new Set([Op.Touch, Op.Use]);";
    const messages = "RequestOp.Take, RequestOp.Collect, SomeOp.Put, Op.Touch";
    assert.deepEqual(lists(new Map([["src/a.ts", set]])), ["src/a.ts: Touch Use"]);
    assert.deepEqual(lists(new Map([["src/a.ts", messages]])), []);
  });

  it("are the same in the arrays by op as in the rows", () => {
    for (const row of [...COMMANDS, AUTH]) {
      const { op } = row;
      assert.equal(ROUTE_OF[op], row.route, row.word);
      assert.equal(PERMISSION_OF[op], row.permission, row.word);
      assert.equal(SCOPE_OF[op], row.scope, row.word);
      assert.equal(COMMAND_CLASSES[TIMING_OF[op]!], row.timing ?? "other", row.word);
      assert.equal(PASSES_BEFORE_AUTH[op] === 1, row.beforeAuth === true, row.word);
      assert.equal(DELETES[op] === 1, row.deletes === true, row.word);
      assert.equal(MOVES_JOBS[op] === 1, row.movesJobs === true, row.word);
      assert.equal(WAITS_FOR_TRANSFER[op] === 1, row.waitsForTransfer === true, row.word);
    }
  });

  it("refuse everything to everybody for an op without a row", () => {
    assert.equal((PERMISSION_OF[Op.Unknown]! & 127) === 0 && PERMISSION_OF[Op.Unknown] !== 0, true);
    assert.equal(PASSES_BEFORE_AUTH[Op.Unknown], 0);
    assert.equal(COMMAND_CLASSES[TIMING_OF[Op.Unknown]!], "other");
    assert.throws(() => SHARD_COMMANDS[Op.Unknown]!(undefined!, undefined!, undefined!), /known op/);
  });
});
