// Reader of the `--tubes` file: each line has a pattern of tubes and the arguments of set-tube. It
// skips empty lines and lines that begin with `#`.

import { asciiBytes } from "../../base/bytes.ts";
import { FileFault, readOperatorFile } from "../../config/operator-file.ts";
import { SettingError } from "../../config/setting.ts";
import { OptionParser, OptionsSyntax } from "../../protocol/option-parser.ts";
import { Span } from "../../protocol/request.ts";
import { SETTING_ROWS } from "../../protocol/setting-rows.ts";
import { isTubePattern } from "../../protocol/tube-name.ts";

/**
 * Returns the settings of each pattern in file order. Throws a SettingError that names the line.
 */
export function readTubes(file: string): [pattern: string, text: string][] {
  let text: string;
  try {
    // A character each byte, as on the wire.
    text = Buffer.from(readOperatorFile("tubes", file)).toString("latin1");
  } catch (error) {
    if (error instanceof FileFault) throw new SettingError(error.message);
    throw error;
  }
  const settings: [string, string][] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const words = line.trim().split(/[ \t]+/);
    if (words[0] === "" || words[0]!.startsWith("#")) continue;
    const [pattern, ...options] = words as [string, ...string[]];
    const fault = faultOf(pattern, options);
    if (fault !== undefined) throw new SettingError(`--tubes ${file}, line ${index + 1}: ${fault}`);
    settings.push([pattern, options.join(" ")]);
  }
  return settings;
}

function faultOf(pattern: string, options: readonly string[]): string | undefined {
  const name = asciiBytes(pattern);
  if (!isTubePattern(name, 0, name.length))
    return `${pattern} is neither a tube name, a prefix with *, nor *`;
  if (options.length === 0) return `nothing is set for ${pattern}; write for example max-attempts=5`;
  for (const option of options) {
    const bytes = asciiBytes(` ${option}`);
    const syntax = parser.parse(bytes, 0, bytes.length, SETTING_ROWS, new Span());
    if (syntax === OptionsSyntax.Unknown)
      return `${parser.unknown.text} can't be set (${SETTING_ROWS.map((row) => row.name).join(", ")})`;
    if (syntax === OptionsSyntax.Bad) return `${option} is not a valid setting: ${usageOf(option)}`;
  }
  const names = options.map((option) => option.split("=", 1)[0]!);
  const twice = names.find((each, index) => names.indexOf(each) < index);
  return twice === undefined ? undefined : `${twice} is set twice`;
}

function usageOf(option: string): string {
  const name = option.split("=", 1)[0];
  const row = SETTING_ROWS.find((each) => each.name === name);
  return row === undefined ? "name=value" : `${row.name}=${row.usage}`;
}

const parser = new OptionParser();
