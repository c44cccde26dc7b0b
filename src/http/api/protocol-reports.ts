// Texts from clients of the beanstalkd protocol: names and reasons.

import { matchesGlob } from "../../base/text.ts";

/**
 * Returns Latin-1 bytes of the protocol as text: decodes UTF-8 where valid, and drops a truncated
 * last character.
 */
export const textOf = (latin1: string): string =>
  new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(latin1, "latin1"), { stream: true });

// Reports of the protocol whose quoted values and lists are JSON, with texts in Latin-1.

const keyOf = (key: string): string => key.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());

/**
 * Returns the fields of a report, with keys in camel case. Values that are not JSON are texts, or
 * null for `none` and `never`; a client's text is in quotes, so it may be "none".
 */
export function reportFields(body: Buffer): Readonly<Record<string, unknown>> {
  const lines = body.toString("latin1").trimEnd().split("\n").slice(1);
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(":");
      const value = line.slice(colon + 2);
      const bare = value === "none" || value === "never" ? null : value;
      return [keyOf(line.slice(0, colon)), /^["[]/.test(value) ? JSON.parse(value) : bare];
    }),
  );
}

/** Returns the items of a list, each a line of JSON, and the value of its first line. */
export function reportList<Item>(body: Buffer): { next: string; items: Item[] } {
  const [first = "", , ...lines] = body.toString("latin1").trimEnd().split("\n").slice(1);
  return { next: first.slice("next: ".length), items: lines.map((line) => JSON.parse(line.slice(2))) };
}

/** Returns a client's text, decoded from UTF-8. */
export const utf8Of = (latin1: string): string => Buffer.from(latin1, "latin1").toString();

// Filters a list of the protocol that has no filters: reads until the page is full.

/** Rows that one request reads at most, in steps. */
const STEP_ROWS = 1000;
const STEPS_MAX = 10;

export interface Rows<Row, Place> {
  readonly items: readonly Row[];
  /** Undefined at the end of the list. */
  readonly next: Place | undefined;
}

/** Returns up to `limit` matching rows. There may be none, although more rows follow. */
export async function filteredList<Row, Place>(
  read: (from: Place | undefined, limit: number) => Promise<Rows<Row, Place>>,
  from: Place | undefined,
  limit: number,
  isMeant: ((row: Row) => boolean) | undefined,
  placeOf: (row: Row) => Place,
): Promise<Rows<Row, Place>> {
  if (isMeant === undefined) return await read(from, limit);
  const found: Row[] = [];
  let next = from;
  for (let step = 0; step < STEPS_MAX; step++) {
    const page = await read(next, STEP_ROWS);
    const taken = page.items.filter(isMeant).slice(0, limit - found.length);
    found.push(...taken);
    if (found.length === limit) {
      const last = taken.at(-1)!;
      const isEnd = page.next === undefined && last === page.items.at(-1);
      return { items: found, next: isEnd ? undefined : placeOf(last) };
    }
    next = page.next;
    if (next === undefined) break;
  }
  return { items: found, next };
}

/** Returns whether a name contains this text, or matches this pattern. */
export const nameMatches = (match: string, name: string): boolean =>
  /[*?]/.test(match) ? matchesGlob(match, name) : name.includes(match);
