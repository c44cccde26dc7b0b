// Long replies that an acceptor composes and writes piece by piece, such as lists of names.

import { CR, HYPHEN, LF, SPACE } from "../../base/ascii.ts";
import { asciiBytes, copyBytes } from "../../base/bytes.ts";
import type { ConversationHost } from "./conversation.ts";

/** An iterator over names, as bytes. */
export interface Names {
  /** The number of names and their total length. */
  readonly count: number;
  readonly nameBytes: number;
  /** The current name: `bytes[at, at + length)`. */
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly length: number;
  /** Advances to the next name, at first to the first one. Returns false if there is none. */
  next(): boolean;
}

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

// A list of names as a reply. It is written piece by piece as the client reads, so a long list
// neither fills memory nor delays other clients.

const BEGINNING = asciiBytes("---\n");
/** Bytes of an entry besides the name: `- ` before it and LF after it. */
const ENTRY_BYTES = 3;

/** Scratch buffer for the pieces of this thread. */
const piece = new Uint8Array(32 * 1024);

export class ListReply implements PiecedReply {
  queued = false;
  readonly #host: ConversationHost;
  readonly #names: Names;
  /** Bytes that precede the next piece of names. */
  #head: Uint8Array;
  #hasName: boolean;
  #begun = false;

  constructor(host: ConversationHost, names: Names) {
    this.#host = host;
    this.#names = names;
    const bytes = BEGINNING.length + names.nameBytes + ENTRY_BYTES * names.count;
    this.#head = asciiBytes(`OK ${bytes}\r\n---\n`);
    this.#hasName = names.next();
  }

  get mayGoOn(): boolean {
    return this.#host.mayTakeMore;
  }

  writePiece(): boolean {
    const names = this.#names;
    let end = this.#head.length;
    copyBytes(piece, 0, this.#head, 0, end);
    this.#head = NOTHING;
    // Leaves room for CR LF.
    for (
      ;
      this.#hasName && end + ENTRY_BYTES + names.length + 2 <= piece.length;
      this.#hasName = names.next()
    ) {
      piece[end] = HYPHEN;
      piece[end + 1] = SPACE;
      copyBytes(piece, end + 2, names.bytes, names.at, names.length);
      end += ENTRY_BYTES + names.length;
      piece[end - 1] = LF;
    }
    if (!this.#hasName) {
      piece[end++] = CR;
      piece[end++] = LF;
    }
    this.#host.appendPiece(piece, end, !this.#begun);
    this.#begun = true;
    return !this.#hasName;
  }
}

const NOTHING = new Uint8Array(0);
