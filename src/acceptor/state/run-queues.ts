// The connections of an acceptor that have work in this turn or a later one, and those that expect
// an answer.

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

/** A connection, as PendingReplies sees it. */
export interface PendingReply {
  /** The polling epoch in which an answer was last expected, or -1. */
  expectsSince: number;
  /** The polling epoch in which it last sent a command. */
  askedSince: number;
}

/**
 * Connections that expect an answer at any moment. While there are any, the acceptor's thread polls
 * its rings instead of sleeping.
 *
 * These are connections with a command in flight that was sent since the thread last gave up
 * polling. All others wait for a job, and their answer rings the doorbell.
 */
export class PendingReplies {
  /** Connections that expect an answer. */
  expecting = 0;
  /** Connections that have sent a command in this epoch. */
  asking = 0;
  /** Incremented whenever the thread gives up polling. */
  #epoch = 0;

  /** Notes that the connection has sent a command. */
  expect(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) return;
    connection.expectsSince = this.#epoch;
    this.expecting++;
    if (connection.askedSince === this.#epoch) return;
    connection.askedSince = this.#epoch;
    this.asking++;
  }

  /** Returns whether the thread has stopped polling for the connection's answer. */
  hasGivenUp(connection: PendingReply): boolean {
    return connection.expectsSince !== this.#epoch;
  }

  /** Notes that the connection has nothing in flight any more. */
  expectNothing(connection: PendingReply): void {
    if (connection.expectsSince === this.#epoch) this.expecting--;
    connection.expectsSince = -1;
  }

  /** Forgets a connection that leaves for another thread. */
  forget(connection: PendingReply): void {
    this.expectNothing(connection);
    if (connection.askedSince === this.#epoch) this.asking--;
    connection.askedSince = -1;
  }

  /** Treats every connection that expects an answer as one that waits for a job. */
  giveUp(): void {
    this.#epoch++;
    this.expecting = 0;
    this.asking = 0;
  }
}
