// Copies, compares and converts byte ranges without allocating.

/** Below this many bytes a plain loop beats the native copy, whose call costs about 50 ns. */
const LOOP_COPY_BYTES_MAX = 32;

/** A plain memmove; `TypedArray.set` copies shared memory word by word, at half the speed, and needs a view besides. */
const nativeCopy = Buffer.prototype.copy;

/** Copies `length` bytes of `source` at `sourceStart` into `target` at `targetStart`. The ranges must not overlap. */
export function copyBytes(
  target: Uint8Array,
  targetStart: number,
  source: Uint8Array,
  sourceStart: number,
  length: number,
): void {
  if (length <= LOOP_COPY_BYTES_MAX) {
    for (let i = 0; i < length; i++) target[targetStart + i] = source[sourceStart + i]!;
    return;
  }
  nativeCopy.call(source, target, targetStart, sourceStart, sourceStart + length);
}

/** The Latin-1 string of a byte range; tube names and protocol text are ASCII. */
export function latin1(source: Uint8Array, start: number, end: number): string {
  let text = "";
  for (let i = start; i < end; i++) text += String.fromCharCode(source[i]!);
  return text;
}

/** The bytes of an ASCII string. */
export function asciiBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i) & 0xff;
  return bytes;
}
