// The table of commands for people: `--help`, and README.md in this directory.

import { AUTH, COMMANDS, commandUsage, hasBody } from "./commands.ts";

const ALL = [...COMMANDS, AUTH];

/** A longer usage goes on a line of its own above its explanation. */
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

function wrapped(usage: string): string {
  let length = 0;
  return usage.replace(/ ?\S+/g, (word) => {
    const isLonger = length + word.length > LINE_WIDTH;
    length = isLonger ? word.length : length + word.length;
    return isLonger ? `\n    ${word}` : word;
  });
}

/** Returns the commands as a Markdown table, with replies and sections. */
export function commandListMarkdown(): string {
  const rows = [
    ["command", "what it does", "replies", "section"],
    ...ALL.map((command) => [
      // A bar would end the cell, even within code.
      `\`${commandUsage(command).replaceAll("|", "\\|")}\`${hasBody(command) ? ", body" : ""}`,
      command.help,
      command.replies.map(replyMarkdown).join(", "),
      command.section,
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  const [head, ...body] = rows.map(line);
  return [head, `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body].join("\n");
}

/** Returns a reply with its wire words as code and the explanation as text. */
function replyMarkdown(reply: string): string {
  return reply.replace(/^[A-Z_]+(?: <[a-z]+>)*/, (words) => `\`${words}\``);
}
