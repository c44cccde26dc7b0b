// Queue for memory-hungry work: runs one item at a time when many clients ask at once.

import { Busy } from "./busy.ts";

/**
 * Maximum queue length. Each entry holds its request, and entries of disconnected clients stay
 * until their turn.
 */
const WAITING_MAX = 1000;

export class AsyncQueue {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /**
   * Runs `work` once all earlier work has ended, successfully or not. Throws Busy if the queue is
   * full, or if the client is gone when its turn comes.
   */
  async run<Made>(asker: { readonly destroyed: boolean }, work: () => Promise<Made>): Promise<Made> {
    if (this.#waiting === WAITING_MAX) throw new Busy("Too many clients request this at a time");
    this.#waiting++;
    const made = this.#last.then(() => {
      this.#waiting--;
      if (asker.destroyed) throw new Busy("The client has disconnected");
      return work();
    });
    this.#last = made.catch(() => {});
    return await made;
  }
}
