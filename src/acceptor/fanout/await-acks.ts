// A command that several shards execute, each of them once: when all have acknowledged it, the
// client gets its reply.

import { ResponseKind, TouchedView } from "../../message/response.ts";
import type { Request } from "../../protocol/request.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class AwaitAcks implements Conversation {
  readonly #answer: (touched: number) => void;
  #left = 0;
  /** The jobs that the acknowledgements count, if the command is touch-all. */
  #touched = 0;

  /** Posts `message` to each shard. Calls `answer` in the end. */
  constructor(
    host: ConversationHost,
    shards: Iterable<number>,
    message: () => Request,
    answer: (touched: number) => void,
  ) {
    this.#answer = answer;
    for (const shard of shards) {
      this.#left++;
      host.post(shard, message());
    }
  }

  onSignal(signal: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (signal.kind !== ResponseKind.Ack) return;
    this.#touched += TouchedView.jobs(signal);
    if (--this.#left === 0) this.#answer(this.#touched);
  }

  onReply(): void {}
}
