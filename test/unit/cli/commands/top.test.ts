import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CTRL_C, TopKeys } from "../../../../src/cli/commands/top.ts";

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
