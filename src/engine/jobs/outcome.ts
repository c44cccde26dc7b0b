// The outcome of a command on a job.

/**
 * Only a put can fail because the log has no room, because its key is taken (`duplicateOf` has the
 * holder), or because its tube is full. Only commands that name a tube can find it on another
 * shard, or full. The last five are what a put with a taken key may do to the holder.
 */
export const Outcome = {
  Done: 0,
  NotFound: 1,
  NoRoom: 2,
  Duplicate: 3,
  TubeFull: 4,
  OtherShard: 5,
  Kept: 6,
  Replaced: 7,
  Escalated: 8,
  Debounced: 9,
  TooBig: 10,
  NoBatch: 11,
  BatchCommitted: 12,
  BatchOrder: 13,
} as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];
