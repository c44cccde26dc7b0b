// A queue that lets one waiter proceed at a time.
//
// Batches over several shards use it while they choose their jobs. Otherwise all batches of an
// acceptor would choose the same best jobs, all but one in vain: with fifty workers, nearly all
// work was done fifty times. With the queue, the jobs of one batch are gone before the next one
// asks.
//
// Lists of jobs over all shards use another one, since each takes memory.

export interface Waiter {
  /** Called when the waiter's turn begins. It lasts until the waiter leaves. */
  onTurn(): void;
}

export class SerialQueue {
  readonly #line = new Set<Waiter>();

  /** Joins the queue; `onTurn` is called now or later. The waiter whose turn it is keeps it. */
  enter(waiter: Waiter): void {
    this.#line.add(waiter);
    if (this.#first() === waiter) waiter.onTurn();
  }

  /** Leaves the queue, if it is there, whether it had its turn or not. */
  leave(waiter: Waiter): void {
    const had = this.#first() === waiter;
    if (!this.#line.delete(waiter) || !had) return;
    this.#first()?.onTurn();
  }

  #first(): Waiter | undefined {
    const [first] = this.#line;
    return first;
  }
}
