// `use` of a tube on another shard. The connection takes the new tube, then gives up the old one,
// then answers. So it uses a tube at all times, and the reply means that both steps are done.

import { RequestFlag, RequestOp } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { usingReply } from "../../protocol/reply.ts";
import type { TubeRef } from "../state/tube-ref.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class MoveUse implements Conversation {
  readonly #host: ConversationHost;
  readonly #from: TubeRef;
  readonly #to: TubeRef;
  #taken = false;

  constructor(host: ConversationHost, from: TubeRef, to: TubeRef) {
    this.#host = host;
    this.#from = from;
    this.#to = to;
    const message = host.message(Op.Use);
    message.flags = RequestFlag.AckOnly;
    message.counted = Op.Use;
    message.tube.set(to.bytes, 0, to.bytes.length);
    host.post(to.shard, message);
  }

  onSignal({ kind }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind !== ResponseKind.Ack) return;
    if (!this.#taken) {
      this.#taken = true;
      this.#host.post(this.#from.shard, this.#host.message(RequestOp.Unuse));
      return;
    }
    this.#host.finishConversation(usingReply(this.#to.name));
  }

  onReply(): void {}
}
