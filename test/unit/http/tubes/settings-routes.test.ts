// Tests of the settings of tubes in JSON: each comes back from the form of set-tube as it was.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Problem } from "../../../../src/http/api/problem.ts";
import {
  Changes,
  changesLine,
  Settings,
  SettingsInEffect,
  settingsInEffect,
  settingsJson,
  settingsLine,
} from "../../../../src/http/tubes/settings-routes.ts";
import { SETTING_ROWS } from "../../../../src/protocol/option-rows.ts";

/** A value of each setting, and the same as an option. */
const EACH: Readonly<Record<string, readonly [value: number | string, option: string]>> = {
  maxAttempts: [3, "max-attempts=3"],
  deadLetter: ["dead", "dead-letter=dead"],
  backoff: [1.5, "backoff=1.5"],
  backoffMax: [60, "backoff-max=60"],
  ttl: [0.001, "ttl=0.001"],
  expire: ["bury", "expire=bury"],
  maxJobs: [7, "max-jobs=7"],
  maxBytes: [2 ** 40, `max-bytes=${2 ** 40}`],
  maxReserved: [9, "max-reserved=9"],
  rate: ["10/60", "rate=10/60"],
  burst: [11, "burst=11"],
  groupMaxReserved: [12, "group-max-reserved=12"],
  groupRate: ["14/15", "group-rate=14/15"],
  groupBurst: [16, "group-burst=16"],
  maxGroups: [13, "max-groups=13"],
  paused: ["yes", "paused=yes"],
  keepFinished: [17, "keep-finished=17"],
};
const ALL = Object.fromEntries(Object.entries(EACH).map(([field, [value]]) => [field, value]));
const OPTIONS = Object.values(EACH).map(([, option]) => option);

it("every setting has a field of its own, in all schemas", () => {
  assert.equal(Object.keys(EACH).length, SETTING_ROWS.length);
  for (const schema of [Settings, Changes, SettingsInEffect])
    assert.deepEqual(Object.keys(schema.properties).sort(), Object.keys(EACH).sort());
});

it("all settings come back as they were, and those left out are removed", () => {
  assert.deepEqual(settingsLine(ALL).split(" ").sort(), [...OPTIONS].sort());
  assert.deepEqual(settingsJson(settingsLine(ALL)), ALL);
  assert.deepEqual(settingsJson(""), {});
  for (const [field, [value, option]] of Object.entries(EACH)) {
    const removed = SETTING_ROWS.map(({ name }) => name).filter((name) => !option.startsWith(`${name}=`));
    const line = settingsLine({ [field]: value })
      .split(" ")
      .sort();
    assert.deepEqual(line, [option, ...removed.map((name) => `${name}=`)].sort(), field);
  }
});

it("a change says only what it names, and null removes", () => {
  assert.deepEqual(changesLine(ALL).split(" ").sort(), [...OPTIONS].sort());
  for (const [field, [value, option]] of Object.entries(EACH)) {
    assert.equal(changesLine({ [field]: value }), option);
    assert.equal(changesLine({ [field]: null }), option.replace(/=.*/, "="));
  }
});

it("the settings in effect have their patterns", () => {
  const inEffect = OPTIONS.map((option, at) => {
    const [name, text] = option.split("=") as [string, string];
    return [name, text, `m${at}*`] as const;
  });
  assert.deepEqual(
    settingsInEffect(inEffect),
    Object.fromEntries(Object.entries(ALL).map(([field, value], at) => [field, { value, from: `m${at}*` }])),
  );
});

it("values that set-tube would read otherwise are refused", () => {
  for (const [changes, code] of [
    [{ backoff: 0.0001 }, "bad-request"],
    [{ deadLetter: "-a" }, "bad-tube-name"],
    [{ deadLetter: "a b" }, "bad-tube-name"],
    [{ rate: "4294967296/1" }, "bad-request"],
    [{ rate: "1/4294967296" }, "bad-request"],
  ] as const)
    assert.throws(
      () => changesLine(changes),
      (error) => error instanceof Problem && error.code === code,
    );
  assert.equal(changesLine({ rate: "4294967295/4294967295" }), "rate=4294967295/4294967295");
});
