// Finds the first schedules by name after a given one, without sorting all of them.

import { assert } from "../../base/assert.ts";
import type { Schedule } from "../../engine/schedules/schedule.ts";
import type { ScheduleTable } from "../../engine/schedules/schedule-table.ts";

/** Returns up to `limit` schedules with names above `after`, sorted, and whether there are more. */
export function firstSchedules(
  table: ScheduleTable,
  after: string,
  tube: string | undefined,
  limit: number,
): { found: readonly Schedule[]; hasMore: boolean } {
  assert(limit > 0, "a page has room for a schedule");
  const found: Schedule[] = [];
  let hasMore = false;
  for (const schedule of table.values()) {
    const { name, facts } = schedule;
    if (name <= after || (tube !== undefined && facts.tube !== tube)) continue;
    const isFull = found.length === limit;
    hasMore ||= isFull;
    if (isFull && name > found[limit - 1]!.name) continue;
    if (isFull) found.pop();
    found.splice(placeOf(found, name), 0, schedule);
  }
  assert(found.length <= limit, "the first schedules are no more than asked for");
  return { found, hasMore };
}

/** Returns where a name belongs in a sorted list. */
function placeOf(sorted: readonly Schedule[], name: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.name < name) low = middle + 1;
    else high = middle;
  }
  return low;
}
