// A command that takes more than one message: it runs alone on its connection, until it has answered.

import type { Span } from "../protocol/request.ts";

/** An answer for the acceptor from a shard; valid during the call. */
export interface Signal {
  readonly shard: number;
  /** A ResponseKind. */
  readonly kind: number;
  /** ResponseFlags. */
  readonly flags: number;
  /** See ResponseKind. */
  readonly value: number;
  readonly pri: number;
  /** The soonest deadline of what the connection holds there, in monotonic ms. */
  readonly soonestMs: number;
}

export interface Conversation {
  onSignal(signal: Signal): void;
  /** The last part of a reply for the client has come from a shard; its bytes are in the output already. */
  onReply(shard: number): void;
  /** Part of a list of a shard's tubes. */
  onTubes?(shard: number, names: Span): void;
  /** The client may have read so much that a long list can go on. */
  onRoom?(): void;
  /** The connection is gone. */
  onClosed?(): void;
  /** The client can't send any more. */
  onHalfClose?(): void;
}
