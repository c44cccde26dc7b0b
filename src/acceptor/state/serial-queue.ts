// Lets one batch over several shards at a time choose its jobs, of all that an acceptor has under way.
//
// All would choose the same jobs, the best ones, and all but one in vain: with fifty workers nearly everything was done
// fifty times. What one takes is gone before the next one asks.
//
// Another one lets lists of jobs over all shards be put together one at a time, for the memory that each takes.

export interface Waiter {
  /** It is its turn, until it leaves. */
  onTurn(): void;
}

export class SerialQueue {
  readonly #line = new Set<Waiter>();

  /** Joins the line; `onTurn` is called now or later. Whoever has the turn keeps it. */
  enter(passenger: Waiter): void {
    this.#line.add(passenger);
    if (this.#first() === passenger) passenger.onTurn();
  }

  /** Leaves the line, if it is there, whether it had its turn or not. */
  leave(passenger: Waiter): void {
    const had = this.#first() === passenger;
    if (!this.#line.delete(passenger) || !had) return;
    this.#first()?.onTurn();
  }

  #first(): Waiter | undefined {
    const [first] = this.#line;
    return first;
  }
}
