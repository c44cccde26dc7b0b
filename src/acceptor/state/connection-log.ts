// What transports tell the thread of their connections.

export interface ConnectionLog {
  accepted(descriptor: number): void;
  closed(descriptor: number): void;
  /** A connection has left for another acceptor, or come from one: there it has another descriptor. */
  left(descriptor: number): void;
  arrived(descriptor: number): void;
  /** A connection was closed because all slots are taken. */
  noSlot(): void;
}
