// Number of a tube's jobs that match a filter, counted by a dry run while the filter is shown.

import { Asked } from "./asked.ts";
import { tubePath } from "./parts.ts";
import { type JobFilter, sendBulk } from "./request.ts";

/** Age from which a shown count is refreshed, ms. */
const RENEW_MS = 10_000;

/** Only one filter is shown at a time. */
const counted = new Asked<number>(RENEW_MS);

/** Returns the last count of this filter; undefined until the first one arrives. */
export function matchCount(
  tube: string,
  state: string,
  { where }: JobFilter,
  redraw: () => void,
): number | undefined {
  const count = async (): Promise<number> => {
    const asked = { states: [state], where, dryRun: true };
    return (await sendBulk(tubePath(tube, "clear"), asked, () => {})).affected;
  };
  return counted.last(JSON.stringify([tube, state, where]), count, redraw);
}
