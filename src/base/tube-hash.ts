// The hash that decides which shard owns a tube: 32-bit FNV-1a with a final mix for good low bits.

/**
 * Returns the hash of the tube name in `bytes[start, end)`. It depends on the name alone, so any
 * thread can compute it.
 */
export function tubeHash(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** Returns the shard, 0 to `shardCount - 1`, that owns the tube name in `bytes[start, end)`. */
export function shardOfTube(bytes: Uint8Array, start: number, end: number, shardCount: number): number {
  return shardCount === 1 ? 0 : tubeHash(bytes, start, end) % shardCount;
}
