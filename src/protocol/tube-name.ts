// Which bytes may stand in a tube name.

import { ASTERISK, HYPHEN } from "../base/ascii.ts";
import { TUBE_NAME_BYTES_MAX } from "./limits.ts";
import type { Span } from "./request.ts";

/** Means all tubes: no name has it. */
export const EVERY_TUBE = "*";

const NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";

const isNameByte = new Uint8Array(256);
for (const character of NAME_CHARACTERS) isNameByte[character.charCodeAt(0)] = 1;

/** The first position in `[start, end)` whose byte may not stand in a tube name, or `end`. */
export function tubeNameEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && isNameByte[bytes[at]!] === 1) at++;
  return at;
}

/** Whether `bytes[start, end)` is a tube name: 1 to 200 allowed bytes, the first of them no hyphen. */
export function isTubeName(bytes: Uint8Array, start: number, end: number): boolean {
  const length = end - start;
  if (length < 1 || length > TUBE_NAME_BYTES_MAX || bytes[start] === HYPHEN) return false;
  return tubeNameEnd(bytes, start, end) === end;
}

/** Whether a name means all tubes. */
export function isEveryTube({ bytes, start, end }: Span): boolean {
  return end - start === 1 && bytes[start] === ASTERISK;
}

/** Whether `bytes[start, end)` is a tube name, the beginning of one and `*`, or `*`. */
export function isTubePattern(bytes: Uint8Array, start: number, end: number): boolean {
  if (end === start || bytes[end - 1] !== ASTERISK) return isTubeName(bytes, start, end);
  return end - 1 === start || isTubeName(bytes, start, end - 1);
}
