// `stats` and `extensions`: every shard updates its counters, then the reply is composed.

import { ResponseKind } from "../../message/response.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

/** Waits for an Ack of each shard, then answers with the text that `compose` returns. */
export class GatherStats implements Conversation {
  readonly #host: ConversationHost;
  readonly #compose: () => string;
  #left: number;

  constructor(host: ConversationHost, shards: number, compose: () => string) {
    this.#host = host;
    this.#left = shards;
    this.#compose = compose;
  }

  onSignal({ kind }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind === ResponseKind.Ack && --this.#left === 0) this.#host.finishWithText(this.#compose());
  }

  onReply(): void {}
}
