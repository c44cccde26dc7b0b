// One after the other: what takes much memory while it is made, for many who may ask at once.

export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Makes it when all before it are done, well or not. */
  make<Made>(how: () => Promise<Made>): Promise<Made> {
    const made = this.#last.then(how);
    this.#last = made.catch(() => {});
    return made;
  }
}
