// The hash that decides which shard a tube lives on (FNV-1a, 32 bits, then mixed so that low bits are good).

/**
 * Hash of the tube name in `bytes[start, end)`; a pure function of the name, so any thread may compute it.
 */
export function tubeHash(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ bytes[i]!, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** The shard, 0 to `shardCount - 1`, of the tube name in `bytes[start, end)`. */
export function shardOfTube(bytes: Uint8Array, start: number, end: number, shardCount: number): number {
  return shardCount === 1 ? 0 : tubeHash(bytes, start, end) % shardCount;
}
