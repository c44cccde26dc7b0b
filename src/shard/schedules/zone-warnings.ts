// Schedules of a log whose time zone set-schedule would refuse.

import type { ScheduleTable } from "../../engine/schedules/schedule-table.ts";
import { zoneProblem } from "./cron-times.ts";

/** Returns a warning for each such zone. */
export function zoneWarnings(table: ScheduleTable): string[] {
  const byZone = new Map<string, { first: string; zone: string; count: number }>();
  for (const { name, facts } of table.values()) {
    const { zone } = facts.timing;
    // Intl ignores the case of a name.
    const known = byZone.get(zone.toUpperCase());
    if (known === undefined) byZone.set(zone.toUpperCase(), { first: name, zone, count: 1 });
    else known.count++;
  }
  return [...byZone.values()].flatMap(({ first, zone, count }) => {
    const problem = zoneProblem(zone);
    const more = count === 1 ? "" : ` (and ${count - 1} more)`;
    return problem === undefined ? [] : [`schedule ${JSON.stringify(first)}${more}: ${problem}`];
  });
}
