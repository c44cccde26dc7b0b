// Meanings of commands with a single argument: a name, an order, or a tube.

import { type LineMeaning, meaning } from "./line-meaning.ts";

const NAME = /^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$/;

/** Commands with a single argument, its pattern, and what they answer. */
export const BY_PATTERN: Readonly<Record<string, readonly [pattern: RegExp, replies: readonly string[]]>> = {
  name: [/^ *[\x21-\x7e\x80-\xff]{1,63}$/, ["NAMED"]],
  "reserve-order": [/^ *(?:strict|weighted|weighted-time)$/, ["SET"]],
};

/** A command by tube. A weight (18.22) is the only thing that may follow the tube of a watch. */
export function meaningByName(command: string, rest: string, replies: readonly string[]): LineMeaning {
  if (NAME.test(rest)) return meaning(command, replies);
  const [, tube = "", weight = "0"] = /^([^ ]+) +weight=(\d{1,200})$/.exec(rest) ?? [];
  const isGood = command === "watch" && NAME.test(tube) && BigInt(weight) >= 1n && BigInt(weight) <= 1000n;
  return isGood ? meaning(command, replies, { differsFrom112: true }) : meaning(command, ["BAD_FORMAT"]);
}

const RESERVED = "RESERVED {int} {int}";
const FOUND = ["FOUND {int} {int}", "NOT_FOUND"];
export const WAITED: readonly string[] = [RESERVED, "TIMED_OUT", "DEADLINE_SOON"];

export const BARE: Readonly<Record<string, readonly string[]>> = {
  "peek-ready": FOUND,
  "peek-delayed": FOUND,
  "peek-buried": FOUND,
  reserve: WAITED,
  stats: ["OK {int}"],
  "list-tubes": ["OK {int}"],
  "list-tube-used": ["USING {any}"],
  "list-tubes-watched": ["OK {int}"],
  extensions: ["OK {int}"],
  origins: ["OK {int}"],
  "touch-all": ["TOUCHED_ALL {int}"],
  "inspect-watched": ["OK {int}"],
};

/** Commands with a job id and up to two u32, and what they answer. */
export const BY_ID: Readonly<Record<string, readonly [pattern: RegExp, replies: readonly string[]]>> = {
  peek: [/^ *(\d+)$/, FOUND],
  delete: [/^ *(\d+)$/, ["DELETED", "NOT_FOUND"]],
  touch: [/^ *(\d+)$/, ["TOUCHED", "NOT_FOUND"]],
  "kick-job": [/^ *(\d+)$/, ["KICKED", "NOT_FOUND"]],
  "inspect-job": [/^ *(\d+)$/, ["OK {int}", "NOT_FOUND"]],
  "reserve-job": [/^ *(\d+)$/, [RESERVED, "NOT_FOUND"]],
  "stats-job": [/^ *(\d+)$/, ["OK {int}", "NOT_FOUND"]],
  bury: [/^ *(\d+) +(\d+)$/, ["BURIED", "NOT_FOUND"]],
  release: [/^ *(\d+) +(\d+) +(\d+)$/, ["RELEASED", "NOT_FOUND"]],
};

/** The name of a schedule; above 128 bytes, set-schedule says so. */
export const SCHEDULE: RegExp = /^ *[\x21-\x7e\x80-\xff]{1,200}$/;

const TEXT = ["OK {int}", "NOT_FOUND"];
/** Commands with the name of a schedule (18.31, 18.32), and what they answer. */
export const BY_SCHEDULE: Readonly<Record<string, readonly string[]>> = {
  "delete-schedule": ["DELETED", "NOT_FOUND"],
  "pause-schedule": ["PAUSED", "NOT_FOUND"],
  "resume-schedule": ["RESUMED", "NOT_FOUND"],
  "run-schedule": ["INSERTED {int}", "NOT_FOUND"],
  "inspect-schedule": TEXT,
};
