// Memory budget of input that clients send while they wait for a job. Waiting clients are read
// from, because only a read reveals a disconnect. The budget keeps them from filling memory that
// way.

import type { RunQueueEntry, RunQueues } from "./run-queues.ts";

/**
 * Maximum bytes that all waiting clients of an acceptor may send, beyond those that are read from
 * any client.
 */
const ALL_BYTES_MAX = 32 * 1024 * 1024;

export class WaitingInput {
  /** Whether waiting clients get no more than any other client. */
  isFull = false;
  readonly #runQueues: RunQueues;
  #bytes = 0;
  /** Waiting clients that are not read from because the budget is used up. */
  readonly #paused = new Set<RunQueueEntry>();

  constructor(runQueues: RunQueues) {
    this.#runQueues = runQueues;
  }

  /** Adds `change` to the bytes in use; a negative number gives bytes back. */
  count(change: number): void {
    this.#bytes += change;
    this.isFull = this.#bytes >= ALL_BYTES_MAX;
    if (this.isFull) return;
    for (const connection of this.#paused) this.#runQueues.proceedLater(connection);
    this.#paused.clear();
  }

  /** Stops reading from a client until others have given bytes back. */
  pause(connection: RunQueueEntry): void {
    this.#paused.add(connection);
  }

  forget(connection: RunQueueEntry): void {
    this.#paused.delete(connection);
  }
}
