// Converts the line of a set-schedule into the facts of a schedule, or says what is wrong with it.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import type { NewJob } from "../../engine/jobs/new-job.ts";
import type { ScheduleFacts, Timing } from "../../engine/schedules/schedule.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../protocol/job-attribute.ts";
import { OptionTag } from "../../protocol/option-rows.ts";
import { nextOption, numberAt, optionNumber, optionText } from "../../protocol/options.ts";
import type { Span } from "../../protocol/request.ts";
import {
  CRON_BYTES_MAX,
  INTERVAL_MS_MAX,
  INTERVAL_MS_MIN,
  Missed,
  SCHEDULE_NAME_BYTES_MAX,
  ZONE_BYTES_MAX,
} from "../../protocol/schedule-options.ts";
import { cronProblem, zoneProblem } from "./cron-times.ts";

/**
 * Room for the attributes that clients choose. The rest of ATTRIBUTE_BYTES_MAX is for those that
 * describe the schedule, and for the key and the pair that each of its jobs also gets.
 */
const CHOSEN_BYTES_MAX = 580;

const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));

/** Returns the facts, or a string that tells the client what is wrong. */
export function scheduleFacts(
  { pri, delaySeconds, delayMillis, ttrSeconds }: NewJob,
  tube: string,
  options: Span,
  wallMs: number,
): ScheduleFacts | string {
  const name = text(options, OptionTag.Schedule) ?? "";
  if (name.length > SCHEDULE_NAME_BYTES_MAX)
    return `name: "${printable(name.slice(0, 20))}..." has ${name.length} bytes, the limit is ${SCHEDULE_NAME_BYTES_MAX}`;
  const timing = timingOf(options, wallMs);
  if (typeof timing === "string") return timing;
  const attributes = attributesOf(options);
  if (attributes.length > CHOSEN_BYTES_MAX)
    return `options: group and meta take ${attributes.length} bytes, the limit is ${CHOSEN_BYTES_MAX}`;
  return {
    name,
    tube,
    timing,
    missed: optionNumber(options, OptionTag.Missed) ?? Missed.Once,
    pri,
    delaySeconds,
    delayMillis,
    ttrSeconds,
    ttlMs: optionNumber(options, OptionTag.Ttl) ?? 0,
    attributes,
  };
}

const text = (options: Span, tag: OptionTag): string | undefined => {
  const bytes = optionText(options, tag);
  return bytes === undefined ? undefined : latin1(bytes, 0, bytes.length);
};

function timingOf(options: Span, wallMs: number): Timing | string {
  const cron = text(options, OptionTag.Cron);
  const everyMs = optionNumber(options, OptionTag.Every);
  const zone = text(options, OptionTag.Zone);
  if ((cron === undefined) === (everyMs === undefined))
    return "give either cron=<expression> or every=<duration>";
  if (cron !== undefined) return cronTiming(cron, zone ?? "UTC", wallMs);
  if (zone !== undefined) return `tz: "${printable(zone)}" has no meaning with every=`;
  assert(everyMs !== undefined, "a schedule has a cron expression or an interval");
  if (everyMs < INTERVAL_MS_MIN || everyMs > INTERVAL_MS_MAX)
    return `every: ${everyMs / 1000} is not ${INTERVAL_MS_MIN / 1000} to ${INTERVAL_MS_MAX / 1000} seconds`;
  return { cron: "", zone: "UTC", everyMs };
}

function cronTiming(written: string, zone: string, wallMs: number): Timing | string {
  const cron = written.replace(/[_ ]+/g, " ").trim();
  if (cron.length > CRON_BYTES_MAX)
    return `cron: the expression has ${cron.length} bytes, the limit is ${CRON_BYTES_MAX}`;
  if (zone.length > ZONE_BYTES_MAX)
    return `tz: the name has ${zone.length} bytes, the limit is ${ZONE_BYTES_MAX}`;
  if (printable(cron) !== cron) return `cron: "${printable(cron)}" has bytes that are not ASCII`;
  if (printable(zone) !== zone) return `tz: "${printable(zone)}" has bytes that are not ASCII`;
  const problem = zoneProblem(zone) ?? cronProblem(cron, zone, wallMs);
  return problem ?? { cron, zone, everyMs: 0 };
}

/**
 * Replaces bytes that a line for the client must not contain: line ends, and those that a terminal
 * interprets.
 */
const printable = (words: string): string => words.replace(/[^\x20-\x7e]/g, "?");

function attributesOf(options: Span): Uint8Array {
  const { bytes, start, end } = options;
  writer.clear();
  for (let at = nextOption(bytes, start, end); at > 0; at = nextOption(bytes, at + bytes[at - 1]!, end)) {
    const valueEnd = at + bytes[at - 1]!;
    assert(valueEnd <= end, "the value of an option ends inside the options");
    if (bytes[at - 2] === OptionTag.Group) writer.text(Attribute.Group, bytes, at, valueEnd);
    else if (bytes[at - 2] === OptionTag.Meta) writer.text(Attribute.Meta, bytes, at, valueEnd);
    else if (bytes[at - 2] === OptionTag.Weight) writer.uint16(Attribute.Weight, numberAt(bytes, at));
  }
  return writer.bytes.slice(0, writer.length);
}
