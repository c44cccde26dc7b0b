// Compares two servers' replies to a command, apart from what may differ between two processes.

import { fieldsOf } from "./lockstep-side.ts";

/**
 * Fields of the process or machine, quoted differently by version (protocol/README.md 13.2), or
 * changed by the harness's own questions.
 */
const STATS_OF_PROCESS: ReadonlySet<string> = new Set([
  "pid",
  "version",
  "rusage-utime",
  "rusage-stime",
  "uptime",
  "id",
  "hostname",
  "os",
  "platform",
  "cmd-stats",
]);

/** The same in milliseconds; and a job's holder is another connection each time. */
const OF_CONNECTION: ReadonlySet<string> = new Set(["time-left-ms", "holder"]);
/** A worker without a name: the address of its connection. A name is the same each time. */
const WORKER_ADDRESS = /^"127\.0\.0\.1:\d+"$/;

/**
 * Seconds, most of them whole, that the two servers tell at moments some milliseconds apart: one
 * more or less is the same.
 */
const SECONDS: ReadonlySet<string> = new Set([
  "age",
  "time-left",
  "pause-time-left",
  "next-age",
  "expires-in",
]);

/**
 * Returns whether the value of this key of `stats`, `stats-job` or `stats-tube` says nothing about
 * the commands that went before.
 */
export function isOfProcessOrClock(key: string): boolean {
  return STATS_OF_PROCESS.has(key) || SECONDS.has(key);
}

/** Returns what is wrong with the second reply, or undefined. */
export function differenceOf(commandName: string, left: string, right: string): string | undefined {
  if (left === right) return undefined;
  if (left.startsWith("OK ") && right.startsWith("OK ")) {
    if (commandName === "list-tubes") return differenceOfLists(left, right);
    if (commandName === "list-jobs") return differenceOfJobs(left, right);
    if (commandName.startsWith("stats") || commandName.startsWith("inspect"))
      return differenceOfFields(left, right);
    // Counted for the whole server, and what was sent before belongs to other conversations.
    if (commandName === "extensions") return differenceOfKeys(left, right);
  }
  return "the replies differ";
}

/**
 * 1.12 moves the last tube into the place of one that goes; ours keeps the order of creation
 * (protocol/README.md 13.1).
 */
function differenceOfLists(left: string, right: string): string | undefined {
  const sorted = (reply: string): string => reply.split("\n").sort().join("\n");
  return sorted(left) === sorted(right) ? undefined : "not the same tubes";
}

/** A list of jobs, without the seconds that go by; they may have another number of digits. */
function differenceOfJobs(left: string, right: string): string | undefined {
  const timeless = (reply: string): string =>
    reply.replace(/^OK \d+/, "OK").replace(/"(age|time-left)":\d+/g, '"$1":0');
  return timeless(left) === timeless(right) ? undefined : "not the same jobs";
}

function differenceOfKeys(left: string, right: string): string | undefined {
  const keysOf = (reply: string): string => [...fieldsOf(reply).keys()].join(" ");
  return keysOf(left) === keysOf(right) ? undefined : "not the same keys in the same order";
}

function differenceOfFields(left: string, right: string): string | undefined {
  const wrongKeys = differenceOfKeys(left, right);
  if (wrongKeys !== undefined) return wrongKeys;
  const leftFields = fieldsOf(left);
  const rightFields = fieldsOf(right);
  for (const [key, value] of leftFields) {
    const other = rightFields.get(key) ?? "";
    if (value === other || STATS_OF_PROCESS.has(key) || OF_CONNECTION.has(key)) continue;
    if (key === "worker" && WORKER_ADDRESS.test(value) && WORKER_ADDRESS.test(other)) continue;
    if (SECONDS.has(key) && Math.abs(Number(value) - Number(other)) <= 1) continue;
    return `${key}: ${value} and ${other}`;
  }
  return undefined;
}
