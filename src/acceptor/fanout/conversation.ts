// A command that takes more than one message. It runs alone on its connection until it is answered.

import type { Span } from "../../protocol/request.ts";

/** A shard's answer to the acceptor. Valid only during the call. */
export interface Signal {
  readonly shard: number;
  /** A ResponseKind. */
  readonly kind: number;
  /** A set of ResponseFlag bits. */
  readonly flags: number;
  /** The view of the kind names these two: see message/response.ts. */
  readonly value: number;
  readonly pri: number;
  /**
   * The soonest deadline among the jobs that the connection holds on that shard, in monotonic ms.
   */
  readonly soonestMs: number;
  /** If the flags include Durable: the shard's record that the resulting reply waits for. */
  readonly recordNumber: number;
  /** The whole payload, starting with the soonest deadline. */
  readonly payload: Span;
}

export interface Conversation {
  /** Sends the first messages, if the constructor has not. */
  begin?(): void;
  onSignal(signal: Signal): void;
  /** Called after the last part of a shard's reply, whose bytes are in the output already. */
  onReply(shard: number): void;
  /** Takes part of a shard's list of tubes. */
  onTubes?(shard: number, names: Span): void;
  /** Takes part of the jobs of a batch that is assembled here. */
  onGathered?(shard: number, flags: number, bytes: Span): void;
  /** Called when the client has sent more bytes. */
  onInput?(): void;
  /** Called when the client may have read enough for a long reply to continue. */
  onRoom?(): void;
  /** Called when the connection is gone. */
  onClosed?(): void;
  /** Called when the client has closed its sending side. */
  onHalfClose?(): void;
}
