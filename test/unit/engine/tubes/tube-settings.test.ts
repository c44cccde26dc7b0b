// Tests of tube settings against a scan of all patterns.

import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import fc from "fast-check";
import { matches, PATTERNS_MAX, TubeSettings } from "../../../../src/engine/tubes/tube-settings.ts";
import { NOTHING_SET, type SettingName, type SettingValues } from "../../../../src/schema/setting.ts";
import { EngineBench } from "../engine-bench.ts";

const nameOf = fc.stringMatching(/^[ab]{1,4}$/);
const patternOf = fc.oneof(
  nameOf,
  nameOf.map((name) => `${name}*`),
  fc.constant("*"),
);
const valuesOf = fc
  .record({ maxAttempts: fc.nat(9), maxJobs: fc.nat(9), deadLetter: nameOf }, { requiredKeys: [] })
  .map((values) => values as Partial<SettingValues>);

test("a name's own setting wins, then the longest prefix, then *", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(patternOf, valuesOf), { maxLength: 12 }), nameOf, (sets, tube) => {
      const settings = new TubeSettings();
      const model = new Map<string, Partial<SettingValues>>();
      for (const [pattern, values] of sets) {
        settings.set(pattern, values);
        if (Object.keys(values).length === 0) model.delete(pattern);
        else model.set(pattern, values);
      }
      assert.equal(settings.size, model.size);
      const policy = settings.policyOf(tube);
      let any = false;
      for (const name of ["maxAttempts", "maxJobs", "deadLetter"] as SettingName[]) {
        const found = [...model].filter(([pattern, values]) => matches(pattern, tube) && name in values);
        const rank = (pattern: string): number => (pattern === tube ? 1000 : pattern.length);
        found.sort(([a], [b]) => rank(b) - rank(a));
        const [pattern, values] = found[0] ?? [undefined, NOTHING_SET];
        if (found.length > 0) any = true;
        assert.equal((policy ?? NOTHING_SET)[name], values[name], name);
        assert.equal(policy?.sources.get(name), pattern, name);
      }
      assert.equal(policy !== undefined, any);
    }),
    { numRuns: 500 },
  );
});

describe("TubeSettings", () => {
  it("limits the number of patterns, and still changes existing ones", () => {
    const settings = new TubeSettings();
    for (let i = 0; i < PATTERNS_MAX; i++) settings.set(`p${i}*`, { maxJobs: i });
    assert.ok(!settings.hasRoomFor("another*"));
    assert.ok(settings.hasRoomFor("p7*"));
    assert.ok(settings.hasRoomFor("a-name"));
    settings.set("p7*", {});
    assert.ok(settings.hasRoomFor("another*"));
  });
});

it("a setting for one name is as much work with many tubes as with few", () => {
  const { engine } = new EngineBench();
  const work = (): number => engine.beginSetting("t0", { maxJobs: 1 }).work;
  const before = work();
  for (let index = 0; index < 100; index++) engine.tubes.open(`t${index}`);
  assert.equal(work(), before);
  assert.ok(engine.beginSetting("t*", { maxJobs: 1 }).work >= 100 * before);
});
