// The outcome of a command on a job.

/**
 * Only a put can fail because the log has no room, because its key is taken (`duplicateOf` has the
 * holder), or because its tube is full. Only commands that name a tube can find it on another
 * shard, or full.
 */
export const Outcome = { Done: 0, NotFound: 1, NoRoom: 2, Duplicate: 3, TubeFull: 4, OtherShard: 5 } as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];
