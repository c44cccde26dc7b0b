// The texts of inspect-schedule and list-schedules about a schedule.

import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { Refusal, type Schedule } from "../../engine/schedules/schedule.ts";
import { Attribute, findAttribute, metaOf } from "../../protocol/job-attribute.ts";
import { MISSED_WORDS, SCHEDULE_SHOWN_BYTES_MAX } from "../../protocol/schedule-options.ts";

export const REFUSAL_WORDS: Readonly<Record<Refusal, string>> = {
  [Refusal.None]: "none",
  [Refusal.TubeFull]: "TUBE_FULL",
  [Refusal.OutOfMemory]: "OUT_OF_MEMORY",
  [Refusal.LogFull]: "LOG_FULL",
  [Refusal.Draining]: "DRAINING",
};

/** Returns a time such as `2026-11-24T01:30:00.000Z`, or undefined for none. */
const timeOf = (ms: number): string | undefined =>
  ms > 0 && ms < Number.POSITIVE_INFINITY ? new Date(ms).toISOString() : undefined;

/** Returns a text for YAML, in which characters beyond ASCII are escaped. */
const quoted = (value: unknown): string =>
  JSON.stringify(value).replace(/[\x7f-\xff]/g, (byte) => `\\u00${byte.charCodeAt(0).toString(16)}`);

/** Returns the YAML of inspect-schedule. `runs` are the next ticks; Infinity is none. */
export function inspectScheduleText(engine: Engine, schedule: Schedule, runs: readonly number[]): string {
  const { facts, bodyBytes } = schedule;
  const { timing, attributes } = facts;
  const groupAt = findAttribute(attributes, 0, attributes.length, Attribute.Group);
  const weightAt = findAttribute(attributes, 0, attributes.length, Attribute.Weight);
  const group =
    groupAt < 0 ? "none" : quoted(latin1(attributes, groupAt, groupAt + attributes[groupAt - 1]!));
  const weight = weightAt < 0 ? 1 : attributes[weightAt]! | (attributes[weightAt + 1]! << 8);
  const shown = new Uint8Array(Math.min(bodyBytes, SCHEDULE_SHOWN_BYTES_MAX));
  engine.bodies.read(schedule.body, 0, shown, 0, shown.length);
  return `---
name: ${quoted(schedule.name)}
tube: ${quoted(facts.tube)}
cron: ${timing.everyMs === 0 ? quoted(timing.cron) : "none"}
every: ${timing.everyMs / 1000}
tz: ${quoted(timing.zone)}
missed: ${MISSED_WORDS[facts.missed]}
paused: ${schedule.paused}
next: ${timeOf(schedule.nextMs) ?? "never"}
next-runs: ${quoted(runs.map(timeOf).filter((time) => time !== undefined))}
last: ${timeOf(schedule.lastMs) ?? "never"}
fired: ${schedule.fired}
runs: ${schedule.runs}
missed-ticks: ${schedule.missedTicks}
duplicates: ${schedule.duplicates}
refusals: ${schedule.refusals}
last-refusal: ${REFUSAL_WORDS[schedule.lastRefusal]}
pri: ${facts.pri}
delay: ${facts.delaySeconds + facts.delayMillis / 1000}
ttr: ${facts.ttrSeconds}
ttl: ${facts.ttlMs / 1000}
group: ${group}
weight: ${weight}
meta: ${quoted(metaOf(attributes))}
bytes: ${bodyBytes}
body: ${quoted(latin1(shown, 0, shown.length))}
`;
}

/** Returns a schedule as a line of list-schedules. */
export function scheduleLine(schedule: Schedule): string {
  const { name, facts, paused, fired, missedTicks, refusals, bodyBytes } = schedule;
  const { timing, missed, tube } = facts;
  const isCron = timing.everyMs === 0;
  const row = {
    name,
    tube,
    cron: isCron ? timing.cron : null,
    every: timing.everyMs / 1000,
    tz: timing.zone,
    missed: MISSED_WORDS[missed],
    paused,
    next: timeOf(schedule.nextMs) ?? null,
    last: timeOf(schedule.lastMs) ?? null,
    fired,
    missedTicks,
    refusals,
    bytes: bodyBytes,
  };
  return `- ${quoted(row)}\n`;
}
