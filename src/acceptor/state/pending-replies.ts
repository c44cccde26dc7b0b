// Connections that expect an answer at any moment. While there are any, the acceptor's thread polls
// its rings instead of sleeping.
//
// These are connections with a command in flight that was sent since the thread last gave up
// polling. All others wait for a job, and their answer rings the doorbell.

export interface PendingReply {
  /** The polling epoch in which an answer was last expected, or -1. */
  expectsSince: number;
  /** The polling epoch in which it last sent a command. */
  askedSince: number;
}

export class PendingReplies {
  /** Connections that expect an answer. */
  expecting = 0;
  /** Connections that have sent a command in this epoch. */
  asking = 0;
  /** Incremented whenever the thread gives up polling. */
  #epoch = 0;

  /** Notes that the connection has sent a command. */
  expect(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) return;
    connection.expectsSince = this.#epoch;
    this.expecting++;
    if (connection.askedSince === this.#epoch) return;
    connection.askedSince = this.#epoch;
    this.asking++;
  }

  /** Returns whether the thread has stopped polling for the connection's answer. */
  hasGivenUp(connection: PendingReply): boolean {
    return connection.expectsSince !== this.#epoch;
  }

  /** Notes that the connection has nothing in flight any more. */
  expectNothing(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) this.expecting--;
    connection.expectsSince = -1;
  }

  /** Forgets a connection that leaves for another thread. */
  forget(connection: PendingReply): void {
    this.expectNothing(connection);
    if (connection.askedSince === this.#epoch) this.asking--;
    connection.askedSince = -1;
  }

  /** Treats every connection that expects an answer as one that waits for a job. */
  giveUp(): void {
    this.#epoch++;
    this.expecting = 0;
    this.asking = 0;
  }
}
