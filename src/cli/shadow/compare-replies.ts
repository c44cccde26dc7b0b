// Compares the replies of two servers to one command, and ignores parts that may differ.

import type { WirePart } from "./wire-streams.ts";

/** Figures of the process, its clock or its own history. */
const MAY_DIFFER: ReadonlySet<string> = new Set(["id", "file", "age", "time-left", "pause-time-left"]);

/** Returns "key: value" lines as a map. */
function fieldsOf(body: Buffer | undefined): Map<string, string> {
  const lines = (body?.toString("latin1") ?? "").split("\n");
  return new Map(
    lines.flatMap((line) => {
      const [, key, value] = /^([\w-]+): (.*)$/.exec(line) ?? [];
      return key === undefined ? [] : [[key, value!] as const];
    }),
  );
}

/** Returns the first word of a reply, and for KICKED its number: ids and lengths are left out. */
const resultOf = (line: string): string => (line.startsWith("KICKED ") ? line : line.split(" ", 1)[0]!);

/** Returns the difference of the shadow's reply, or undefined if there is none. */
export function differenceOf(command: string, old: WirePart, shadow: WirePart): string | undefined {
  const [word = ""] = command.split(" ", 1);
  if (resultOf(old.line) !== resultOf(shadow.line)) return "different reply";
  if (word === "watch" || word === "ignore" || word === "list-tube-used" || old.line.startsWith("USING"))
    return old.line === shadow.line ? undefined : "different reply";
  if (old.body === undefined || shadow.body === undefined)
    return old.body === shadow.body ? undefined : "a body in only one reply";
  if (word.startsWith("stats")) return differenceOfStats(word, old.body, shadow.body);
  if (word.startsWith("list-")) return differenceOfLists(old.body, shadow.body);
  return old.body.equals(shadow.body) ? undefined : "different body";
}

/** Compares only the keys of `stats`, which counts the whole past of all connections. */
function differenceOfStats(word: string, old: Buffer, shadow: Buffer): string | undefined {
  const theirs = fieldsOf(old);
  const ours = fieldsOf(shadow);
  for (const [key, value] of theirs) {
    const other = ours.get(key);
    if (other === undefined) return `no ${key}`;
    if (word !== "stats" && value !== other && !MAY_DIFFER.has(key)) return `${key}: ${value} and ${other}`;
  }
  return undefined;
}

function differenceOfLists(old: Buffer, shadow: Buffer): string | undefined {
  const sorted = (body: Buffer): string => body.toString("latin1").split("\n").sort().join("\n");
  return sorted(old) === sorted(shadow) ? undefined : "different tubes";
}

/** Commands whose reply depends on what other connections did to other jobs at that moment. */
const DEPENDS_ON_OTHERS =
  /^(?:peek-ready|peek-delayed|peek-buried|kick|stats|stats-tube|stats-job|list-tubes|pause-tube)\b/;

/** Returns whether a difference can come from the order of two connections' commands alone. */
export const dependsOnOthers = (command: string): boolean => DEPENDS_ON_OTHERS.test(command);
