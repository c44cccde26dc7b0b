// The hash of unique keys, with a seed that clients don't know.

/** Returns HalfSipHash-1-3 of `bytes[start, end)`. */
export function hashOf(bytes: Uint8Array, start: number, end: number, seed0: number, seed1: number): number {
  let v0 = seed0;
  let v1 = seed1;
  let v2 = 0x6c796765 ^ seed0;
  let v3 = 0x74656462 ^ seed1;
  // Words of four bytes, then the rest and the length; three rounds without a word follow.
  let at = start;
  for (let left = 4; left > 0; ) {
    let word = 0;
    if (at + 4 <= end) {
      word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
      at += 4;
    } else {
      if (left === 4) {
        word = (end - start) << 24;
        for (let shift = 0; at < end; shift += 8) word |= bytes[at++]! << shift;
      } else if (left === 3) v2 ^= 0xff;
      left--;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return (v1 ^ v3) >>> 0;
}
