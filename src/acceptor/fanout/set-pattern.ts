// `set-tube` of a pattern. All shards are told at once, so that none misses it if the client
// disconnects. When all have it, the shard that logged it answers.

import { RequestFlag, SetPartView } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class SetPattern implements Conversation {
  readonly #host: ConversationHost;
  readonly #pattern: Uint8Array;
  /** The shard that logs the pattern. */
  readonly #home: number;
  #left: number;

  /** `change` is greater than the number of every earlier change on any acceptor. */
  constructor(host: ConversationHost, shards: number, home: number, request: Request, change: number) {
    this.#host = host;
    this.#home = home;
    this.#left = shards;
    this.#pattern = copyOf(request.tube);
    const options = copyOf(request.options);
    for (let shard = 0; shard < shards; shard++) {
      const message = this.#message();
      message.options.set(options, 0, options.length);
      message.flags = RequestFlag.AckOnly;
      SetPartView.fill(message, change);
      host.post(shard, message);
    }
  }

  #message(): Request {
    const message = this.#host.message(Op.SetTube);
    message.tube.set(this.#pattern, 0, this.#pattern.length);
    return message;
  }

  onSignal({ kind }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind !== ResponseKind.Ack || --this.#left > 0) return;
    this.#host.post(this.#home, this.#message());
  }

  onReply(): void {
    this.#host.finishConversation(undefined);
  }
}

function copyOf({ bytes, start, end }: Span): Uint8Array {
  return bytes.slice(start, end);
}
