// Exit codes of the operator commands.

export const ExitCode = {
  Done: 0,
  /** The object doesn't exist, or no job arrived. */
  Nothing: 1,
  /** Only a part was done. */
  Partly: 2,
  NoConnection: 3,
  NotPermitted: 4,
  BadArguments: 5,
} as const;

/** Error with the operator's message and the exit code. */
export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}
