// A command by id, put to all shards because nobody here knows where the job lives: at most one of them has
// it.

import { ResponseKind } from "../message/response.ts";
import { Reply } from "../protocol/reply.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class AskAll implements Conversation {
  readonly #host: ConversationHost;
  #left: number;
  #found = false;

  constructor(host: ConversationHost, shards: number) {
    this.#host = host;
    this.#left = shards;
  }

  onSignal({ kind }: Signal): void {
    if (kind === ResponseKind.Absent) this.#answered();
  }

  onReply(): void {
    this.#found = true;
    this.#answered();
  }

  #answered(): void {
    if (--this.#left > 0) return;
    this.#host.finishConversation(this.#found ? undefined : Reply.notFound);
  }
}
