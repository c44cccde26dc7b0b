// Checks mentions of our tools in a text: they, their options and the options' values must exist.

import type { Command, Option } from "commander";

/**
 * "runnerbean binlog verify DIR --json", up to the end of the code, the line, or what a shell makes
 * of the rest.
 */
const TOOL = /(^ {4}(?:sudo )?|`)?\brunnerbean ([a-z][a-z-]*)([^\n`"|#;>)]*)/gm;

/** Calls `onWrong` with where and what; returns how many there are. */
export function checkToolLines(
  text: string,
  tree: Command,
  onWrong: (index: number, what: string) => void,
): number {
  let checked = 0;
  for (const { index, 1: code, 2: word, 3: rest } of text.matchAll(TOOL)) {
    const command = tree.commands.find((each) => each.name() === word);
    if (command !== undefined) {
      checked++;
      for (const mistake of mistakesOf(command, rest!)) onWrong(index, `runnerbean ${word}: ${mistake}`);
    } else if (code !== undefined) onWrong(index, `there is no runnerbean ${word}`);
  }
  return checked;
}

function* mistakesOf(tool: Command, text: string): Generator<string, void, undefined> {
  // Text behind " -- " belongs to another program.
  const words = (text.split(" -- ")[0] ?? "").replaceAll(/[[\]]/g, " ").trim().split(/\s+/);
  const child = tool.commands.find((each) => each.name() === words[0]);
  if (tool.commands.length > 0 && child === undefined && /^[a-z][a-z-]+$/.test(words[0] ?? ""))
    yield `there is no ${words[0]}`;
  const options: readonly Option[] = (child ?? tool).options;
  for (const [index, word] of words.entries()) {
    const flag = /^--[a-z][a-z-]*/.exec(word)?.[0];
    if (flag === undefined || flag === "--help") continue;
    const option = options.find(({ long }) => long === flag);
    if (option === undefined) yield `there is no ${flag}`;
    else if (option.argChoices !== undefined && !option.argChoices.includes(words[index + 1] ?? ""))
      yield `${flag} takes no ${words[index + 1]}`;
  }
}
