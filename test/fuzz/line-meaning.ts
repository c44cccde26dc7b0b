// What a command line means to a client that reads the replies.

/** Bytes that follow a line in the stream. */
export type After =
  | { readonly kind: "line" }
  /** A body of so many bytes and its CR LF, and then the answer. */
  | { readonly kind: "body"; readonly bytes: number }
  /** A number of ignored bytes, then the reply. */
  | { readonly kind: "dropped"; readonly bytes: number }
  /** The connection is closed. */
  | { readonly kind: "end" };

export interface LineMeaning {
  /** The command's word; "unknown" for none, "overlong" for a line that is too long. */
  readonly command: string;
  /** Replies that may come, in the notation of transcripts. */
  readonly replies: readonly string[];
  readonly after: After;
  /** It may wait for a job. */
  readonly mayWait: boolean;
  /** It makes a job delayed, if it succeeds. */
  readonly delays: boolean;
  /** beanstalkd 1.12 answers otherwise, and shall (protocol/README.md 13 and 14). */
  readonly differsFrom112: boolean;
}

const LINE: After = { kind: "line" };

/** Returns the meaning of a line behind which another line comes. */
export function meaning(
  command: string,
  replies: readonly string[],
  more: Partial<LineMeaning> = {},
): LineMeaning {
  return { command, replies, after: LINE, mayWait: false, delays: false, differsFrom112: false, ...more };
}
