// Event queue on virtual time, which advances only when everything of one moment has happened.

interface Event {
  atMs: number;
  order: number;
  happen: () => void | Promise<void>;
}

export class VirtualTime {
  nowMs = 1;
  readonly #heap: Event[] = [];
  #order = 0;
  #failure: unknown;

  at(atMs: number, happen: () => void | Promise<void>): void {
    const heap = this.#heap;
    const event = { atMs: Math.max(atMs, this.nowMs), order: this.#order++, happen };
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(event, heap[parent]!)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = event;
  }

  after(ms: number, happen: () => void | Promise<void>): void {
    this.at(this.nowMs + ms, happen);
  }

  /** Work that goes on beside the events. If it fails, so does the step. */
  beside(work: Promise<void>): void {
    work.catch((error: unknown) => {
      this.#failure ??= error;
    });
  }

  /** Lets the next thing happen, if one does before `untilMs`. */
  async step(untilMs = Number.POSITIVE_INFINITY): Promise<boolean> {
    const next = this.#heap[0];
    if (next === undefined || next.atMs > untilMs) return false;
    this.#removeFirst();
    this.nowMs = next.atMs;
    await next.happen();
    // Lets everything go on that has waited for it.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#failure !== undefined) throw this.#failure;
    return true;
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (!before(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}

function before(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
