// One after the other: what takes much memory while it is made, for many who may ask at once.

import { Busy } from "./busy.ts";

/** Each holds its request. There may be more than connections: those that are left behind wait here, too, until it is their turn. */
const WAITING_MAX = 1000;

export class InTurn {
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

  /** Makes it when all before it are done, well or not. Throws Busy where too many wait, and for who is gone when it is his turn. */
  async make<Made>(asker: { readonly destroyed: boolean }, how: () => Promise<Made>): Promise<Made> {
    if (this.#waiting === WAITING_MAX) throw new Busy("Many ask for this at a time");
    this.#waiting++;
    const made = this.#last.then(() => {
      this.#waiting--;
      if (asker.destroyed) throw new Busy("The client is gone");
      return how();
    });
    this.#last = made.catch(() => {});
    return await made;
  }
}
