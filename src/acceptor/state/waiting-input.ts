// What clients send behind their waits. A client that waits for a job is read on, because only reading
// notices its end; that must not be a way to fill the memory, so all of them together may send so much and no
// more.

import type { RunQueueEntry, RunQueues } from "./run-queues.ts";

/** What all clients of an acceptor together may send behind their waits, beyond what is read of everybody. */
const ALL_BYTES_MAX = 32 * 1024 * 1024;

export class WaitingInput {
  readonly #agenda: RunQueues;
  #bytes = 0;
  /** Waiting clients that are not read because all of them together have sent so much. */
  readonly #paused = new Set<RunQueueEntry>();

  constructor(agenda: RunQueues) {
    this.#agenda = agenda;
  }

  /** A client has sent `change` bytes more behind its wait, or less. */
  count(change: number): void {
    this.#bytes += change;
    if (this.isFull) return;
    for (const connection of this.#paused) this.#agenda.proceedLater(connection);
    this.#paused.clear();
  }

  /** Whether no more is read of who waits than of anybody else. */
  get isFull(): boolean {
    return this.#bytes >= ALL_BYTES_MAX;
  }

  /** The client is not read until the others have sent less. */
  pause(connection: RunQueueEntry): void {
    this.#paused.add(connection);
  }

  forget(connection: RunQueueEntry): void {
    this.#paused.delete(connection);
  }
}
