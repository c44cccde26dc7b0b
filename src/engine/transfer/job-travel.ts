// Reasons for transfers of jobs between shards, and how the jobs arrive.

/** The reason for a transfer. */
export const Travel = {
  /** A move-jobs: a dead job revives. */
  Move: 0,
  /** The job died: it stays dead, becomes ready, and no limit refuses it. */
  Death: 1,
  /** An update-job. */
  Update: 2,
  /** An update-job by its holder: the job is returned, and stays dead. */
  Handed: 3,
} as const;
export type Travel = (typeof Travel)[keyof typeof Travel];

/** How the jobs of one transfer arrive. */
export interface Arrival {
  readonly travel: Travel;
  /** Whether they become ready, whatever their state was. */
  readonly asReady: boolean;
  /** If set, they become ready, or delayed by this time, ms. */
  readonly delayMs: number | undefined;
}
