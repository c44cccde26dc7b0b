// How much a request may be once it is read: the heap of this thread has to hold what bytes turn into.

import { Problem } from "../problem.ts";

/** Values of a request, nested ones too. As bytes each may be one, as an object it is fifty. */
const VALUES_MAX = 250_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

const tooMany = (): Problem =>
  new Problem("body-too-big", `A request has at most ${VALUES_MAX} values; send a large body as it is.`);

/** Throws where JSON has too many values. Whether it is well formed is found out later. */
export function checkJsonSize(text: string): void {
  if (text.length < VALUES_MAX) return;
  let values = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === 0x2c || code === 0x5b || code === 0x7b) {
      // A comma, and the beginning of an array or an object: as many as values, or one less.
      if (++values > VALUES_MAX) throw tooMany();
    }
  }
}

/** Where the string that begins at `begin` has its last quote. */
export function endOfString(text: string, begin: number): number {
  for (let end = text.indexOf('"', begin + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/** The same of MessagePack: its values stand one behind the other, those of arrays and maps behind their head. */
export function checkMsgpackSize(bytes: Buffer): void {
  let values = 0;
  for (let at = 0; at < bytes.length; at += sizeAt(bytes, at)) {
    if (++values > VALUES_MAX) throw tooMany();
  }
}

/** Bytes of the heads with a fixed number of them, from 0xc0 on; 0: a length follows. */
// biome-ignore format: as the specification has them
const HEADS = [
  1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9,
  2, 3, 5, 9, 3, 4, 6, 10, 18, 0, 0, 0, 3, 5, 3, 5,
];
/** Of those with a length: bytes of the length, and whether the type of an extension follows. */
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

/** Bytes of the value at `at`: of an array or a map its head. What is cut off ends behind the end. */
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
