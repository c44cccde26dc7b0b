// The table of commands for people: in `--help`, and in README.md of this room.

import { AUTH, COMMANDS, commandUsage, hasBody } from "./commands.ts";

const ALL = [...COMMANDS, AUTH];

/** What is longer stands above its explanation. */
const USAGE_WIDTH = 38;
const LINE_WIDTH = 110;

/** Each command with what it does, for a terminal. */
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

/** A table in Markdown, with replies and sections. */
export function commandListMarkdown(): string {
  const rows = [
    ["command", "what it does", "replies", "section"],
    ...ALL.map((command) => [
      // A bar would end the cell, also within code.
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

/** The words of the wire as code, and what is said of them as text. */
function replyMarkdown(reply: string): string {
  return reply.replace(/^[A-Z_]+(?: <[a-z]+>)*/, (words) => `\`${words}\``);
}
