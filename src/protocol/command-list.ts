// The list of commands in `--help`.

import { AUTH, COMMANDS, type Command, commandName, FIELDS } from "./commands.ts";

const ALL = [...COMMANDS, AUTH];

/** A usage longer than this is on a line of its own, above its explanation. */
const USAGE_WIDTH = 38;
const LINE_WIDTH = 110;

/** Returns each command with its help text, for a terminal. */
export function commandListText(): string {
  const indent = " ".repeat(USAGE_WIDTH + 3);
  return ALL.map((command) => {
    const usage = commandUsage(command);
    return usage.length <= USAGE_WIDTH
      ? ` ${usage.padEnd(USAGE_WIDTH)}  ${command.help}\n`
      : ` ${wrapped(usage)}\n${indent}${command.help}\n`;
  }).join("");
}

/** Returns the usage of a command: its word, arguments and options. */
export function commandUsage(command: Command): string {
  const fields = FIELDS[command.args].map((field) => `<${field}>`);
  const options = (command.options ?? []).map(({ name, usage }) => `[${name}=${usage}]`);
  return [commandName(command), ...fields, ...options].join(" ");
}

function wrapped(usage: string): string {
  let length = 0;
  return usage.replace(/ ?\S+/g, (word) => {
    const isLonger = length + word.length > LINE_WIDTH;
    length = isLonger ? word.length : length + word.length;
    return isLonger ? `\n    ${word}` : word;
  });
}
