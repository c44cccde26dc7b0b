// Who expects an answer any moment: as long as somebody does, the acceptor's thread looks at its rings
// instead of sleeping.
//
// That is a connection with a command under way that was sent since the thread last gave up polling. The
// others wait for a job, and their answer rings the doorbell.

export interface PendingReply {
  /** The epoch of polling in which an answer was last expected, or -1. */
  expectsSince: number;
  /** The epoch of polling in which it last sent a command. */
  askedSince: number;
}

export class PendingReplies {
  /** Connections that expect an answer. */
  expecting = 0;
  /** Connections that have sent a command in this epoch. */
  asking = 0;
  /** Counts up whenever the thread gives up polling. */
  #epoch = 0;

  /** The connection has sent a command. */
  expect(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) return;
    connection.expectsSince = this.#epoch;
    this.expecting++;
    if (connection.askedSince === this.#epoch) return;
    connection.askedSince = this.#epoch;
    this.asking++;
  }

  /** Whether the thread has given up looking for its answer since it was last expected. */
  hasGivenUp(connection: PendingReply): boolean {
    return connection.expectsSince !== this.#epoch;
  }

  /** Nothing of the connection is under way any more. */
  expectNothing(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) this.expecting--;
    connection.expectsSince = -1;
  }

  /** The connection leaves for another thread: nobody looks for its next command here. */
  forget(connection: PendingReply): void {
    this.expectNothing(connection);
    if (connection.askedSince === this.#epoch) this.asking--;
    connection.askedSince = -1;
  }

  /** All who expect an answer now are taken to wait for a job. */
  giveUp(): void {
    this.#epoch++;
    this.expecting = 0;
    this.asking = 0;
  }
}
