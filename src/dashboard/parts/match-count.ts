// How many jobs of a tube match a filter: counted by a dry run while the filter is shown.

import { CHANGED } from "./dialog.ts";
import { tubePath } from "./parts.ts";
import { type JobFilter, sendBulk } from "./request.ts";

/** Age from which a shown count is renewed, ms. */
const RENEW_MS = 10_000;

interface Counted {
  readonly key: string;
  count?: number;
  /** Infinity while it is counted. */
  atMs: number;
}

/** Only one filter is shown at a time. */
let counted: Counted | undefined;

window.addEventListener(CHANGED, () => {
  counted = undefined;
});

/** Returns the last count of this filter; undefined until the first one is there. */
export function matchCount(
  tube: string,
  state: string,
  filter: JobFilter,
  redraw: () => void,
): number | undefined {
  const key = JSON.stringify([tube, state, filter.where]);
  if (counted?.key !== key) counted = { key, atMs: Number.NEGATIVE_INFINITY };
  if (Date.now() - counted.atMs > RENEW_MS) void renew(counted, tube, { state, filter, redraw });
  return counted.count;
}

async function renew(
  its: Counted,
  tube: string,
  { state, filter, redraw }: { state: string; filter: JobFilter; redraw: () => void },
): Promise<void> {
  its.atMs = Number.POSITIVE_INFINITY;
  try {
    const asked = { states: [state], where: filter.where, dryRun: true };
    its.count = (await sendBulk(tubePath(tube, "clear"), asked, () => {})).affected;
  } catch {
    // Too many tasks are under way, or the connection is lost: the next draw tries again.
  }
  its.atMs = Date.now();
  redraw();
}
