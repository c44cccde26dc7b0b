// Freezes a list while the pointer or the focus is in its rows.

import { CHANGED } from "./dialog.ts";
import { isLookedAt } from "./parts.ts";

interface Held {
  readonly query: string;
  readonly list: unknown;
  readonly atMs: number;
}

/** The list of the current page; each page has only one. */
let held: Held | undefined;
/** The list from before a change. The next list replaces it at once. */
let passing: unknown;
/** The list that was passed last. */
let last: unknown;

window.addEventListener(CHANGED, () => {
  passing = last;
  held = undefined;
});

/** Returns the list to show. `query` is the request that returned the list. */
export function heldList<T>(query: string, list: T): { readonly list: T; readonly heldSeconds: number } {
  last = list;
  if (list === passing) return { list, heldSeconds: 0 };
  if (held?.query !== query || !isLookedAt()) {
    held = { query, list, atMs: performance.now() };
    return { list, heldSeconds: 0 };
  }
  const heldSeconds =
    list === held.list ? 0 : Math.max(1, Math.floor((performance.now() - held.atMs) / 1000));
  return { list: held.list as T, heldSeconds };
}
