// A command, or the end of a connection, that moves any number of jobs: some in each turn of the shard, so
// that a million jobs of one client are not the wait of all others.
//
// What others may see of it: a part of the jobs has moved and the rest has not, as if a client had sent many
// small commands. Each move of a job is whole, and waiting clients are served job by job in either case. A
// new kind is a class in a file of its own, and a call of `SlicedCommands.start` where its command is executed (or
// `join`, if it must not begin at once).

export interface SlicedCommand {
  /** The job that it waits for, which is on its way: it can't go on before the engine has told of that job; undefined if it can. */
  readonly awaitedJob?: number | undefined;
  /** Whether its job may have arrived before the engine hears of that. */
  readonly mayEndUnheard?: boolean;
  /** How many jobs it would move now if it could move all. */
  readonly jobs: number;
  /** Moves up to `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean;
  /** Nothing more is moved in this turn. */
  rest?(): void;
  /** All is moved: answers, if there is an answer. */
  finish(): void;
}
