// Settings of tubes in words.

import type { Setting } from "../../schema/setting.ts";
import { bytes, duration, exact } from "./format.ts";

/** Settings in effect for a tube, by name, each with the pattern that it comes from. */
export type InEffect = Readonly<Record<string, { readonly value: number | string; readonly from: string }>>;

/** Returns the pattern, or the tube itself, whose setting pauses the tube. */
export const pausedBy = ({ paused }: InEffect): string | undefined =>
  paused?.value === "yes" ? paused.from : undefined;

export function valueInWords({ kind, words }: Setting, value: number | string): string {
  if (typeof value === "string") {
    const [, jobs, seconds] = kind === "rate" ? (/^(\d+)\/(\d+)$/.exec(value) ?? []) : [];
    if (jobs === undefined) return words?.[value] ?? value;
    return `${exact(Number(jobs))} in ${seconds === "1" ? "a second" : duration(Number(seconds))}`;
  }
  if (kind === "bytes") return bytes(value);
  return kind === "duration" ? secondsInWords(value) : exact(value);
}

/** Formats a duration in words if that loses nothing. */
function secondsInWords(seconds: number): string {
  const unit = seconds >= 172_800 ? 86_400 : seconds >= 7200 ? 3600 : seconds >= 120 ? 60 : 1;
  return seconds % unit === 0 ? duration(seconds) : `${exact(seconds)} s`;
}
