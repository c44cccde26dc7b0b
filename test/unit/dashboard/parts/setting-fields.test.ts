// Tests that the dashboard shows every setting of a tube, each as what it is.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EXPIRED, SETTING_FIELDS } from "../../../../src/dashboard/parts/setting-fields.ts";
import { EXPIRE_WORDS, jsonNameOf, OptionKind, SETTING_ROWS } from "../../../../src/protocol/option-rows.ts";

const KINDS: Readonly<Record<number, readonly string[]>> = {
  [OptionKind.Number]: ["number", "bytes"],
  [OptionKind.Duration]: ["seconds"],
  [OptionKind.Rate]: ["rate"],
  [OptionKind.Tube]: ["text"],
  [OptionKind.Word]: ["expire"],
};

describe("fields of settings", () => {
  it("are those of set-tube, in the same order and of the same kinds", () => {
    assert.deepEqual(
      SETTING_FIELDS.map(({ name }) => name),
      SETTING_ROWS.map(jsonNameOf),
    );
    for (const [at, { kind }] of SETTING_ROWS.entries())
      assert.ok(KINDS[kind]?.includes(SETTING_FIELDS[at]!.kind), SETTING_FIELDS[at]!.name);
    assert.deepEqual(Object.keys(EXPIRED), EXPIRE_WORDS);
  });
});
