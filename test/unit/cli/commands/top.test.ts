import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CTRL_C, fittedText, TopKeys } from "../../../../src/cli/commands/top.ts";

describe("keys of top", () => {
  it("s cycles through the columns, S goes back", () => {
    const keys = new TopKeys(["tube", "ready", "puts/s"], "ready", "");
    keys.press("s");
    assert.equal(keys.sort, "puts/s");
    keys.press("s");
    assert.equal(keys.sort, "tube");
    keys.press("SS");
    assert.equal(keys.sort, "ready");
  });

  it("/ reads a filter up to Enter, in which s and q are letters", () => {
    const keys = new TopKeys(["tube"], "tube", "old-*");
    assert.equal(keys.glob, "old-*");
    keys.press("/sqx\u007f\u001b[A");
    assert.deepEqual([keys.filter, keys.isTyping, keys.isOver], ["sq", true, false]);
    keys.press("y\b\r");
    assert.deepEqual([keys.glob, keys.isTyping], ["*sq*", false]);
    keys.press("/");
    keys.press("mail-?");
    assert.equal(keys.glob, "mail-?");
    keys.press("\u001b");
    assert.deepEqual([keys.glob, keys.isTyping, keys.isOver], ["**", false, false]);
  });

  it("q, Escape and Ctrl-C end it; Ctrl-C also in a filter; arrows do nothing", () => {
    for (const [pressed, isOver] of [
      ["q", true],
      ["\u001b", true],
      [`/a${CTRL_C}`, true],
      ["\u001b[B", false],
      ["x", false],
    ] as const) {
      const keys = new TopKeys(["tube"], "tube", "");
      keys.press(pressed);
      assert.equal(keys.isOver, isOver, JSON.stringify(pressed));
    }
  });
});

describe("the table of top", () => {
  const row = {
    tube: `mail-${"x".repeat(60)}`,
    ready: 5,
    reserved: 1,
    delayed: 2,
    buried: 3,
    disconnects: 7,
  };

  it("leaves out columns until it fits, but not the one that sorts", () => {
    for (const width of [200, 110, 100, 80])
      for (const sort of ["ready", "disconnects"]) {
        const [head = "", line = ""] = fittedText([row], sort, width).split("\n");
        assert.ok(Math.max(head.length, line.length) <= width, `${width}: ${head}`);
        for (const column of ["tube", "ready", "reserved", "delayed", "buried", sort])
          assert.ok(head.split(/ +/).includes(column), `${width}: ${column}`);
        assert.match(line, /^mail-x/);
      }
    assert.match(fittedText([row], "ready", 80), /^mail-x+…/m);
    assert.equal(fittedText([], "ready", 400).split("\n")[0]!.split(/ +/).length, 15);
  });
});
