// The table of commands for people: in `--help`, and in README.md of this room.

import { AUTH, COMMANDS, commandUsage, hasBody } from "./commands.ts";

const ALL = [...COMMANDS, AUTH];

/** A line for each command. */
export function commandListText(): string {
  const width = Math.max(...ALL.map((command) => commandUsage(command).length));
  return ALL.map((command) => ` ${commandUsage(command).padEnd(width)}  ${command.help}\n`).join("");
}

/** A table in Markdown, with replies and sections. */
export function commandListMarkdown(): string {
  const rows = [
    ["command", "what it does", "replies", "section"],
    ...ALL.map((command) => [
      `\`${commandUsage(command)}\`${hasBody(command) ? ", body" : ""}`,
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
