// Which connections have something to do in this turn or a later one of their acceptor, and what.

/** A connection, as its acceptor's lists know it. The flags say in which lists it stands. */
export interface RunQueueEntry {
  /** It has output to flush. */
  dirty: boolean;
  /** Its next message found a ring full. */
  waitsForRoom: boolean;
  /** It goes on with its input. */
  proceedsLater: boolean;
  /** Its output waits for the log. */
  held: boolean;
  /** Whether the first reply that waited for the log may leave now. */
  readonly mayFlushHeld: boolean;
  proceed(): void;
  flush(): void;
}

export class RunQueues {
  #dirty: RunQueueEntry[] = [];
  #waitingForRoom: RunQueueEntry[] = [];
  #toProceed: RunQueueEntry[] = [];
  #held: RunQueueEntry[] = [];

  markDirty(entry: RunQueueEntry): void {
    if (entry.dirty) return;
    entry.dirty = true;
    this.#dirty.push(entry);
  }

  waitForRoom(entry: RunQueueEntry): void {
    if (entry.waitsForRoom) return;
    entry.waitsForRoom = true;
    this.#waitingForRoom.push(entry);
  }

  proceedLater(entry: RunQueueEntry): void {
    if (entry.proceedsLater) return;
    entry.proceedsLater = true;
    this.#toProceed.push(entry);
  }

  holdBack(entry: RunQueueEntry): void {
    if (entry.held) return;
    entry.held = true;
    this.#held.push(entry);
  }

  /** Whether something is left that no ring or socket will tell of. */
  get hasWork(): boolean {
    return this.#toProceed.length > 0 || this.#dirty.length > 0;
  }

  /** Whether replies wait for the log. */
  get hasHeld(): boolean {
    return this.#held.length > 0;
  }

  /** Whether replies that waited for the log may leave. */
  get hasDurable(): boolean {
    return this.#held.some((entry) => entry.mayFlushHeld);
  }

  get hasWaitingForRoom(): boolean {
    return this.#waitingForRoom.length > 0;
  }

  /** Lets those go on that waited for room in a ring. */
  retryRoom(): void {
    const waiting = this.#waitingForRoom;
    this.#waitingForRoom = [];
    for (const entry of waiting) entry.waitsForRoom = false;
    for (const entry of waiting) entry.proceed();
  }

  /** Lets those go on that were put off. */
  letProceed(): void {
    if (this.#toProceed.length === 0) return;
    const toProceed = this.#toProceed;
    this.#toProceed = [];
    for (const entry of toProceed) {
      entry.proceedsLater = false;
      entry.proceed();
    }
  }

  /** Sends what connections have gathered and may send. Who waits for the log is asked only where that has come further. */
  flush(logHasMoved: boolean): void {
    if (logHasMoved) this.#releaseHeld();
    if (this.#dirty.length === 0) return;
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const entry of dirty) {
      entry.dirty = false;
      entry.flush();
    }
  }

  /** Forgets who has output: nothing leaves any more. */
  dropOutput(): void {
    this.#dirty = [];
  }

  #releaseHeld(): void {
    const held = this.#held;
    this.#held = [];
    for (const entry of held) {
      entry.held = false;
      if (entry.mayFlushHeld) this.markDirty(entry);
      else this.holdBack(entry);
    }
  }
}
