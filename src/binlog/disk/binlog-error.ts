// Errors of the binlog for the operator: a stable code, the cause, and the next step.

type BinlogErrorCode =
  | "BINLOG_DIR" // missing, not a directory, no permission
  | "BINLOG_LOCKED" // another server uses it
  | "BINLOG_VERSION" // written by an unknown version
  | "BINLOG_CORRUPT" // a durable record is damaged
  | "BINLOG_MISSING_FILE" // a file in the middle is missing
  | "BINLOG_TWO_LOGS" // beanstalkd's files next to ours, both with jobs
  | "BINLOG_IO" // a read, write or sync failed
  | "BINLOG_NO_SPACE" // no room even for deletes
  | "BINLOG_INPUT" // unusable input for a tool
  | "REPLICA_OTHER_GROUP" // a directory of another group
  | "REPLICA_STRAYS"; // a directory of a group was served outside the group

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

/** Returns the `code` of a system error ("ENOSPC"), or "". */
export function systemCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "";
}

/** Returns whether the process or the system has run out of descriptors, which is temporary. */
export function isDescriptorShortage(error: unknown): boolean {
  return ["EMFILE", "ENFILE"].includes(systemCode(error));
}

/**
 * Returns whether a disk, a quota or the descriptors are exhausted, which is temporary. Any other
 * error means that the disk is broken.
 */
export function isShortage(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes(systemCode(error)) || isDescriptorShortage(error);
}

/** Returns whether the error came from the system (ENOENT, EACCES …) and not from this program. */
export function isSystemError(error: unknown): boolean {
  return !(error instanceof BinlogError) && /^E(?!RR_)[A-Z0-9]+$/.test(systemCode(error));
}

/**
 * Turns a system error at the start or in a tool into a message for the operator; returns other
 * errors unchanged.
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
    denied ? ownerStep(path) : "Check that file and its disk, then try again.",
    error,
  );
}

/** Returns the next step for a file that belongs to another user. */
export function ownerStep(path: string): string {
  return `Give the directory and all its files to the user that the server runs as: chown -R USER ${path}`;
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
