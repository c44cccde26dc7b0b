// Formats a fuzzer's finding as lines of a transcript (test/transcripts/README.md).

import { isOfProcessOrClock } from "../support/conversations/compare-replies.ts";
import { CUT, written } from "./piece.ts";
import type { ReplyText } from "./reply-text.ts";

const clientName = (client: number): string => String.fromCharCode(65 + client);

export function sentLines(client: number, text: string): string[] {
  return text
    .split(CUT)
    .filter((write) => write !== "")
    .map((write) => `${clientName(client)}>> ${written(write)}`);
}

/**
 * The reply line by line; `stats` of a server that has served others before is not that of a fresh
 * one.
 */
export function replyLines(client: number, reply: ReplyText, command: string): string[] {
  const name = clientName(client);
  if (reply.body === undefined) return [`${name}< ${written(reply.line)}`];
  if (!reply.line.startsWith("OK "))
    return [`${name}< ${written(reply.line)}`, `${name}<< ${written(`${reply.body}\r\n`)}`];
  const rows = reply.body.split("\n").map((row) => {
    const colon = row.indexOf(": ");
    const isOpen = colon > 0 && (command === "stats" || isOfProcessOrClock(row.slice(0, colon)));
    return `${name}<| ${isOpen ? `${row.slice(0, colon)}: {any}` : written(row)}`;
  });
  if (rows.at(-1) === `${name}<| `) rows.pop();
  return [`${name}< OK {int}`, ...rows, `${name}<`];
}

export function expectationLines(client: number, replies: readonly string[]): string[] {
  const [first = "<nothing>", ...others] = replies;
  return [`${clientName(client)}< ${first}`, ...others.map((other) => `# or: ${other}`)];
}

export function endLines(client: number): string[] {
  return [`${clientName(client)}: half-close`, `${clientName(client)}< <EOF>`];
}
