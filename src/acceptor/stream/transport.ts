// The interface between a connection and its socket: bytes in, bytes out, pause, resume, close.
// Anything that moves bytes can implement it.

import type { BodyArena } from "../../engine/jobs/body-arena.ts";

/** All or part of a body to be sent. The holder of the reference pins the body. */
export interface BodyReference {
  readonly arena: BodyArena;
  readonly handle: number;
  offset: number;
  length: number;
  /** The number of other bytes that precede it in the message. */
  at: number;
}

/** The socket's side, called by the connection. */
export interface Transport {
  /**
   * Sends `buffer[0, length)`. Returns true if the buffer may be reused at once, false if the
   * transport keeps it.
   */
  send(buffer: Uint8Array, length: number): boolean;
  /**
   * Sends `buffer[0, length)` with bodies in between, directly from their arenas, and keeps the
   * buffer. Returns false, with nothing sent, if that is impossible now. Transports that can never
   * do so omit this method.
   */
  sendWithBodies?(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): boolean;
  /** Bytes handed over and not yet taken by the kernel. */
  readonly pendingBytes: number;
  pause(): void;
  resume(): void;
  /** Closes once everything sent has left, then notifies the core with `disconnect`. */
  end(): void;
  /**
   * Closes now. Called once every shard has forgotten the connection, even if the transport has
   * closed already. A failing transport must not let the client see that earlier: it calls
   * `disconnect` and waits for this call.
   */
  destroy(): void;
  /** The descriptor for the verbose log, or -1. */
  readonly descriptor: number;
  /** Moves the connection to another thread; undefined if the socket is bound to this one. */
  readonly departure?: Departure | undefined;
}

/** A transport's part in moving its connection. Nothing is being sent then. */
export interface Departure {
  /**
   * Stops reading from the socket and calls `onReady` when the kernel has no operation on it.
   * Failures are kept for later.
   */
  begin(onReady: () => void): void;
  /** Cancels the move: delivers the bytes, failure or end that arrived meanwhile. */
  cancel(): void;
  /**
   * Gives the socket away, with the bytes read meanwhile. Returns undefined if that is impossible
   * or if the socket has failed or ended.
   */
  complete(): HandedOver | undefined;
}

/** A socket on its way to another thread. */
export interface HandedOver {
  /** Owned by the receiver. */
  readonly descriptor: number;
  readonly bytes: Uint8Array | undefined;
}
