// Settings of tubes, as options of set-tube and as words in a line of `--tubes FILE`.

import { OptionKind, type OptionRow, OptionTag } from "./option-rows.ts";

/** Returns the name that an option has in JSON: "maxAttempts" for "max-attempts". */
export const jsonNameOf = ({ name }: OptionRow): string =>
  name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());

export const EXPIRE_WORDS: readonly string[] = ["delete", "bury"];

// biome-ignore format: a table
export const SETTING_ROWS: readonly OptionRow[] = [
  { name: "max-attempts", tag: OptionTag.MaxAttempts, kind: OptionKind.Number, min: 1, mayBeEmpty: true, usage: "<n>" },
  { name: "dead-letter", tag: OptionTag.DeadLetter, kind: OptionKind.Tube, mayBeEmpty: true, usage: "<tube>" },
  { name: "backoff", tag: OptionTag.Backoff, kind: OptionKind.Duration, mayBeEmpty: true, usage: "<duration>" },
  { name: "backoff-max", tag: OptionTag.BackoffMax, kind: OptionKind.Duration, mayBeEmpty: true, usage: "<duration>" },
  { name: "ttl", tag: OptionTag.Ttl, kind: OptionKind.Duration, mayBeEmpty: true, usage: "<duration>" },
  { name: "expire", tag: OptionTag.Expire, kind: OptionKind.Word, words: EXPIRE_WORDS, mayBeEmpty: true, usage: "delete|bury" },
  { name: "max-jobs", tag: OptionTag.MaxJobs, kind: OptionKind.Number, mayBeEmpty: true, usage: "<n>" },
  { name: "max-bytes", tag: OptionTag.MaxBytes, kind: OptionKind.Number, max: Number.MAX_SAFE_INTEGER, mayBeEmpty: true, usage: "<n>" },
  { name: "max-reserved", tag: OptionTag.MaxReserved, kind: OptionKind.Number, min: 1, mayBeEmpty: true, usage: "<n>" },
  { name: "rate", tag: OptionTag.Rate, kind: OptionKind.Rate, mayBeEmpty: true, usage: "<n>/<seconds>" },
  { name: "burst", tag: OptionTag.Burst, kind: OptionKind.Number, min: 1, mayBeEmpty: true, usage: "<n>" },
  { name: "group-max-reserved", tag: OptionTag.GroupMaxReserved, kind: OptionKind.Number, min: 1, mayBeEmpty: true, usage: "<n>" },
  { name: "max-groups", tag: OptionTag.MaxGroups, kind: OptionKind.Number, mayBeEmpty: true, usage: "<n>" },
];
