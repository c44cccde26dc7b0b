// What becomes of a command on a job.

/**
 * Only a put may find no room in the log, its key taken (`duplicateOf` has it), or its tube full; only what names a tube may
 * find that on another shard, or full.
 */
export const Outcome = { Done: 0, NotFound: 1, NoRoom: 2, Duplicate: 3, TubeFull: 4, OtherShard: 5 } as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];
