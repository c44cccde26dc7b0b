// Queues of the connections that have work in this turn of their acceptor or a later one.

/** A connection, as the queues see it. The flags tell which queues contain it. */
export interface RunQueueEntry {
  /** It has output to flush. */
  dirty: boolean;
  /** Its next message found a ring full. */
  waitsForRoom: boolean;
  /** It has input to process. */
  proceedsLater: boolean;
  /** Its output waits for the log. */
  waitsForLog: boolean;
  /** Whether the first reply that waited for the log may leave now. */
  readonly isDurable: boolean;
  proceed(): void;
  flush(): void;
}

/**
 * Lines of clients that a pass executes: some milliseconds of work. Beyond that, each connection
 * gets a few, so that a thousand deep pipelines don't keep a client waiting for seconds.
 */
const PASS_LINES = 8192;

export class RunQueues {
  /** The lines that this pass may still execute. */
  readonly lines = { left: PASS_LINES };
  // The acceptor checks their lengths in each turn: a method call would cost more.
  /** Connections with output to flush. */
  dirty: RunQueueEntry[] = [];
  /** Connections whose next message found a ring full. */
  waitingForRoom: RunQueueEntry[] = [];
  /** Connections that were put off. */
  toProceed: RunQueueEntry[] = [];
  /** Connections with replies that wait for the log. */
  waitingForLog: RunQueueEntry[] = [];

  markDirty(entry: RunQueueEntry): void {
    if (entry.dirty) return;
    entry.dirty = true;
    this.dirty.push(entry);
  }

  waitForRoom(entry: RunQueueEntry): void {
    if (entry.waitsForRoom) return;
    entry.waitsForRoom = true;
    this.waitingForRoom.push(entry);
  }

  proceedLater(entry: RunQueueEntry): void {
    if (entry.proceedsLater) return;
    entry.proceedsLater = true;
    this.toProceed.push(entry);
  }

  waitForLog(entry: RunQueueEntry): void {
    if (entry.waitsForLog) return;
    entry.waitsForLog = true;
    this.waitingForLog.push(entry);
  }

  /** Whether replies that waited for the log may leave. */
  get hasDurable(): boolean {
    for (const entry of this.waitingForLog) if (entry.isDurable) return true;
    return false;
  }

  /** Resumes the connections that waited for room in a ring. */
  retryRoom(): void {
    const waiting = this.waitingForRoom;
    this.waitingForRoom = [];
    for (const entry of waiting) entry.waitsForRoom = false;
    for (const entry of waiting) entry.proceed();
  }

  /** Begins a pass: resumes the connections that were put off. */
  letProceed(): void {
    this.lines.left = PASS_LINES;
    if (this.toProceed.length === 0) return;
    const toProceed = this.toProceed;
    this.toProceed = [];
    for (const entry of toProceed) {
      entry.proceedsLater = false;
      entry.proceed();
    }
  }

  /**
   * Sends the output of connections. Those that wait for the log are checked only if the log has
   * advanced.
   */
  flush(logHasMoved: boolean): void {
    if (logHasMoved) {
      const waiting = this.waitingForLog;
      this.waitingForLog = [];
      for (const entry of waiting) {
        entry.waitsForLog = false;
        if (entry.isDurable) this.markDirty(entry);
        else this.waitForLog(entry);
      }
    }
    if (this.dirty.length === 0) return;
    const dirty = this.dirty;
    this.dirty = [];
    for (const entry of dirty) {
      entry.dirty = false;
      entry.flush();
    }
  }

  /** Discards the queue of connections with output, because nothing may leave any more. */
  dropOutput(): void {
    this.dirty = [];
  }
}
