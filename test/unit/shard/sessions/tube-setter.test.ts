// Tests of tube settings on one shard: the order of changes, the text of settings, and a bound on
// their growth.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { PATTERNS_MAX } from "../../../../src/engine/tubes/tube-settings.ts";
import { OptionParser, OptionsSyntax } from "../../../../src/protocol/option-parser.ts";
import { SETTING_ROWS } from "../../../../src/protocol/option-rows.ts";
import { Span } from "../../../../src/protocol/request.ts";
import { settingsText, TubeSetter } from "../../../../src/shard/sessions/tube-setter.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

function setter(): { engine: Engine; setter: TubeSetter } {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  return { engine, setter: new TubeSetter(engine, undefined, () => true) };
}

const parser = new OptionParser();

function options(text: string): Span {
  const bytes = Buffer.from(` ${text}`);
  const span = new Span();
  assert.equal(parser.parse(bytes, 0, bytes.length, SETTING_ROWS, span), OptionsSyntax.Ok, text);
  return span;
}

describe("TubeSetter", () => {
  it("writes settings as they are read", () => {
    const { engine, setter: tubes } = setter();
    const text =
      "max-attempts=5 dead-letter=mails-dead backoff=0.25 backoff-max=90 ttl=3600 expire=bury max-jobs=7 max-bytes=1048576";
    assert.ok(tubes.change("mails", options(text), 0, 0));
    assert.equal(settingsText(engine.settings.get("mails")!), text);
    tubes.change("mails", options("ttl= expire=delete max-jobs="), 0, 0);
    const { engine: other, setter: again } = setter();
    again.restore([["mails", settingsText(engine.settings.get("mails")!)]], 0);
    assert.deepEqual(other.settings.get("mails"), engine.settings.get("mails"));
    assert.equal(engine.settings.get("mails")!.expire, "delete");
  });

  it("restores a full bucket, whichever of its rate and its burst comes first", () => {
    const settings = [
      ["*", "rate=1/60"],
      ["default", "burst=3"],
    ] as const;
    for (const order of [settings, settings.toReversed()]) {
      const { engine, setter: tubes } = setter();
      tubes.restore(order, 1000);
      assert.equal(engine.tubes.get("default")!.limiter!.tokens(1000), 3);
    }
  });

  it("applies the change with the highest number, in any order of arrival", () => {
    const { engine, setter: tubes } = setter();
    tubes.change("m*", options("max-jobs=2"), 9, 0);
    tubes.change("m*", options("max-jobs=1 max-attempts=3"), 8, 0);
    assert.deepEqual(engine.settings.get("m*"), { maxJobs: 2, maxAttempts: 3 });
    tubes.change("m*", options("max-jobs= max-attempts="), 10, 0);
    tubes.change("m*", options("max-jobs=5"), 7, 0);
    assert.equal(engine.settings.get("m*"), undefined);
  });

  it("refuses patterns beyond its limit, and forgets empty ones", () => {
    const { engine, setter: tubes } = setter();
    for (let i = 0; i < PATTERNS_MAX; i++) assert.ok(tubes.change(`p${i}*`, options("max-jobs=1"), i, 0));
    assert.ok(!tubes.change("another*", options("max-jobs=1"), 5000, 0));
    assert.ok(tubes.change("p7*", options("max-jobs="), 5001, 0));
    for (let i = 0; i < 5000; i++) {
      assert.ok(tubes.change(`q${i}*`, options("max-jobs=1"), 6000 + 2 * i, 0));
      tubes.change(`q${i}*`, options("max-jobs="), 6001 + 2 * i, 0);
    }
    assert.equal(engine.settings.size, PATTERNS_MAX - 1);
    assert.ok(tubes.changedPatterns <= 2 * PATTERNS_MAX);
  });

  it("takes more patterns from a file than from clients, and changes of each", () => {
    const { engine, setter: tubes } = setter();
    const patterns = Array.from({ length: 3 * PATTERNS_MAX }, (_, i) => `p${i}*`);
    tubes.restore(
      patterns.map((pattern) => [pattern, "max-jobs=1"] as const),
      0,
    );
    for (const [i, pattern] of patterns.entries())
      assert.ok(tubes.change(pattern, options("max-jobs=2"), i + 1, 0));
    assert.ok(patterns.every((pattern) => engine.settings.get(pattern)?.maxJobs === 2));
    assert.ok(tubes.changedPatterns <= 2 * PATTERNS_MAX);
  });
});
