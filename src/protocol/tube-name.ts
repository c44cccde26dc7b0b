// Validates tube names and tube patterns.

import { ASTERISK, HYPHEN } from "../base/ascii.ts";
import { TUBE_NAME_BYTES_MAX } from "./limits.ts";
import type { Span } from "./request.ts";

/** Stands for all tubes; no tube can have this name. */
export const EVERY_TUBE = "*";

const NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";

const isNameByte = new Uint8Array(256);
for (const character of NAME_CHARACTERS) isNameByte[character.charCodeAt(0)] = 1;

/** Returns the first position in `[start, end)` whose byte a tube name can't contain, or `end`. */
export function tubeNameEnd(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && isNameByte[bytes[at]!] === 1) at++;
  return at;
}

/**
 * Returns whether `bytes[start, end)` is a tube name: 1 to 200 allowed bytes that don't begin with
 * a hyphen.
 */
export function isTubeName(bytes: Uint8Array, start: number, end: number): boolean {
  const length = end - start;
  if (length < 1 || length > TUBE_NAME_BYTES_MAX || bytes[start] === HYPHEN) return false;
  return tubeNameEnd(bytes, start, end) === end;
}

export function isEveryTube({ bytes, start, end }: Span): boolean {
  return end - start === 1 && bytes[start] === ASTERISK;
}

/** Returns whether `bytes[start, end)` is a tube name, a prefix of one followed by `*`, or `*`. */
export function isTubePattern(bytes: Uint8Array, start: number, end: number): boolean {
  if (end === start || bytes[end - 1] !== ASTERISK) return isTubeName(bytes, start, end);
  return end - 1 === start || isTubeName(bytes, start, end - 1);
}
