import assert from "node:assert/strict";
import { test } from "node:test";
import { getHeapSpaceStatistics } from "node:v8";
import { JobTable } from "../../../../src/engine/jobs/job-table.ts";
import { TubeSettings } from "../../../../src/engine/tubes/tube-settings.ts";
import { TubeTable } from "../../../../src/engine/tubes/tube-table.ts";

const TUBES = 250_000;
/** Tubes that are there at a time. */
const LIVE = 200;

function oldSpaceBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === "old_space")!.space_used_size;
}

function makeTable(): TubeTable {
  let sequence = 0;
  return new TubeTable(new JobTable(), () => ++sequence, new TubeSettings());
}

test("tubes are listed in the order of their creation, also new ones", () => {
  const table = makeTable();
  for (const name of ["a", "b", "c"]) table.open(name);
  table.remove(table.get("a")!);
  const listed: string[] = [];
  for (const tube of table.values()) {
    listed.push(tube.name);
    if (tube.name === "b") table.open("d");
  }
  assert.deepEqual(listed, ["b", "c", "d"]);
  assert.deepEqual([...table.keys()], listed);
  assert.equal(table.size, 3);
  assert.equal(table.get("a"), undefined);
  assert.equal(table.open("d"), table.get("d"));
});

test(`${TUBES} short-lived tubes are young garbage, and don't fill the old generation`, () => {
  const table = makeTable();
  const before = oldSpaceBytes();
  let most = 0;
  for (let number = 0; number < TUBES; number++) {
    // Creates what its first jobs would.
    const tube = table.open(`tube-${number}`);
    tube.ready.makeRoom();
    assert.ok(tube.delayTimer.position < 0 && tube.buried.first < 0 && tube.nameBytes.length > 0);
    if (number >= LIVE) table.remove(table.get(`tube-${number - LIVE}`)!);
    if (number % 1000 === 0) most = Math.max(most, oldSpaceBytes() - before);
  }
  console.log(`${(most / 1e6).toFixed(1)} MB`);
  assert.ok(most < 40e6, `${most} bytes`);
});
