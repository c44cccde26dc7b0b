// `list-tubes-watched`, sent as the client reads. The connection executes nothing else meanwhile,
// so the list does not change.

import { asciiBytes } from "../../base/bytes.ts";
import { RESERVE_ORDER_WORDS, ReserveOrder } from "../../protocol/request.ts";
import type { WatchList, WatchOrder } from "../state/watch-list.ts";
import type { Conversation, ConversationHost } from "./conversation.ts";
import { type ListReplies, ListReply, type Names, type PiecedReply } from "./list-reply.ts";

export class ListWatched implements Conversation {
  readonly #host: ConversationHost;
  readonly #replies: ListReplies;
  readonly #reply: ListReply;

  constructor(host: ConversationHost, watched: WatchList, replies: ListReplies) {
    this.#host = host;
    this.#replies = replies;
    this.#reply = new ListReply(host, new WatchedNames(watched));
    this.onRoom();
  }

  onSignal(): void {}

  onReply(): void {}

  onRoom(): void {
    this.#replies.add(this.#reply, this.#finish);
  }

  readonly #finish = (): void => this.#host.finishConversation(undefined);
}

class WatchedNames implements Names {
  readonly at = 0;
  readonly #watched: WatchList;
  #position = -1;

  constructor(watched: WatchList) {
    this.#watched = watched;
  }

  get count(): number {
    return this.#watched.size;
  }

  get nameBytes(): number {
    return this.#watched.nameBytes;
  }

  get bytes(): Uint8Array {
    return this.#watched.tubes[this.#position]!.bytes;
  }

  get length(): number {
    return this.bytes.length;
  }

  next(): boolean {
    return ++this.#position < this.#watched.size;
  }
}

// `inspect-watched`, sent as the client reads. The connection executes nothing else meanwhile, so
// the tubes and their weights do not change.

/** Tubes written at a time: at most 32 KiB. */
const PIECE_TUBES = 128;

export class InspectWatched implements Conversation, PiecedReply {
  queued = false;
  readonly #host: ConversationHost;
  readonly #watched: WatchList;
  readonly #order: WatchOrder | undefined;
  readonly #replies: ListReplies;
  #next = 0;

  constructor(
    host: ConversationHost,
    watched: WatchList,
    order: WatchOrder | undefined,
    replies: ListReplies,
  ) {
    this.#host = host;
    this.#watched = watched;
    this.#order = order;
    this.#replies = replies;
    this.onRoom();
  }

  onSignal(): void {}

  onReply(): void {}

  onRoom(): void {
    this.#replies.add(this, this.#finish);
  }

  readonly #finish = (): void => this.#host.finishConversation(undefined);

  get mayGoOn(): boolean {
    return this.#host.mayTakeMore;
  }

  writePiece(): boolean {
    const { tubes } = this.#watched;
    const isFirst = this.#next === 0;
    const end = Math.min(tubes.length, this.#next + PIECE_TUBES);
    let text = isFirst ? this.#head() : "";
    while (this.#next < end) text += this.#line(tubes[this.#next++]!.name);
    const isLast = end === tubes.length;
    if (isLast) text += "\r\n";
    const bytes = asciiBytes(text);
    this.#host.appendPiece(bytes, bytes.length, isFirst);
    return isLast;
  }

  #head(): string {
    const word = RESERVE_ORDER_WORDS[this.#order?.order ?? ReserveOrder.Strict];
    const head = `---\nreserve-order: ${word}\nwatched:\n`;
    const { size, nameBytes } = this.#watched;
    // A tube without a weight counts as weight 1, which is one digit.
    const { weightDigits = 0, weightedTubes = 0 } = this.#order ?? {};
    const bytes = head.length + size * LINE_BYTES + nameBytes + weightDigits + size - weightedTubes;
    return `OK ${bytes}\r\n${head}`;
  }

  #line(tube: string): string {
    return line(tube, `${this.#order?.weightOf(tube) ?? 1}`);
  }
}

const line = (tube: string, weight: string): string => `- {"tube":"${tube}","weight":${weight}}\n`;
/** Besides the tube and the weight. */
const LINE_BYTES = line("", "").length;
