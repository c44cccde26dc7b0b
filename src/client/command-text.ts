// Formats the arguments of commands, and rejects values that the server would misread.

import type { FinishedJob } from "../schema/job.ts";
import { ProtocolError } from "./errors.ts";

const U32_MAX = 4_294_967_295;
const TUBE = /^[A-Za-z0-9+/;.$_()][-A-Za-z0-9+/;.$_()]{0,199}$/;
const VALUE_BYTES_MAX = 200;
const VALUE = /^[!-~\x80-\xff]{1,200}$/;

export const isTubeName = (name: string): boolean => TUBE.test(name);

export function tubeName(name: string): string {
  if (typeof name === "string" && isTubeName(name)) return name;
  throw new TypeError(`${JSON.stringify(name)} is not a valid tube name`);
}

/** Returns a valid tube name, `prefix*` or `*`. */
export const tubePattern = (name: string): string =>
  name === "*" || (name.endsWith("*") && TUBE.test(name.slice(0, -1))) ? name : tubeName(name);

export function whole(value: number, name: string, most = U32_MAX): string {
  if (Number.isInteger(value) && value >= 0 && value <= most) return `${value}`;
  throw new RangeError(`${name} is ${value}, not a whole number from 0 to ${most}`);
}

export const wholeLong = (value: number, name = "id"): string => whole(value, name, Number.MAX_SAFE_INTEGER);

/** Rounds up to the next thousandth: seconds to the millisecond. */
function number(value: number, name: string, most = Number.MAX_SAFE_INTEGER): string {
  const rounded = Number.isInteger(value) ? value : Math.ceil(value * 1000 - 1e-6) / 1000;
  if (rounded >= 0 && rounded <= most) return `${rounded}`;
  throw new RangeError(`${name} is ${value}, not from 0 to ${most}`);
}

export const duration = (seconds: number, name: string): string => number(seconds, name, U32_MAX);

/** Formats seconds for beanstalkd's commands, rounded up to whole seconds. */
export const wholeSeconds = (seconds: number, name: string): string =>
  `${Math.ceil(Number(duration(seconds, name)))}`;

