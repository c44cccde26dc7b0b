// `inspect-watched`, sent as the client reads. The connection executes nothing else meanwhile, so
// the tubes and their weights do not change.

import { asciiBytes } from "../../../base/bytes.ts";
import { RESERVE_ORDER_WORDS, ReserveOrder } from "../../../protocol/reserve-order.ts";
import type { WatchList } from "../../state/watch-list.ts";
import type { WatchOrder } from "../../state/watch-order.ts";
import type { Conversation } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";
import type { ListReplies, PiecedReply } from "./list-replies.ts";

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
