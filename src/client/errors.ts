// The errors of this client: a class for each reply that is one, and a few for what can go wrong besides.

/** What all errors of this client are. */
export class QueueError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server said no. */
export class ReplyError extends QueueError {
  /** Its line. */
  readonly reply: string;
  constructor(message: string, reply: string) {
    super(message);
    this.reply = reply;
  }
}

/** NOT_FOUND: no such job or tube, or the job is not in a state in which this may be done. */
export class NotFound extends ReplyError {}
/** TUBE_FULL: the tube has as many jobs, bytes or groups as its settings allow. */
export class TubeFull extends ReplyError {}
/** DEADLINE_SOON: a job that is held on the connection has less than a second left, and no other is ready. */
export class DeadlineSoon extends ReplyError {}
/** JOB_TOO_BIG: the body is longer than the server takes. */
export class JobTooBig extends ReplyError {}
/** OUT_OF_MEMORY: try again later. Where `put-in-tube` is missing a full tube is this, too. */
export class OutOfMemory extends ReplyError {}
/** BURIED in answer to a put or a release: the job is kept, but the server had no memory to queue it. */
export class Buried extends ReplyError {}
/** DRAINING: the server takes no new jobs. */
export class Draining extends ReplyError {}
/** BAD_FORMAT: the server does not take these arguments. */
export class BadFormat extends ReplyError {}
/** UNAUTHORIZED: no token, a wrong one, or one that may not do this. */
export class Unauthorized extends ReplyError {}
/** UNKNOWN_COMMAND, UNKNOWN_OPTION: the server lacks what this needs. */
export class NotSupported extends ReplyError {}

/** The connection broke. The server may have done what was asked if it was `sent`, and has not if not. */
export class ConnectionLost extends QueueError {
  readonly sent: boolean;
  constructor(message: string, sent: boolean, cause?: unknown) {
    super(message, { cause });
    this.sent = sent;
  }
}
/** The job is not held any more: its connection broke, its time to run is over, or it was given back. */
export class JobLost extends QueueError {}
/** `close` or `stop` was called. */
export class Closed extends QueueError {}
/** What came is not what a beanstalkd answers. */
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
  UNAUTHORIZED: Unauthorized,
  UNKNOWN_COMMAND: NotSupported,
  UNKNOWN_OPTION: NotSupported,
  INTERNAL_ERROR: ReplyError,
  EXPECTED_CRLF: ReplyError,
  NOT_IGNORED: ReplyError,
};

/** The error for a reply that the command was not to have. */
export function errorOf(command: string, reply: string): QueueError {
  const said = `${command}: ${reply.slice(0, 100)}`;
  const Class = BY_WORD[reply.split(" ", 1)[0]!];
  return Class === undefined ? new ProtocolError(`${said} is no reply to it`) : new Class(said, reply);
}
