// Tests of starts.json: a file that is damaged or can't be written costs no start, and never
// vouches for a job id that may have been given twice.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { noteStart } from "../../../../src/binlog/disk/checked-json.ts";
import { originsOf } from "../../../../src/message/topology.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

const NAME = "starts.json";

/** A directory that the servers `one` and `two` have used, and one more start. */
function scene() {
  const disk = new VirtualDisk();
  const warnings: string[] = [];
  const start = (id: string, first: number) => noteStart(disk, id, first, (text) => warnings.push(text));
  start("one", 1);
  start("two", 100);
  assert.deepEqual(warnings, []);
  return { disk, warnings, start };
}

describe("starts.json", () => {
  it("says which ids of earlier servers are valid, also if a log lost its end", () => {
    const { start } = scene();
    // This server gives ids from 50 on, although the one before gave some from 100 on.
    assert.deepEqual(originsOf(start("three", 50)), [
      { id: "three", below: Number.POSITIVE_INFINITY },
      { id: "two", below: 50 },
      { id: "one", below: 50 },
    ]);
    assert.deepEqual(start("three", 50).length, 3, "a group keeps its id");
  });

  const damages: readonly (readonly [what: string, damage: (text: string) => string])[] = [
    ["is empty", () => ""],
    ["is cut", (text) => text.slice(0, -20)],
    ["has a flipped digit", (text) => text.replace("100", "900")],
    ["is no JSON", () => "starts"],
    ["is of another kind", () => "[]"],
    ["has a start without an id", (text) => text.replace('"two"', "2.5")],
  ];
  for (const [what, damage] of damages)
    it(`that ${what} is replaced with a warning, and vouches for no earlier server`, () => {
      const { disk, warnings, start } = scene();
      disk.put(NAME, Buffer.from(damage(Buffer.from(disk.contentOf(NAME)).toString())));
      assert.deepEqual(start("three", 200), [["three", 200]]);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0]!, /starts\.json is damaged and was replaced; workers can't finish jobs/);
      assert.deepEqual(start("four", 300), [
        ["four", 300],
        ["three", 200],
      ]);
      assert.equal(disk.openHandles, 0);
    });

  it("that can't be written is removed with a warning: the next start must not miss this one", () => {
    for (const failing of ["write", "sync", "rename"]) {
      const { disk, warnings, start } = scene();
      disk.fault = (call) => {
        if (call === failing) throw Object.assign(new Error(`EROFS: ${call}`), { code: "EROFS" });
      };
      assert.deepEqual(start("three", 200), [["three", 200]], failing);
      assert.match(warnings.join("\n"), new RegExp(`starts\\.json cannot be written: EROFS: ${failing}`));
      disk.fault = () => {};
      assert.deepEqual(start("four", 300), [["four", 300]], `${failing}: the missing start is in between`);
    }
  });
});
