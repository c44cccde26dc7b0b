// A command that takes more than one message: it runs alone on its connection, until it has answered.

import type { Span } from "../../protocol/request.ts";

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
  /** The record of the shard that what is made of it waits for, if the flags say Durable. */
  readonly recordNumber: number;
  /** All that came with it, the soonest deadline first. */
  readonly payload: Span;
}

export interface Conversation {
  onSignal(signal: Signal): void;
  /** The last part of a reply for the client has come from a shard; its bytes are in the output already. */
  onReply(shard: number): void;
  /** Part of a list of a shard's tubes. */
  onTubes?(shard: number, names: Span): void;
  /** Jobs of a batch that is put together here, or a part of them. */
  onGathered?(shard: number, flags: number, bytes: Span): void;
  /** The client has said something more. */
  onInput?(): void;
  /** The client may have read so much that a long list can go on. */
  onRoom?(): void;
  /** The connection is gone. */
  onClosed?(): void;
  /** The client can't send any more. */
  onHalfClose?(): void;
}
