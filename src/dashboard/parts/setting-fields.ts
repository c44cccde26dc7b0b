// Settings of tubes in words. Their names are those of `/v1/settings`.

import { bytes, duration, exact } from "./format.ts";

export interface SettingField {
  readonly name: string;
  readonly label: string;
  /** Says what it does, in the dialog. */
  readonly hint: string;
  /** Unit of a number; `rate` is one such as 10/1, `text` the name of a tube. */
  readonly kind: "number" | "seconds" | "bytes" | "rate" | "text" | "expire";
}

// biome-ignore format: a table
export const SETTING_FIELDS: readonly SettingField[] = [
  { name: "maxAttempts", label: "attempts at most", kind: "number", hint: "a job that fails that often is dead" },
  { name: "deadLetter", label: "dead jobs go to", kind: "text", hint: "a tube; buried here if empty" },
  { name: "backoff", label: "first backoff", kind: "seconds", hint: "doubles with each failure" },
  { name: "backoffMax", label: "longest backoff", kind: "seconds", hint: "" },
  { name: "ttl", label: "time to live", kind: "seconds", hint: "a job that waits longer expires" },
  { name: "expire", label: "expired jobs are", kind: "expire", hint: "" },
  { name: "maxJobs", label: "jobs at most", kind: "number", hint: "further puts are refused" },
  { name: "maxBytes", label: "bytes at most", kind: "bytes", hint: "further puts are refused" },
  { name: "maxReserved", label: "reserved at most", kind: "number", hint: "at the same time" },
  { name: "rate", label: "rate", kind: "rate", hint: "such as 10/1" },
  { name: "burst", label: "burst", kind: "number", hint: "jobs at once, after a pause" },
  { name: "groupMaxReserved", label: "reserved in a group", kind: "number", hint: "at the same time" },
  { name: "maxGroups", label: "groups at most", kind: "number", hint: "" },
];

export function valueInWords({ kind }: SettingField, value: number | string): string {
  if (typeof value === "string") {
    const [, jobs, seconds] = kind === "rate" ? (/^(\d+)\/(\d+)$/.exec(value) ?? []) : [];
    if (jobs === undefined) return kind === "expire" ? EXPIRED[value]! : value;
    return `${exact(Number(jobs))} in ${seconds === "1" ? "a second" : duration(Number(seconds))}`;
  }
  if (kind === "bytes") return bytes(value);
  return kind === "seconds" ? secondsInWords(value) : exact(value);
}

/** Formats a duration in words if that loses nothing. */
function secondsInWords(seconds: number): string {
  const unit = seconds >= 172_800 ? 86_400 : seconds >= 7200 ? 3600 : seconds >= 120 ? 60 : 1;
  return seconds % unit === 0 ? duration(seconds) : `${exact(seconds)} s`;
}

export const EXPIRED: Readonly<Record<string, string>> = { delete: "deleted", bury: "buried" };
