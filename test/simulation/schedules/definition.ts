// A schedule as a client of the campaign sets it.

import type { Timing } from "../../../src/engine/schedules.ts";
import { MISSED_WORDS, OVERLAP_WORDS } from "../../../src/protocol/schedule-options.ts";

export interface Definition {
  readonly timing: Timing;
  readonly tube: string;
  readonly missed: number;
  readonly overlap: number;
}

export function definitionOf({ timing, tube, missed, overlap }: Definition): Definition {
  const { cron, zone, everyMs } = timing;
  return { timing: { cron, zone, everyMs }, tube, missed, overlap };
}

export const isSame = (a: Definition, b: Definition): boolean =>
  JSON.stringify(definitionOf(a)) === JSON.stringify(definitionOf(b));

export const isSameTicks = (a: Timing, b: Timing): boolean =>
  a.cron === b.cron && a.zone === b.zone && a.everyMs === b.everyMs;

/** Returns a set-schedule with its body. */
export function setLine(
  name: string,
  { timing, tube, missed, overlap }: Definition,
  bodyBytes: number,
): string {
  const { cron, zone, everyMs } = timing;
  const when = everyMs > 0 ? `every=${everyMs / 1000}` : `cron=${cron.replaceAll(" ", "_")} tz=${zone}`;
  return `set-schedule ${name} ${tube} 0 0 600 ${bodyBytes} ${when} missed=${MISSED_WORDS[missed]} overlap=${OVERLAP_WORDS[overlap]}\r\n${"x".repeat(bodyBytes)}\r\n`;
}
