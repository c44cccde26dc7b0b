// Tests of the files that take turns: each is there once and has its turn often enough, and so have
// its own tests.

import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { temporaryFolder } from "../machine/temporary-folder.ts";
import { hasTurn } from "../whole.ts";
import { ALONE, isOneOf, processesFor, WHOLE_ONLY } from "./files.ts";
import { fileHasTurn, nextTurn, noteTurn, ROWS, TURNS, turnIn } from "./turns.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const all = globSync(["test/**/*.test.ts", "bench/**/*.test.ts"], { cwd: root });
const named = all.filter((file) => isOneOf(ROWS.flat(2), file));
const turns = Array.from({ length: TURNS }, (_, turn) => turn);

it("each name is that of one file, in one row, and is not for whole runs only", () => {
  for (const name of ROWS.flat(2)) assert.equal(all.filter((file) => isOneOf([name], file)).length, 1, name);
  assert.equal(new Set(ROWS.flat(2)).size, ROWS.flat(2).length);
  for (const file of named) assert.ok(!isOneOf(WHOLE_ONLY, file), file);
});

it("no file that takes turns shares a process, whose tests have one number", () => {
  const shared = processesFor(all).filter(({ length }) => length > 1);
  assert.ok(shared.length > 10);
  for (const file of named) assert.ok(!shared.flat().includes(file), file);
  for (const name of ALONE) assert.equal(all.filter((file) => isOneOf([name], file)).length, 1, name);
});

it("each file is in every third run at least, and files of no row in each", () => {
  for (const row of ROWS) assert.ok(row.length === 2 || row.length === 3, `${row}`);
  for (const file of named)
    for (const turn of turns)
      assert.ok(
        [0, 1, 2].some((more) => fileHasTurn(file, (turn + more) % TURNS)),
        `${file}, ${turn}`,
      );
  assert.ok(fileHasTurn("test/simulation/simulation.test.ts", 1));
});

it("tests of a file that take turns, too, meet their turn in a run that plays the file", () => {
  for (const file of named)
    for (const count of [2, 3, 4, 5])
      for (let index = 0; index < count; index++)
        assert.ok(
          turns.some((turn) => fileHasTurn(file, turn) && hasTurn(index, count, turnIn(file, turn))),
          `${file}: ${index} of ${count}`,
        );
});

it("runs count on, and begin anew where the number can't be read", (t) => {
  const place = join(temporaryFolder(t, "turn"), "there", "turn");
  const first = nextTurn(place);
  assert.ok(first >= 0 && first < TURNS);
  noteTurn(place, first + 1);
  assert.equal(nextTurn(place), (first + 1) % TURNS);
  noteTurn(place, TURNS);
  assert.equal(nextTurn(place), 0);
  noteTurn(join(place, "turn"), 1);
  assert.equal(nextTurn(place), 0, "a number that can't be kept is no failure");
});
