// Lets one batch over several shards at a time choose its jobs, of all that an acceptor has under way.
//
// All would choose the same jobs, the best ones, and all but one in vain: with fifty workers nearly everything was done
// fifty times. What one takes is gone before the next one asks.
//
// Another one lets lists of jobs over all shards be put together one at a time, for the memory that each takes.

export interface Passenger {
  /** It is its turn, until it leaves. */
  onTurn(): void;
}

export class Turnstile {
  readonly #line = new Set<Passenger>();

  /** Joins the line; `onTurn` is called now or later. Whoever has the turn keeps it. */
  enter(passenger: Passenger): void {
    this.#line.add(passenger);
    if (this.#first() === passenger) passenger.onTurn();
  }

  /** Leaves the line, if it is there, whether it had its turn or not. */
  leave(passenger: Passenger): void {
    const had = this.#first() === passenger;
    if (!this.#line.delete(passenger) || !had) return;
    this.#first()?.onTurn();
  }

  #first(): Passenger | undefined {
    const [first] = this.#line;
    return first;
  }
}
