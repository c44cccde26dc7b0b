// What transports tell the thread of their connections.

/** Idle time before the first keep-alive probe, ms. */
export const KEEP_ALIVE_DELAY_MS = 60_000;

export interface ConnectionLog {
  accepted(descriptor: number): void;
  closed(descriptor: number): void;
  /** A connection has left for another acceptor, or come from one: there it has another descriptor. */
  left(descriptor: number): void;
  arrived(descriptor: number): void;
  /** A connection was closed because all slots are taken. */
  noSlot(): void;
}
