// Limits the number of values in a request, because parsed values must fit into this thread's heap.

import { Problem } from "../problem.ts";

/**
 * Maximum number of values, including nested ones. One byte of input can become an object of fifty.
 */
const VALUES_MAX = 250_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

const tooMany = (): Problem =>
  new Problem("body-too-big", `A request can have at most ${VALUES_MAX} values; send a large body as it is.`);

/** Throws if the JSON has too many values. Syntax is checked later. */
export function checkJsonSize(text: string): void {
  if (text.length < VALUES_MAX) return;
  let values = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === 0x2c || code === 0x5b || code === 0x7b) {
      // Commas and opening brackets: together at least as many as values, minus one.
      if (++values > VALUES_MAX) throw tooMany();
    }
  }
}

/** Returns the position of the closing quote of the string that begins at `begin`. */
export function endOfString(text: string, begin: number): number {
  for (let end = text.indexOf('"', begin + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Throws if the MessagePack has too many values. They follow one another; those of arrays and maps
 * follow their head.
 */
export function checkMsgpackSize(bytes: Buffer): void {
  let values = 0;
  for (let at = 0; at < bytes.length; at += sizeAt(bytes, at)) {
    if (++values > VALUES_MAX) throw tooMany();
  }
}

/** Sizes of the fixed-size types from 0xc0 on; 0 means that a length follows. */
// biome-ignore format: in the order of the specification
const HEADS = [
  1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9,
  2, 3, 5, 9, 3, 4, 6, 10, 18, 0, 0, 0, 3, 5, 3, 5,
];
/** For types with a length: bytes of the length, and whether an extension type follows. */
const LENGTHS: Readonly<Record<number, readonly [lengthBytes: number, more: number]>> = {
  196: [1, 0],
  197: [2, 0],
  198: [4, 0],
  199: [1, 1],
  200: [2, 1],
  201: [4, 1],
  217: [1, 0],
  218: [2, 0],
  219: [4, 0],
};

/**
 * Returns the size of the value at `at`; for an array or map, that of its head. A truncated value
 * ends past the end of the input.
 */
export function sizeAt(bytes: Buffer, at: number): number {
  const head = bytes[at]!;
  if (head >= 0xa0 && head < 0xc0) return 1 + (head & 0x1f);
  if (head < 0xc0 || head >= 0xe0) return 1;
  const lengths = LENGTHS[head];
  if (lengths === undefined) return HEADS[head - 0xc0]!;
  const [lengthBytes, more] = lengths;
  if (at + 1 + lengthBytes > bytes.length) return 1 + lengthBytes;
  return 1 + lengthBytes + more + bytes.readUIntBE(at + 1, lengthBytes);
}
