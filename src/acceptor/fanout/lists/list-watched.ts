// `list-tubes-watched`, sent as the client reads. The connection executes nothing else meanwhile,
// so the list does not change.

import type { WatchList } from "../../state/watch-list.ts";
import type { Conversation } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";
import type { ListReplies } from "./list-replies.ts";
import { ListReply } from "./list-reply.ts";
import type { Names } from "./names.ts";

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
