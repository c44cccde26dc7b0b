// A list of names as a reply. It is written piece by piece as the client reads, so a long list
// neither fills memory nor delays other clients.

import { CR, HYPHEN, LF, SPACE } from "../../../base/ascii.ts";
import { asciiBytes, copyBytes } from "../../../base/bytes.ts";
import type { ConversationHost } from "../conversation-host.ts";
import type { PiecedReply } from "./list-replies.ts";
import type { Names } from "./names.ts";

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
