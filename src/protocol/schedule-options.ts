// Options of the commands about schedules, and the limits of schedules.

import { WEIGHT_MAX } from "./limits.ts";
import { OptionKind, type OptionRow, OptionTag } from "./option-rows.ts";

/** Maximum length of a schedule's name in bytes. The unique key of each of its jobs contains it. */
export const SCHEDULE_NAME_BYTES_MAX = 128;
/** Maximum length of a cron expression and of the name of a time zone. */
export const CRON_BYTES_MAX = 120;
export const ZONE_BYTES_MAX = 56;
/** Maximum length of the body of a schedule's jobs, which must fit into one record of the log. */
export const SCHEDULE_BODY_BYTES_MAX = 65536;
/** Limits of `every`: a second and a hundred years. */
export const INTERVAL_MS_MIN = 1000;
export const INTERVAL_MS_MAX: number = 100 * 366 * 86_400_000;
/** Limits of a list of schedules: entries (maximum and default), and bytes of text. */
const SCHEDULE_LIST_MAX = 1000;
export const SCHEDULE_LIST_USUAL = 100;
/** Bytes of the body that inspect-schedule shows. */
export const SCHEDULE_SHOWN_BYTES_MAX = 4096;

/** The treatment of ticks that could not put a job in time. */
export const Missed = { Once: 0, All: 1, None: 2 } as const;
export type Missed = (typeof Missed)[keyof typeof Missed];
export const MISSED_WORDS = ["once", "all", "none"] as const;

/** What a tick does while a job of its schedule exists. */
export const Overlap = { Allow: 0, Skip: 1 } as const;
export type Overlap = (typeof Overlap)[keyof typeof Overlap];
export const OVERLAP_WORDS = ["allow", "skip"] as const;

// biome-ignore format: a table
export const SCHEDULE_OPTIONS: readonly OptionRow[] = [
  { name: "cron", tag: OptionTag.Cron, kind: OptionKind.Text, usage: "<expression>" },
  { name: "every", tag: OptionTag.Every, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "tz", tag: OptionTag.Zone, kind: OptionKind.Key, usage: "<zone>" },
  { name: "missed", tag: OptionTag.Missed, kind: OptionKind.Word, words: MISSED_WORDS, usage: MISSED_WORDS.join("|") },
  { name: "overlap", tag: OptionTag.Overlap, kind: OptionKind.Word, words: OVERLAP_WORDS, usage: OVERLAP_WORDS.join("|") },
  { name: "ttl", tag: OptionTag.Ttl, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "group", tag: OptionTag.Group, kind: OptionKind.Key, usage: "<key>" },
  { name: "weight", tag: OptionTag.Weight, kind: OptionKind.Number, min: 1, max: WEIGHT_MAX, usage: "<1..1000>" },
  { name: "meta", tag: OptionTag.Meta, kind: OptionKind.Pair, repeats: true, usage: "<name>:<value>" },
];

// biome-ignore format: a table
export const SCHEDULE_LIST_OPTIONS: readonly OptionRow[] = [
  { name: "tube", tag: OptionTag.Tube, kind: OptionKind.Tube, usage: "<tube>" },
  { name: "after", tag: OptionTag.AfterName, kind: OptionKind.Key, usage: "<name>" },
  { name: "limit", tag: OptionTag.Limit, kind: OptionKind.Number, min: 1, max: SCHEDULE_LIST_MAX, usage: "<1..1000>" },
];
