// A problem that the operator can solve: said plainly, with a stable exit code, and no stack trace.

/** Exit codes, beanstalkd's where it has one. */
export const ExitCode = {
  /** A thread died: the process must not go on without it. */
  ThreadDied: 70,
  /** A bad flag or value. */
  Usage: 5,
  /** The log directory is missing, not writable or locked. */
  BinlogDirectory: 10,
  /** The transport asked for can not be had here (EX_UNAVAILABLE). */
  Transport: 69,
  /** Another server of the group has the lead, or this one gave it up: to be started again, as a standby (EX_TEMPFAIL). */
  LeadLost: 75,
  /** The shared log of the group is missing, of another group, or has lost what it had acknowledged: an operator has to act. */
  SharedLogLost: 76,
  /** The log failed while serving: nothing more could be acknowledged. */
  BinlogFailed: 74,
  /** -u: lookup failed, no such user, cannot switch. */
  UserLookup: 32,
  UserUnknown: 33,
  UserSwitch: 34,
  /** The address can't be resolved or bound. */
  Listen: 111,
} as const;

export class OperatorError extends Error {
  readonly exitCode: number;
  /** It is about flags: say how all of them are shown. */
  readonly showHint: boolean;

  constructor(message: string, exitCode: number, showHint = false) {
    super(message);
    this.exitCode = exitCode;
    this.showHint = showHint;
  }
}
