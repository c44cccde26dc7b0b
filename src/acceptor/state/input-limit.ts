// The limit on one client's unprocessed input: pauses the socket above it.

import type { RunQueueEntry, RunQueues } from "./run-queues.ts";

// Memory budget of input that clients send while they wait for a job. Waiting clients are read
// from, because only a read reveals a disconnect. The budget keeps them from filling memory that
// way.

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

/** Unprocessed input at which reading pauses. */
const INPUT_BYTES_MAX = 64 * 1024;
/** The same limit while the client waits for a job and all such clients are within budget. */
const WAITING_INPUT_BYTES_MAX = 512 * 1024;

/** A socket whose reading may be paused. */
interface PausableSocket {
  pause(): void;
  resume(): void;
}

export class InputLimit {
  isPaused = false;
  /** Whether reading is paused or the budget counts input: `settle` must learn when it is used. */
  isInUse = false;
  readonly #budget: WaitingInput;
  readonly #socket: PausableSocket;
  readonly #connection: RunQueueEntry;
  /** How much of the input exceeds INPUT_BYTES_MAX, as counted for all waiting clients. */
  #countedBytes = 0;

  constructor(budget: WaitingInput, socket: PausableSocket, connection: RunQueueEntry) {
    this.#budget = budget;
    this.#socket = socket;
    this.#connection = connection;
  }

  /**
   * Pauses or resumes reading, given the bytes of unprocessed input. `waits` tells whether the
   * client waits for a job: only a read reveals a disconnect, so reading continues.
   */
  settle(inputBytes: number, waits: boolean): void {
    const excessBytes = waits ? Math.max(0, inputBytes - INPUT_BYTES_MAX) : 0;
    if (excessBytes !== this.#countedBytes) this.#count(excessBytes);
    const readsOn = waits && !this.#budget.isFull;
    const tooMuch = inputBytes >= (readsOn ? WAITING_INPUT_BYTES_MAX : INPUT_BYTES_MAX);
    if (tooMuch && waits && inputBytes < WAITING_INPUT_BYTES_MAX) this.#budget.pause(this.#connection);
    this.isInUse = tooMuch || excessBytes > 0;
    if (tooMuch === this.isPaused) return;
    this.isPaused = tooMuch;
    if (tooMuch) this.#socket.pause();
    else this.#socket.resume();
  }

  /** Gives back the share of the budget: the connection reads no more. */
  end(): void {
    this.#count(0);
    this.#budget.forget(this.#connection);
  }

  #count(bytes: number): void {
    const change = bytes - this.#countedBytes;
    this.#countedBytes = bytes;
    this.#budget.count(change);
  }
}
