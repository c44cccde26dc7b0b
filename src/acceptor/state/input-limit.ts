// The limit on one client's unprocessed input: pauses the socket above it.

import type { RunQueueEntry } from "./run-queues.ts";
import type { WaitingInput } from "./waiting-input.ts";

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
