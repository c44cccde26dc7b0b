// Events that transports report to their thread.

export interface ConnectionLog {
  accepted(descriptor: number): void;
  closed(descriptor: number): void;
  /**
   * A connection has left for another acceptor or come from one. Its descriptor there is different.
   */
  left(descriptor: number): void;
  arrived(descriptor: number): void;
  /** A connection was closed because all slots are taken. */
  noSlot(): void;
}
