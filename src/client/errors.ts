// Errors of this client: a class for each error reply, and some for other failures.

/** Base class of all errors of this client. */
export class QueueError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server sent an error reply. */
export class ReplyError extends QueueError {
  /** The reply's line. */
  readonly reply: string;
  constructor(message: string, reply: string) {
    super(message);
    this.reply = reply;
  }
}

/**
 * NOT_FOUND: the job, tube, schedule or batch doesn't exist, or the job's state doesn't permit the
 * command.
 */
export class NotFound extends ReplyError {}
/** TUBE_FULL: the tube has as many jobs, bytes or groups as its settings allow. */
export class TubeFull extends ReplyError {}
/**
 * DEADLINE_SOON: a job held on the connection has less than a second left, and no other job is
 * ready.
 */
export class DeadlineSoon extends ReplyError {}
/** JOB_TOO_BIG: the body exceeds the server's limit. */
export class JobTooBig extends ReplyError {}
/** OUT_OF_MEMORY: try again later. Without `put-in-tube`, a full tube gives this error too. */
export class OutOfMemory extends ReplyError {}
/**
 * BURIED in reply to a put or a release: the server kept the job, but had no memory to queue it.
 */
export class Buried extends ReplyError {}
/** DRAINING: the server takes no new jobs. */
export class Draining extends ReplyError {}
/** BAD_FORMAT: the server rejects the arguments. */
export class BadFormat extends ReplyError {}
/** BAD_SCHEDULE: the times of a schedule are invalid; the message names the field. */
export class BadSchedule extends ReplyError {}
/**
 * BATCH_EXISTS, BATCH_COMMITTED, BATCH_CANCELLED, BATCH_COMPLETE, BATCH_ORDER: the state of a batch
 * doesn't permit the command.
 */
export class BatchConflict extends ReplyError {}
/** UNAUTHORIZED: the token is missing, wrong or lacks the permission. */
export class Unauthorized extends ReplyError {}
/**
 * UNKNOWN_COMMAND, UNKNOWN_OPTION: the server lacks the required extension. TLS_REQUIRED: the port
 * takes TLS only.
 */
export class NotSupported extends ReplyError {}

/**
 * The connection broke. If the command was `sent`, the server may have run it; otherwise it has
 * not.
 */
export class ConnectionLost extends QueueError {
  readonly sent: boolean;
  constructor(message: string, sent: boolean, cause?: unknown) {
    super(message, { cause });
    this.sent = sent;
  }
}
/**
 * The job is no longer held: its connection broke, its time to run expired, or it was given back.
 */
export class JobLost extends QueueError {}
/** An operator or another client cancelled the job while this client holds it. */
export class JobCancelled extends QueueError {
  /** "" if none was given. */
  readonly reason: string;
  constructor(message: string, reason: string) {
    super(message);
    this.reason = reason;
  }
}
/**
 * The job's id comes from another server than the one that answers at the address now, so it may
 * name another job there. Nothing was sent. The server that has the job hands it out again.
 */
export class OtherServer extends JobLost {}
/** `close` or `stop` was called. */
export class Closed extends QueueError {}
/** The server's data is not a valid reply. */
export class ProtocolError extends QueueError {}

const BY_WORD: Readonly<Record<string, typeof ReplyError>> = {
  NOT_FOUND: NotFound,
  TUBE_FULL: TubeFull,
  DEADLINE_SOON: DeadlineSoon,
  JOB_TOO_BIG: JobTooBig,
  OUT_OF_MEMORY: OutOfMemory,
  BURIED: Buried,
  DRAINING: Draining,
  BAD_FORMAT: BadFormat,
  BAD_SCHEDULE: BadSchedule,
  BATCH_NOT_FOUND: NotFound,
  BATCH_EXISTS: BatchConflict,
  BATCH_COMMITTED: BatchConflict,
  BATCH_CANCELLED: BatchConflict,
  BATCH_COMPLETE: BatchConflict,
  BATCH_ORDER: BatchConflict,
  UNAUTHORIZED: Unauthorized,
  TLS_REQUIRED: NotSupported,
  UNKNOWN_COMMAND: NotSupported,
  UNKNOWN_OPTION: NotSupported,
  INTERNAL_ERROR: ReplyError,
  EXPECTED_CRLF: ReplyError,
  NOT_IGNORED: ReplyError,
};

/** Explanations of replies whose words state the problem, but not what to do. */
const NEXT_STEPS: Readonly<Record<string, string>> = {
  BATCH_NOT_FOUND: "there is no batch of this name, or it has been forgotten: open it first",
  BATCH_EXISTS: "a batch of this name exists until the server forgets it: choose another name",
  BATCH_COMMITTED: "the batch was committed or cancelled, and takes no more members: open another one",
  BATCH_CANCELLED: "the batch was cancelled, so it can't be committed: open another one",
  BATCH_COMPLETE: "the batch is complete, so there is nothing left to cancel",
  "open-batch OUT_OF_MEMORY":
    "the server's memory or disk is full, or it has 100,000 batches: end batches that stay open, and open new ones with a shorter keep",
  TLS_REQUIRED: "this port takes TLS only: give the address as tls:host:port, in --url as tls://host:port",
  UNAUTHORIZED: "the token is missing or wrong, or its role or tubes don't allow this",
  OUT_OF_MEMORY: "the log's disk is full, or the jobs have all of the server's max-memory",
  JOB_TOO_BIG: "the server takes larger bodies if its max-job-size (-z) says so",
  BAD_FORMAT: "an argument or the value of an option has the wrong form; times are seconds, such as 0.5",
  BATCH_ORDER: "a member may only wait for a batch that was opened before its own: open that one first",
};

/** Some replies explain themselves. */
const REPLY_LENGTH_MAX = 400;

/** Returns the error for an unexpected reply to a command. */
export function errorOf(command: string, reply: string): QueueError {
  const next = NEXT_STEPS[`${command.split(" ", 1)[0]} ${reply}`] ?? NEXT_STEPS[reply];
  const said = `${command}: ${reply.slice(0, REPLY_LENGTH_MAX)}${next === undefined ? "" : ` (${next})`}`;
  const Class = BY_WORD[reply.split(" ", 1)[0]!];
  return Class === undefined
    ? new ProtocolError(`${said} is not a valid reply to it`)
    : new Class(said, reply);
}
