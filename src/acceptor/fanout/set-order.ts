// `reserve-order`. All shards are told, because any of them may own a tube that the connection
// watches later.

import { OrderView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { Reply } from "../../protocol/reply.ts";
import type { ReserveOrder } from "../../protocol/reserve-order.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class SetOrder implements Conversation {
  readonly #host: ConversationHost;
  #left: number;

  constructor(host: ConversationHost, shards: number, order: ReserveOrder) {
    this.#host = host;
    this.#left = shards;
    for (let shard = 0; shard < shards; shard++) {
      const message = host.message(Op.ReserveOrder);
      OrderView.fill(message, order);
      host.post(shard, message);
    }
  }

  onSignal({ kind }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind === ResponseKind.Ack && --this.#left === 0) this.#host.finishConversation(Reply.set);
  }

  onReply(): void {}
}
