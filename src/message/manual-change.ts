// A change by hand, as the audit log has it: by a command, over HTTP or on the dashboard. Puts and
// the work of workers are none.

export interface ManualChange {
  /** Wall clock, ms. */
  readonly atMs: number;
  /** Name of the token; null without tokens. */
  readonly who: string | null;
  /** Null for a unix socket. */
  readonly address: string | null;
  readonly way: "protocol" | "http" | "dashboard";
  /** Method of the request, or word of the command. */
  readonly method: string;
  /** Template of the route; empty for a command. */
  readonly route: string;
  /** What the request or the line named, and the values that it gave. */
  readonly what: Readonly<Record<string, string>>;
  /** Values that it replaced, for settings of tubes; null for all other changes. */
  before: Readonly<Record<string, string>> | null;
  /** Number of jobs; null if none are counted, or until the task that changes them has ended. */
  affected: number | null;
  /** HTTP status; 200 for a command. */
  readonly status: number;
}

/** What the log shows of a value. */
const VALUE_LENGTH_MAX = 200;
const PLAIN = /^[\x21-\x7e]+$/;

export function changeText(change: ManualChange): string {
  const { who, address, method, route, what, before, affected, status } = change;
  const given = Object.entries(what).map(([name, value]) => ` ${name}=${valueText(value)}`);
  const replaced = Object.entries(before ?? {}).map(([name, value]) => ` before.${name}=${valueText(value)}`);
  const names = [...given, ...replaced];
  const count = affected === null ? "" : ` affected=${affected}`;
  const call = route === "" ? method : `${method} ${route}`;
  return `audit: ${who ?? "somebody"} (${address ?? "unix socket"}) ${call}${names.join("")}${count}: ${status}`;
}

/** Returns a value that clients chose, in printable ASCII. */
function valueText(value: string): string {
  const text = value.length > VALUE_LENGTH_MAX ? `${value.slice(0, VALUE_LENGTH_MAX)}…` : value;
  if (PLAIN.test(text)) return text;
  return JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
