// Interface of the replicated log that a group needs: five calls. NATS JetStream implements it;
// tests use one in memory.
//
// Required: (1) all readers see one order; (2) an acknowledged append survives the loss of any one
// server; (3) the returned number is the message's position. Not required: correct checks of
// `expectedLast`, appends without duplicates, fresh reads, or exclusive access. Batches name their
// predecessors (message/log-batch.ts), so readers notice batches that the log loses, duplicates or
// invents.

import { assert } from "../base/assert.ts";
import { type ChainPlace, type LogBatchHeader, LogBatchKind } from "../message/log-batch.ts";

export interface LogMessage {
  sequence: number;
  bytes: Uint8Array;
}

/** The range of the log: messages `first` to `last`; empty while first > last. */
export interface LogEnds {
  first: number;
  last: number;
  /** Bytes in use, and their limit; 0 means none. */
  bytes: number;
  limitBytes: number;
}

/**
 * The state of a peer. "there": it answers; "gone": its process is certainly dead; "silent":
 * unknown.
 */
export type Presence = "there" | "gone" | "silent";

export interface SharedLog {
  /**
   * Resolves with the sequence once the message is as durable as the log can make it. Rejects with
   * a LogError.
   */
  append(bytes: Uint8Array, expectedLast: number): Promise<number>;
  /**
   * Yields all messages from sequence `from` to sequence `to`, in order. Rejects at a purged
   * message and at a hole, and never skips them.
   */
  read(from: number, to: number): AsyncIterable<LogMessage>;
  ends(): Promise<LogEnds>;
  /** Deletes all messages before sequence `below`. */
  purge(below: number): Promise<void>;
  /**
   * Returns the node's report on itself, "gone" if its process is no longer connected, or undefined
   * if unknown.
   */
  ask(node: number): Promise<string | "gone" | undefined>;
}

export type LogErrorKind =
  /** The expected sequence did not match; nothing was appended. */
  | "refused"
  /** The log has no room; nothing was appended. */
  | "full"
  /** Unknown whether the message was appended. */
  | "lost"
  /** The log does not exist. */
  | "missing"
  /** The message was purged, perhaps since the log's ends were asked for. */
  | "purged"
  /** A message that must exist is missing. */
  | "hole";

export class LogError extends Error {
  readonly kind: LogErrorKind;

  constructor(kind: LogErrorKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "LogError";
    this.kind = kind;
  }
}

// Validity rule for batches of the shared log (rule 1). Every reader reaches the same result,
// whatever else the log contains.

/** The place before the first batch of a chain. */
export const ORIGIN: ChainPlace = { epoch: 0, n: 0, tag: 0 };

/** The node number of the LEAD with which an operator dissolves a group; it ends all leads. */
export const DETACHED = 0xffff_ffff;

/** Returns a unique tag: a random safe integer above 0. */
export function newTag(random: () => number): number {
  const tag = 1 + Math.floor(random() * (Number.MAX_SAFE_INTEGER - 1));
  assert(tag > 0 && tag <= Number.MAX_SAFE_INTEGER, "a tag is a safe integer above 0");
  return tag;
}

/** Returns whether a batch succeeds the one at `place`. If two do, the first in the log counts. */
export function follows(place: ChainPlace, { kind, n, previousTag, epoch }: LogBatchHeader): boolean {
  if (n !== place.n + 1 || previousTag !== place.tag) return false;
  return epoch === (kind === LogBatchKind.lead ? place.epoch + 1 : place.epoch);
}

export function placeOf({ epoch, n, tag }: ChainPlace): ChainPlace {
  return { epoch, n, tag };
}

/**
 * Returns the place that a batch claims to follow. Readers trust this only for the log's first
 * message, because a purge ends at a valid one.
 */
export function placeBefore({ kind, n, previousTag, epoch }: LogBatchHeader): ChainPlace {
  return { epoch: kind === LogBatchKind.lead ? epoch - 1 : epoch, n: n - 1, tag: previousTag };
}
