// Settings of tubes as their words on a command line.

import type { SettingName, SettingValues } from "../../../src/schema/setting.ts";

const seconds = (ms: number): string => String(ms / 1000);

/** Settings by their words, in the order of inspect-tube. */
const SETTINGS = {
  maxAttempts: { word: "max-attempts", write: String },
  deadLetter: { word: "dead-letter", write: String },
  backoffMs: { word: "backoff", write: seconds },
  ttlMs: { word: "ttl", write: seconds },
  expire: { word: "expire", write: String },
  maxJobs: { word: "max-jobs", write: String },
  maxBytes: { word: "max-bytes", write: String },
  maxReserved: { word: "max-reserved", write: String },
  rate: { word: "rate", write: String },
  burst: { word: "burst", write: String },
  groupMaxReserved: { word: "group-max-reserved", write: String },
  groupRate: { word: "group-rate", write: String },
  groupBurst: { word: "group-burst", write: String },
  keepFinished: { word: "keep-finished", write: String },
  paused: { word: "paused", write: String },
} as const;

type SettingDrawn = keyof typeof SETTINGS;

export const SETTINGS_DRAWN = Object.keys(SETTINGS) as SettingDrawn[];

export function settingText(name: SettingDrawn, value: SettingValues[SettingName] | undefined): string {
  const write = SETTINGS[name].write as (value: unknown) => string;
  return `${SETTINGS[name].word}=${value === undefined ? "" : write(value)}`;
}
