// Scheduler of long replies that acceptors compose (lists and batches): each turn writes a few
// pieces, round robin.

/**
 * Pieces written in one turn. Each has up to 32 KiB, so a turn takes a fraction of a millisecond.
 */
const TURN_PIECES = 8;

/** A reply that is written piece by piece. */
export interface PiecedReply {
  /** Whether the reply is in the queue. */
  queued: boolean;
  /** Whether the client has read enough for the next piece. */
  readonly mayGoOn: boolean;
  /** Writes a piece. Returns whether it was the last. */
  writePiece(): boolean;
}

interface Queued {
  readonly reply: PiecedReply;
  readonly onEnd: () => void;
}

export class ListReplies {
  /** Whether replies may have something to write. */
  hasWork = false;
  #line: Queued[] = [];

  /**
   * Queues a reply that may have something to write. `onEnd` is called when its last piece is
   * written.
   */
  add(reply: PiecedReply, onEnd: () => void): void {
    if (reply.queued) return;
    reply.queued = true;
    this.#line.push({ reply, onEnd });
    this.hasWork = true;
  }

  /**
   * Writes some pieces. A reply whose client has to read first leaves the queue; its connection
   * adds it again.
   */
  turn(): void {
    let left = TURN_PIECES;
    const line = this.#line;
    this.#line = [];
    const goOn: Queued[] = [];
    let at = 0;
    for (; at < line.length && left > 0; at++) {
      const each = line[at]!;
      each.reply.queued = false;
      if (!each.reply.mayGoOn) continue;
      left--;
      if (each.reply.writePiece()) each.onEnd();
      else if (each.reply.mayGoOn) goOn.push(each);
    }
    for (const { reply } of goOn) reply.queued = true;
    // Replies that had no turn yet go first, those added in the meantime last.
    this.#line = [...line.slice(at), ...goOn, ...this.#line];
    this.hasWork = this.#line.length > 0;
  }
}
