// The facts about a batch of jobs: see docs/architecture/flows.md.

/**
 * The states of a batch. Numbers in the log: never change them. Opening is not in the log: the
 * batch takes no members until all shards know it, since a member may move to any of them.
 */
export const BatchState = {
  ...{ Forgotten: 0, Open: 1, Committed: 2, Cancelled: 3, Complete: 4 },
  Opening: 5,
} as const;
export type BatchState = (typeof BatchState)[keyof typeof BatchState];

/** The outcome of a complete batch. Numbers in the log: never change them. */
export const BatchOutcome = { None: 0, Success: 1, Failure: 2, Cancelled: 3 } as const;
export type BatchOutcome = (typeof BatchOutcome)[keyof typeof BatchOutcome];

/** The facts that all shards know. The home of the batch decides them, and the log keeps them. */
export interface BatchFacts {
  /** A job id that no job has, so it is unique for ever. */
  readonly number: number;
  readonly name: string;
  state: BatchState;
  outcome: BatchOutcome;
  keepMs: number;
  /** Monotonic ms. */
  openedAtMs: number;
  /** When it became complete, monotonic ms; 0 before. */
  completeAtMs: number;
  /** Members by how they ended: 0 until the batch is complete, then final. */
  allDone: number;
  allFailed: number;
}
