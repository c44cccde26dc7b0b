// Copies, compares and converts byte ranges without allocating.

/** Below this many bytes a plain loop beats the native copy, whose call costs about 50 ns. */
const LOOP_COPY_BYTES_MAX = 32;

/**
 * A plain memmove; `TypedArray.set` copies shared memory word by word, at half the speed, and needs a view
 * besides.
 */
const nativeCopy = Buffer.prototype.copy;

/**
 * Copies `length` bytes of `source` at `sourceStart` into `target` at `targetStart`. The ranges must not
 * overlap.
 */
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

/** Works on any Uint8Array, also on shared memory. Types of Node don't know it. */
const nativeLatin1 = (
  Buffer.prototype as unknown as { latin1Slice(this: Uint8Array, start: number, end: number): string }
).latin1Slice;

/**
 * The Latin-1 string of a byte range; tube names and protocol text are ASCII. Put together character by
 * character it would be a rope, which takes 30 bytes for each of them as long as nobody reads it.
 */
export function latin1(source: Uint8Array, start: number, end: number): string {
  return nativeLatin1.call(source, start, end);
}

/** The bytes of an ASCII string. */
export function asciiBytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i) & 0xff;
  return bytes;
}
