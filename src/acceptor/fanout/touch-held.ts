// `touch-all` of jobs on several shards: each shard touches its own, and the counts are added up.

import { RequestFlag } from "../../message/request.ts";
import { ResponseKind, TouchedView } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { touchedAllReply } from "../../protocol/reply.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class TouchHeld implements Conversation {
  readonly #host: ConversationHost;
  #left: number;
  #held = 0;

  /** `shards` are those on which the connection may hold jobs. */
  constructor(host: ConversationHost, shards: readonly number[]) {
    this.#host = host;
    this.#left = shards.length;
    for (const shard of shards) {
      const message = host.message(Op.TouchAll);
      message.flags = RequestFlag.AckOnly;
      host.post(shard, message);
    }
  }

  onSignal(signal: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (signal.kind !== ResponseKind.Ack) return;
    this.#held += TouchedView.jobs(signal);
    if (--this.#left === 0) this.#host.finishConversation(touchedAllReply(this.#held));
  }

  onReply(): void {}
}
