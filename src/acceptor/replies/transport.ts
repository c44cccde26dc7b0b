// What a connection needs of a socket: bytes in, bytes out, pause, resume, close. Anything that moves bytes
// can stand in.

import type { BodyArena } from "../../engine/jobs/body-arena.ts";

/** A part of a body, or all of it, to be sent. It is pinned, by whoever has the reference. */
export interface BodyReference {
  readonly arena: BodyArena;
  readonly handle: number;
  offset: number;
  length: number;
  /** It goes behind so many of the bytes that are not of bodies. */
  at: number;
}

/** The socket's side, called by the connection. */
export interface Transport {
  /**
   * Sends `buffer[0, length)`. Returns true if the buffer may be used again at once, false if the transport
   * keeps it.
   */
  send(buffer: Uint8Array, length: number): boolean;
  /**
   * Sends `buffer[0, length)` with bodies in between, from the arenas that they lie in, and keeps the buffer. False if that can't
   * be now: nothing was sent. Left out where it never can.
   */
  sendWithBodies?(buffer: Uint8Array, length: number, bodies: readonly BodyReference[]): boolean;
  /** Bytes handed over and not yet taken by the kernel. */
  readonly pendingBytes: number;
  pause(): void;
  resume(): void;
  /** Closes once everything sent has left, and then tells the core by `disconnect`. */
  end(): void;
  /**
   * Closes now. Called once every shard has forgotten the connection, also when the transport has closed
   * already. A transport that fails must not let the client see it before that: it calls `disconnect` and
   * waits for this.
   */
  destroy(): void;
  /** For the verbose log: the descriptor, or -1. */
  readonly descriptor: number;
  /** How its connection may leave for another thread; undefined where the bytes are bound to this one. */
  readonly departure?: Departure | undefined;
}

/** What a transport does when its connection moves. Nothing is being sent then. */
export interface Departure {
  /** Takes nothing from the socket any more: `onReady` is called when nothing of it is under way. Failures are kept. */
  begin(onReady: () => void): void;
  /** The connection stays: what came meanwhile is delivered, and a failure or an end. */
  cancel(): void;
  /** Gives the socket away, with what was read of it meanwhile; undefined if it can't be, or has failed or ended. */
  complete(): HandedOver | undefined;
}

/** A socket on its way to another thread. */
export interface HandedOver {
  /** Belongs to who takes it. */
  readonly descriptor: number;
  readonly bytes: Uint8Array | undefined;
}
