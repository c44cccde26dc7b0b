// What an exit of an operator's command means.

export const ExitCode = {
  Done: 0,
  /** There is no such thing, or nothing came. */
  Nothing: 1,
  /** Some of it was done. */
  Partly: 2,
  NoConnection: 3,
  NotPermitted: 4,
  BadArguments: 5,
} as const;

/** What the operator is told, and how the command ends. */
export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}
