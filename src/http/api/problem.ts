// HTTP errors as RFC 9457 problems, with a code for programs and a next step for people.

/** Status and short title of each code. */
const PROBLEMS = {
  "bad-request": [400, "The request is not understood"],
  "bad-tube-name": [400, "No tube can have this name"],
  "bad-cursor": [400, "This cursor is not of this list"],
  unauthenticated: [401, "Say who you are"],
  forbidden: [403, "Not permitted"],
  "cross-site": [403, "A page of another site asks"],
  "not-found": [404, "There is nothing here"],
  "tube-not-found": [404, "There is no such tube"],
  "job-not-found": [404, "There is no such job"],
  "schedule-not-found": [404, "There is no such schedule"],
  "batch-not-found": [404, "There is no such batch"],
  "connection-not-found": [404, "There is no such connection"],
  "task-not-found": [404, "There is no such task"],
  "no-group": [404, "The server stands alone"],
  "no-binlog": [404, "The server keeps no log"],
  "method-not-allowed": [405, "Not by this method"],
  "request-timeout": [408, "The request came too slowly"],
  "job-reserved": [409, "Somebody holds this job"],
  "job-state": [409, "The job is in another state"],
  "batch-state": [409, "The batch is in another state"],
  "tube-full": [409, "The tube takes no more jobs"],
  "idempotency-in-progress": [409, "The same request is under way"],
  "lease-ended": [410, "The lease has ended"],
  "job-too-big": [413, "The body is larger than jobs may be"],
  "body-too-big": [413, "The request is too large"],
  "uri-too-long": [414, "The address is too long"],
  "unsupported-media-type": [415, "This type of content is not read here"],
  "wrong-host": [421, "This is not the host that was asked for"],
  "idempotency-mismatch": [422, "The key was used for another request"],
  "backup-under-way": [409, "A backup is under way"],
  "bad-config": [422, "The configuration has faults"],
  "too-many-requests": [429, "Too many requests"],
  "headers-too-big": [431, "The headers are too large"],
  internal: [500, "The server failed to answer"],
  starting: [503, "The log is still being replayed"],
  standby: [503, "Another server of the group has the lead"],
  frozen: [503, "The shared log of the group does not answer"],
  stopping: [503, "The server stops"],
  draining: [503, "No new jobs are taken"],
  busy: [503, "Too much is under way"],
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
