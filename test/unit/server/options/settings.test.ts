// Tests of every setting, one after the other: by file, variable and flag, it changes its own
// options and no others, and what is printed says so.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { longFlagOf, variableOf } from "../../../../src/config/setting.ts";
import { exampleSettings, printSettings } from "../../../../src/config/write-settings.ts";
import { type Environment, type Options, parseOptions } from "../../../../src/server/options/options.ts";
import { defaultSettings, SETTINGS, type Settings } from "../../../../src/server/options/settings.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";
import { fileOf, neededBy, type SettingCase, settingCases, settingsWith } from "./setting-cases.ts";

const folder = temporaryFolder({ after }, "settings");
const CONFIG = join(folder, "runnerbean.toml");
const TUBES = join(folder, "tubes");
writeFileSync(TUBES, "mails max-jobs=5\n");
const CASES = settingCases(TUBES);

function optionsOf(file: string, environment: Environment = {}, flags: readonly string[] = []): Options {
  writeFileSync(CONFIG, file);
  const options = parseOptions(["--config", CONFIG, ...flags], "runnerbean", environment);
  assert.ok(!("exitCode" in options), `${file}: ${JSON.stringify(options)}`);
  return options;
}

/** Returns the settings alone, without where they come from. */
function settingsIn({ config, given, sources, ...settings }: Options): Settings {
  assert.equal(config, CONFIG);
  return settings;
}

/** The ways to write a flag: short and long, each as often as it has to be there. */
function flagsFor({ key, text = "" }: SettingCase): string[][] {
  const row = SETTINGS.find((each) => each.key === key)!;
  if (!("flags" in row) || row.flags === undefined) return [];
  const short = /^-\w\b/.exec(row.flags)?.[0];
  return [short, longFlagOf(row)]
    .filter((flag) => flag !== undefined)
    .map((flag) => {
      if (row.kind === "switch") return [flag];
      return row.kind === "counter" ? Array<string>(Number(text)).fill(flag) : [flag, text];
    });
}

describe("each setting", () => {
  it("has a case, and each option a setting", () => {
    assert.deepEqual(CASES.map(({ key }) => key).sort(), SETTINGS.map(({ key }) => key).sort());
    const changed = new Set(CASES.flatMap(({ changes }) => Object.keys(changes)));
    const options = Object.keys(defaultSettings()).filter((name) => name !== "notices");
    assert.deepEqual([...changed].sort(), options.sort());
    for (const each of CASES) assert.notDeepEqual(settingsWith([each]), defaultSettings(), each.key);
  });

  for (const each of CASES) {
    const { key, text } = each;
    const needed = neededBy(each, CASES);
    const expected = settingsWith([...needed, each]);

    it(`${key}: of the file`, () => {
      const options = optionsOf(fileOf([...needed, each]));
      assert.deepEqual(settingsIn(options), expected);
      assert.match(options.sources.get(key)!, /runnerbean\.toml:\d+$/);
    });

    it(`${key}: printed, and read again`, () => {
      const options = optionsOf(fileOf([...needed, each]));
      const printed = printSettings(SETTINGS, options, options.sources);
      assert.deepEqual(settingsIn(optionsOf(printed)), expected);
    });

    if (text === undefined) continue;
    it(`${key}: of a variable, and of a flag`, () => {
      const environment = { [variableOf(key)]: text };
      const byVariable = optionsOf(fileOf(needed), environment);
      assert.deepEqual(settingsIn(byVariable), expected);
      assert.equal(byVariable.sources.get(key), variableOf(key));
      for (const flags of flagsFor(each)) {
        const byFlag = optionsOf(fileOf(needed), {}, flags);
        assert.deepEqual(settingsIn(byFlag), expected, flags.join(" "));
        assert.equal(byFlag.sources.get(key), flagsFor(each)[0]![0]);
      }
    });
  }

  it("has its flag and variable in the example, and whether SIGHUP is enough", () => {
    const lines = exampleSettings(SETTINGS, defaultSettings()).split("\n");
    for (const row of SETTINGS) {
      const ways = ["flags" in row ? longFlagOf(row) : undefined, variableOf(row.key)];
      const shown = ways.filter((way) => way !== undefined).join(", ");
      const reloads = row.reloads === true ? "; SIGHUP is enough after a change" : "";
      const line = `# ${row.text}${row.kind === "tables" ? "" : ` [${shown}]`}${reloads}`;
      assert.ok(lines.includes(line), line);
    }
  });

  it("that is a switch can be turned off again by its variable", () => {
    const switches = SETTINGS.filter(({ kind }) => kind === "switch").map(({ key }) => key);
    for (const each of CASES.filter(({ key }) => switches.includes(key))) {
      const needed = neededBy(each, CASES);
      for (const off of ["0", "false", "no", "off", "OFF", ""]) {
        const options = optionsOf(fileOf([...needed, each]), { [variableOf(each.key)]: off });
        assert.deepEqual(settingsIn(options), settingsWith(needed), `${each.key}: "${off}"`);
      }
    }
  });
});
