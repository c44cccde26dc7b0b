// HTTP errors as RFC 9457 problems, with a code for programs and a next step for people.

/** Status and short title of each code. */
const PROBLEMS = {
  "bad-request": [400, "The request is invalid"],
  "bad-tube-name": [400, "The tube name is invalid"],
  "bad-cursor": [400, "The cursor does not belong to this list"],
  unauthenticated: [401, "Authentication is required"],
  forbidden: [403, "Not permitted"],
  "cross-site": [403, "The request comes from another site"],
  "not-found": [404, "There is nothing here"],
  "tube-not-found": [404, "There is no such tube"],
  "job-not-found": [404, "There is no such job"],
  "schedule-not-found": [404, "There is no such schedule"],
  "batch-not-found": [404, "There is no such batch"],
  "connection-not-found": [404, "There is no such connection"],
  "task-not-found": [404, "There is no such task"],
  "no-group": [404, "The server is not in a group"],
  "no-binlog": [404, "The server keeps no log"],
  "method-not-allowed": [405, "The method is not allowed"],
  "request-timeout": [408, "The request arrived too slowly"],
  "job-reserved": [409, "The job is reserved"],
  "job-state": [409, "The job is in another state"],
  "batch-state": [409, "The batch is in another state"],
  "tube-full": [409, "The tube is full"],
  "idempotency-in-progress": [409, "The same request is in progress"],
  "lease-ended": [410, "The lease has ended"],
  "job-too-big": [413, "The body is larger than jobs may be"],
  "body-too-big": [413, "The request is too large"],
  "uri-too-long": [414, "The address is too long"],
  "unsupported-media-type": [415, "The content type is not supported"],
  "expectation-failed": [417, "The expectation can't be met"],
  "wrong-host": [421, "The server does not have this host name"],
  "idempotency-mismatch": [422, "The key was used for another request"],
  "backup-under-way": [409, "A backup is under way"],
  "bad-config": [422, "The configuration is invalid"],
  "too-many-requests": [429, "Too many requests"],
  "headers-too-big": [431, "The headers are too large"],
  internal: [500, "The server failed to answer"],
  starting: [503, "The log is still being replayed"],
  standby: [503, "Another server of the group has the lead"],
  frozen: [503, "The shared log of the group does not answer"],
  stopping: [503, "The server is stopping"],
  draining: [503, "The server accepts no new jobs"],
  busy: [503, "The server is busy"],
  "disk-full": [507, "The log has no room for new jobs"],
  "settings-full": [507, "There is no room for more settings"],
  "shared-log-full": [507, "The shared log of the group has no room for new jobs"],
  "out-of-memory": [507, "There is no memory for new jobs"],
} as const satisfies Record<string, readonly [status: number, title: string]>;

export type ProblemCode = keyof typeof PROBLEMS;

/** Delay before a retry after a temporary error. */
const RETRY_AFTER_SECONDS = 1;

export class Problem extends Error {
  readonly code: ProblemCode;
  readonly status: number;
  readonly title: string;

  /** `detail` says what was wrong and what to do next. */
  constructor(code: ProblemCode, detail: string) {
    super(detail);
    this.code = code;
    [this.status, this.title] = PROBLEMS[code];
  }

  /** Returns the delay before a retry, if a retry can help. */
  get retryAfterSeconds(): number | undefined {
    return this.status === 503 || this.status === 429 ? RETRY_AFTER_SECONDS : undefined;
  }

  /** Returns the body of the response. `instance` is the request's id. */
  body(instance: string): Record<string, string | number> {
    const { code, status, title, message } = this;
    return { type: `urn:runnerbean:problem:${code}`, title, status, detail: message, code, instance };
  }
}
