// Lines or other items on their way to the main thread. The next batch is sent when the main thread
// has taken the previous one. That bounds the backlog of a main thread that is slower than the
// clients: excess items are dropped and counted.

const ITEMS_MAX = 1000;

export class Backlog<Item> {
  readonly #send: (items: Item[], dropped: number) => void;
  readonly #onDrop: () => void;
  #items: Item[] = [];
  #dropped = 0;
  #underWay = false;

  /** `onDrop` is called for each item that is not kept, `send` with their count later. */
  constructor(send: (items: Item[], dropped: number) => void, onDrop: () => void = () => {}) {
    this.#send = send;
    this.#onDrop = onDrop;
  }

  add(item: Item): void {
    if (this.#items.length < ITEMS_MAX) this.#items.push(item);
    else this.drop();
    if (!this.#underWay) this.flush();
  }

  /** Counts an item that is not kept. The count goes with the next one. */
  drop(): void {
    this.#dropped++;
    this.#onDrop();
  }

  /** Called when the main thread has taken the last batch. */
  taken(): void {
    this.#underWay = false;
    this.flush();
  }

  /**
   * Sends the gathered items even if the last batch was not taken yet: for the last ones before an
   * exit.
   */
  flush(): void {
    if (this.#items.length === 0 && this.#dropped === 0) return;
    this.#underWay = true;
    this.#send(this.#items, this.#dropped);
    this.#items = [];
    this.#dropped = 0;
  }
}
