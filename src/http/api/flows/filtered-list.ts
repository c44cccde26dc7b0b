// Filters a list of the protocol that has no filters: reads until the page is full.

import { matchesGlob } from "../../../base/glob.ts";

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
