// A command that takes more than one message: it runs alone on its connection, until it has answered.

export interface Conversation {
  /** An answer for the acceptor (a ResponseKind) from a shard; `soonestMs` is the soonest deadline there. */
  onSignal(shard: number, kind: number, value: number, pri: number, soonestMs: number): void;
  /** The last part of a reply for the client has come from a shard; its bytes are in the output already. */
  onReply(shard: number): void;
  /** Part of a list of a shard's tubes: `bytes[at, at + length)`. */
  onTubes?(shard: number, bytes: Uint8Array, at: number, length: number): void;
  /** The client may have read so much that a long list can go on. */
  onRoom?(): void;
  /** The connection is gone. */
  onClosed?(): void;
  /** The client can't send any more. */
  onHalfClose?(): void;
}
