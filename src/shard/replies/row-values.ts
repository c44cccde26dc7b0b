// Values in the rows that describe jobs: times and texts chosen by clients.

import { BACKSLASH, DELETE, QUOTE, SPACE } from "../../base/ascii.ts";

/**
 * beanstalkd reads its clock again for the reply, so a fresh delay of 10 s has 9 left. Here, a
 * batch of messages shares one reading.
 */
const CLOCK_STEP_MS = 0.001;

export const secondsLeft = (untilMs: number, nowMs: number): number =>
  Math.max(0, Math.floor((untilMs - nowMs - CLOCK_STEP_MS) / 1000));

/**
 * Returns an age. An acceptor, which reads its clock for the put line, may be slightly ahead of the
 * shard's turn.
 */
export const ageSeconds = (createdAtMs: number, nowMs: number): number =>
  Math.max(0, Math.floor((nowMs - createdAtMs) / 1000));

/** Returns Latin-1 text as the inside of a plain-ASCII JSON string. */
export function escaped(text: string): string {
  return ESCAPES.test(text)
    ? text.replace(EACH_ESCAPE, (character) => ESCAPED[character.charCodeAt(0)]!)
    : text;
}

/** Characters that plain-ASCII JSON has to escape. */
const ESCAPES = /[^\x20\x21\x23-\x5b\x5d-\x7e]/;
const EACH_ESCAPE = new RegExp(ESCAPES, "g");

const ESCAPED: readonly string[] = Array.from({ length: 256 }, (_, byte) => {
  if (byte === QUOTE || byte === BACKSLASH) return `\\${String.fromCharCode(byte)}`;
  if (byte >= SPACE && byte < DELETE) return String.fromCharCode(byte);
  return `\\u00${byte.toString(16).padStart(2, "0")}`;
});
