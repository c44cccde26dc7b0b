// Errors that the operator can fix, shown with a stable exit code and without a stack trace.

import { FileFault } from "../../config/operator-file.ts";

/** Exit codes, the same as beanstalkd's where it has one. */
export const ExitCode = {
  /** A thread died, and the process must not go on without it. */
  ThreadDied: 70,
  /** A bad flag or value. */
  Usage: 5,
  /** The log directory is missing, not writable or locked. */
  BinlogDirectory: 10,
  /** The requested transport is not available (EX_UNAVAILABLE). */
  Transport: 69,
  /**
   * Another server of the group has the lead, or this one gave it up. Restart it as a standby
   * (EX_TEMPFAIL).
   */
  LeadLost: 75,
  /**
   * The group's shared log is missing, belongs to another group, or lost acknowledged changes. The
   * operator must act.
   */
  SharedLogLost: 76,
  /** The log failed at runtime, so nothing more could be acknowledged. */
  BinlogFailed: 74,
  /** -u: the lookup failed, the user is unknown, or the switch failed. */
  UserLookup: 32,
  UserUnknown: 33,
  UserSwitch: 34,
  /** The address can't be resolved or bound. */
  Listen: 111,
} as const;

export class OperatorError extends Error {
  readonly exitCode: number;
  /** True if the error is about flags, so the message ends with a hint on how to list them. */
  readonly showHint: boolean;

  constructor(message: string, exitCode: number, showHint = false) {
    super(message);
    this.exitCode = exitCode;
    this.showHint = showHint;
  }
}

/**
 * Runs `read`. A file that can't be used becomes an OperatorError; `where` says whose file it is.
 */
export function operatorFault<T>(read: () => T, where = ""): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof FileFault)) throw error;
    throw new OperatorError(`${where}${error.message}`, ExitCode.Usage);
  }
}
