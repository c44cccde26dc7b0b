// Lists stand still under the pointer, and while a row has the focus: meanwhile the one that was shown is shown.

import { CHANGED } from "./dialog.ts";
import { isLookedAt } from "./parts.ts";

interface Held {
  readonly query: string;
  readonly list: unknown;
  readonly atMs: number;
}

/** Of the page that is shown: there is one list on each. */
let held: Held | undefined;
/** The list from before something was changed: the next takes its place at once. */
let passing: unknown;

window.addEventListener(CHANGED, () => {
  passing = held?.list;
  held = undefined;
});

/** `query` is what the list was asked for with. */
export function heldList<T>(query: string, list: T): { readonly list: T; readonly heldSeconds: number } {
  if (list === passing) return { list, heldSeconds: 0 };
  if (held?.query !== query || !isLookedAt()) {
    held = { query, list, atMs: Date.now() };
    return { list, heldSeconds: 0 };
  }
  const heldSeconds = list === held.list ? 0 : Math.max(1, Math.floor((Date.now() - held.atMs) / 1000));
  return { list: held.list as T, heldSeconds };
}