/** Escapes arbitrary text and bytes: %XX replaces bytes that a line can't contain. */
const escaped = (bytes: string): string =>
  bytes.replace(/[^!-$&-~\x80-\xff]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`);

/** Formats a text as the value of an option, cut to the length of one. */
export function shortText(text: string): string {
  let value = "";
  for (const character of text) {
    const part = escaped(Buffer.from(character).toString("latin1"));
    if (value.length + part.length > VALUE_BYTES_MAX) break;
    value += part;
  }
  return value;
}

/** Decodes a text in which %XX stands for a byte. In a line, each character is a byte. */
export const unescaped = (value: string): string =>
  fromLatin1(
    value.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
  );

/** Formats the value of an option. In a line, each character is a byte. */
function optionValue(value: unknown, name: string, isFilter: boolean): string {
  if (value === null) return "";
  if (typeof value === "number") return number(value, name);
  const text = Array.isArray(value) ? value.join(",") : value;
  // Of another value, Buffer.from would make as many bytes as its `length` says.
  const isBytes = typeof text === "string" || text instanceof Uint8Array;
  const bytes = isBytes ? Buffer.from(text).toString("latin1") : "";
  const written = isFilter ? escaped(bytes) : bytes;
  if (VALUE.test(written)) return written;
  throw new TypeError(`${name} must have 1 to 200 bytes without blanks and control characters`);
}

/**
 * Formats `{ unique: "a", uniqueFor: 60 }` as ` unique=a unique-for=60`. It omits undefined values,
 * and writes null as an empty value. The server validates names and numbers.
 */
export function optionsText(options: object, isFilter = false): string {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return entries.map(([key, value]) => ` ${optionName(key)}=${optionValue(value, key, isFilter)}`).join("");
}

function optionName(key: string): string {
  if (/^[a-z][A-Za-z]{0,30}$/.test(key)) return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new TypeError(`${JSON.stringify(key)} is not a known option`);
}

// Parser of the server's reports, which are flat YAML like beanstalkd's. What no such report has is
// a ProtocolError: another program may listen there.

/** Keys whose values are text even if they consist of digits. */
const TEXTS =
  /^(?:name|tube|version|hostname|os|platform|unique|group|origin|reason|holder|worker|failures)$/;
/** Longer values are names that consist of digits; JavaScript can't hold them as numbers. */
const NUMBER = /^-?\d{1,15}(?:\.\d+)?$/;

/** The words of a string, as a type. */
export type Words<Text extends string> = Text extends `${infer One} ${infer More}` ? One | Words<More> : Text;

/** Returns all lines except the first, `---`. */
export const reportLines = (body: Uint8Array | undefined): string[] =>
  Buffer.from(body ?? [])
    .toString()
    .trimEnd()
    .split("\n")
    .slice(1);

export const unquoted = (value: string): string => value.replace(/^"(.*)"$/, "$1");

/** Parses `current-jobs-ready: 7` into `current-jobs-ready` and 7. */
export const reportEntries = (body: Uint8Array | undefined): [key: string, value: string | number][] =>
  pairsOf(body).map(([key, value]) => [key, plainValue(key, value)]);

const pairsOf = (body: Uint8Array | undefined): [key: string, value: string][] =>
  reportLines(body).map((line) => {
    const [, key = "", value = ""] = /^([^:]*): ?(.*)$/.exec(line) ?? [];
    return [key, value];
  });

const plainValue = (key: string, value: string): string | number =>
  NUMBER.test(value) && !TEXTS.test(key) ? Number(value) : unquoted(value);

const isNothing = (value: string): boolean => value === "none" || value === "never";

/** Returns an object with camel-case keys, such as `currentJobsReady`. */
export const parseReport = <T>(body: Uint8Array | undefined): T =>
  Object.fromEntries(reportEntries(body).map(([key, value]) => [camelCase(key), value])) as T;

/**
 * Parses a report of inspect-job. Leaves out values that the job doesn't have: `none` and `never`
 * without quotes. A client's text is JSON in quotes.
 */
export function parseJobReport<T>(body: Uint8Array | undefined): T {
  const pairs = pairsOf(body);
  const isDead = pairs.some(([key, value]) => key === "reason" && !isNothing(value));
  // Names of tubes have no quotes, and a tube may be called "none".
  const isThere = ([key, value]: [key: string, value: string]): boolean =>
    !isNothing(value) || key === "tube" || (key === "origin" && isDead);
  return Object.fromEntries(
    pairs
      .filter(isThere)
      .map(([key, value]) => [
        camelCase(key),
        value.startsWith('"') ? fromLatin1(jsonOf(value) as string) : plainValue(key, value),
      ]),
  ) as T;
}

export const camelCase = (key: string): string =>
  key.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Decodes UTF-8 from Latin-1 characters, each of which is a byte. */
export const fromLatin1 = (text: string): string => Buffer.from(text, "latin1").toString();

/**
 * Parses a report whose quoted values and lists are JSON. Keys are in camel case. Without quotes,
 * `none` and `never` are undefined; a client's text is in quotes.
 */
export const fieldsOf = (body: Uint8Array | undefined): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    pairsOf(body).map(([key, value]) => {
      const bare = isNothing(value) ? undefined : value;
      return [camelCase(key), /^["[]/.test(value) ? jsonOf(value) : bare];
    }),
  );

/** Returns the error for a text that is not `what` it should be. */
export const notSo = (text: string, what: string): ProtocolError =>
  new ProtocolError(`${JSON.stringify(text.slice(0, 60))} is not ${what}`);

function jsonOf(text: string, what = "JSON"): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw notSo(text, what);
  }
}

/** Parses an item of a list that is a JSON object; `what` it should be. */
export function itemOf(text: string, what: string): Readonly<Record<string, unknown>> {
  const item = jsonOf(text, what);
  if (typeof item !== "object" || item === null) throw notSo(text, what);
  return item as Readonly<Record<string, unknown>>;
}

/** Parses a job of a list. In its body, each character is a byte. */
export const listedJob = (text: string): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(itemOf(text, "a job as list-jobs shows it")).map(([key, value]) => [
      key,
      key === "note" || key === "cancelled" ? fromLatin1(`${value}`) : value,
    ]),
  );

/**
 * Splits the page of a list after `after`, in which each item is a line. The first line says where
 * the next page begins: 0 or "" at the end of the list. Throws ProtocolError if that is not after
 * `after`, since such a list never ends.
 */
export function listOf<Place extends number | string>(
  body: Uint8Array | undefined,
  after: Place,
): { next: Place; items: string[] } {
  const [first = "", , ...lines] = reportLines(body);
  const next = jsonOf(first.replace(/^next: /, ""), "where a list goes on") as Place;
  if (typeof next !== typeof after || (next && next <= after))
    throw notSo(first, `where a list goes on after ${JSON.stringify(after)}`);
  return { next, items: lines.map((line) => line.slice(2)) };
}

/** Parses the page of a list of finished jobs below `before`; `next` is 0 at the end. */
export function finishedOf(
  body: Uint8Array | undefined,
  before: number,
): { next: number; items: FinishedJob[] } {
  const { next, items } = listOf(body, 0);
  if (next >= before) throw notSo(`next: ${next}`, `where a list goes on below ${before}`);
  const decoded = ([key, value]: [string, unknown]): [string, unknown] => [
    key,
    typeof value === "string" ? fromLatin1(value) : value,
  ];
  const jobs: unknown[] = items.map((text) =>
    Object.fromEntries(Object.entries(itemOf(text, "a job as finished-jobs shows it")).map(decoded)),
  );
  return { next, items: jobs as FinishedJob[] };
}
