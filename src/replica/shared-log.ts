// What a group asks of a replicated log: five calls. Whatever keeps it (NATS JetStream, or memory in tests) is behind this.
//
// Promised: (1) one order for all readers; (2) an append that was acknowledged survives any one server; (3) the number returned is
// its place. Not needed: that `expectedLast` is checked rightly, that appends are not doubled, that reads are fresh, that nobody
// else appends. Batches name their predecessors (message/batch.ts), so that what the log loses, doubles or invents is seen.

export interface LogMessage {
  sequence: number;
  bytes: Uint8Array;
}

/** What the log has: messages `first` to `last`; nothing while first > last. */
export interface LogEnds {
  first: number;
  last: number;
  /** How full it is, bytes; 0 for a limit means none. */
  bytes: number;
  limitBytes: number;
}

/**
 * A peer by its node: "there": it answers; "gone": its process is dead for sure; "silent": nobody knows.
 */
export type Presence = "there" | "gone" | "silent";

export interface SharedLog {
  /** Resolves with its sequence, once it is as safe as it gets. Rejects with a LogError. */
  append(bytes: Uint8Array, expectedLast: number): Promise<number>;
  /** All messages from sequence `from` to sequence `to`, in order; a hole rejects, and is never skipped. */
  read(from: number, to: number): AsyncIterable<LogMessage>;
  ends(): Promise<LogEnds>;
  /** Forgets all messages before sequence `below`. */
  purge(below: number): Promise<void>;
  /** What the node says of itself, "gone" if its process is not connected any more, or undefined if nobody knows. */
  ask(node: number): Promise<string | "gone" | undefined>;
}

export type LogErrorKind =
  /** The sequence was not the expected one: nothing was appended. */
  | "refused"
  /** It has no room: nothing was appended. */
  | "full"
  /** Nobody knows whether it was appended. */
  | "lost"
  /** There is no such log. */
  | "missing"
  /** A message that must be there is not. */
  | "hole";

export class LogError extends Error {
  readonly kind: LogErrorKind;

  constructor(kind: LogErrorKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "LogError";
    this.kind = kind;
  }
}
