// What an operator has to know when the binlog cannot go on: a stable code, the cause, and what to do next.

export type BinlogErrorCode =
  | "BINLOG_DIR" // missing, not a directory, no permission
  | "BINLOG_LOCKED" // another server has it
  | "BINLOG_VERSION" // written by a version that we do not know
  | "BINLOG_CORRUPT" // a record that was durable is damaged
  | "BINLOG_MISSING_FILE" // a file in the middle is gone
  | "BINLOG_TWO_LOGS" // beanstalkd's files beside ours, and both have jobs
  | "BINLOG_IO" // a read, write or sync failed
  | "BINLOG_NO_SPACE" // not even what deletes need
  | "BINLOG_INPUT" // a tool was given something that it cannot use
  | "REPLICA_OTHER_GROUP" // a directory of another group
  | "REPLICA_STRAYS"; // a directory of a group was served without it

export class BinlogError extends Error {
  readonly code: BinlogErrorCode;
  /** One sentence for the operator: the command to run or the thing to change. */
  readonly nextStep: string;

  constructor(code: BinlogErrorCode, message: string, nextStep: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "BinlogError";
    this.code = code;
    this.nextStep = nextStep;
  }
}

/** The `code` of an error of the system ("ENOSPC"), or "". */
export function systemCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** No descriptor is left, in the process or in the system: that passes. */
export function isDescriptorShortage(error: unknown): boolean {
  return ["EMFILE", "ENFILE"].includes(systemCode(error));
}

/**
 * A disk, a quota or the descriptors are used up: that passes too, and anything else means that the disk is
 * broken.
 */
export function isShortage(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes(systemCode(error)) || isDescriptorShortage(error);
}

/** Whether it came from the system (ENOENT, EACCES …) and not from this program. */
export function isSystemError(error: unknown): boolean {
  return !(error instanceof BinlogError) && /^E(?!RR_)[A-Z0-9]+$/.test(systemCode(error));
}

/**
 * An error of the system met at the start or by a tool, as the operator's problem that it is; anything else
 * as it is.
 */
export function asBinlogError(error: unknown, path: string): unknown {
  const code = systemCode(error);
  if (!isSystemError(error)) return error;
  if (isShortage(error)) {
    const what = isDescriptorShortage(error) ? "Raise the limit of open files" : "Make room on that disk";
    const message = `There is no room for the binlog in ${path}: ${reasonOf(error)}`;
    return new BinlogError("BINLOG_NO_SPACE", message, `${what}, then try again.`, error);
  }
  const denied = ["EACCES", "EPERM"].includes(code);
  return new BinlogError(
    denied ? "BINLOG_DIR" : "BINLOG_IO",
    `Cannot use ${path} for the binlog: ${reasonOf(error)}`,
    denied ? ownerStep(path) : "See what the system says about that file and its disk, then try again.",
    error,
  );
}

/** What to do where a file belongs to somebody else. */
export function ownerStep(path: string): string {
  return `Give the directory and all its files to the user that the server runs as: chown -R USER ${path}`;
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
