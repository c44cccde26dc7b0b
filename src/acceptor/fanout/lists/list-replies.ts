// Long replies that acceptors make, lists and batches, on their way to clients: some pieces of them in each turn of the acceptor, in turns.

/** Pieces written in one turn, each up to 32 KiB: a fraction of a millisecond. */
const TURN_PIECES = 8;

/** A reply that is written piece by piece. */
export interface PiecedReply {
  /** In the list of those that go on. */
  queued: boolean;
  /** Whether the client has read so much that the next piece may be written. */
  readonly mayGoOn: boolean;
  /** Writes a piece. Returns whether it was the last. */
  writePiece(): boolean;
}

interface Queued {
  readonly reply: PiecedReply;
  readonly onEnd: () => void;
}

export class ListReplies {
  #line: Queued[] = [];

  /** The reply may have something to write; `onEnd` is called when its last piece is written. */
  add(reply: PiecedReply, onEnd: () => void): void {
    if (reply.queued) return;
    reply.queued = true;
    this.#line.push({ reply, onEnd });
  }

  get hasWork(): boolean {
    return this.#line.length > 0;
  }

  /**
   * Writes some pieces. A reply whose client has to read first leaves the line; its connection brings it
   * back.
   */
  turn(): void {
    if (this.#line.length === 0) return;
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
    // Those that had no turn come first; what was added meanwhile last.
    this.#line = [...line.slice(at), ...goOn, ...this.#line];
  }
}
