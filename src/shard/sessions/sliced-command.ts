// A command, or the end of a connection, that touches any number of jobs. It processes some in each
// turn of the shard, so that one client's million jobs don't delay all others.
//
// Other clients may see an intermediate state, with only part of the jobs processed, as if the
// client had sent many small commands. Each job changes atomically, and waiting clients are served
// job by job in either case. To add a kind, write a class in a file of its own and call
// `SlicedCommands.start` where the command is executed (or `join`, if it must not begin at once).

export interface SlicedCommand {
  /**
   * The job in transfer that the command waits for. It cannot continue before the engine reports on
   * that job. Undefined if it waits for none.
   */
  readonly awaitedJob?: number | undefined;
  /** Whether its job may have arrived without a report of the engine. */
  readonly mayEndUnheard?: boolean;
  /** The number of jobs that it would process now if there were no limit. */
  readonly jobs: number;
  /** Processes up to `jobsMax` jobs. Returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean;
  /** Called when nothing more is processed in this turn. */
  rest?(): void;
  /** Called when all jobs are done: answers, if there is an answer. */
  finish(): void;
}
