// A command that several shards execute, each of them once: when all have acknowledged it, the
// client gets its reply.

import { RequestFlag, RequestOp, SetPartView } from "../../message/request.ts";
import { ResponseKind, TouchedView } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { usingReply } from "../../protocol/reply.ts";
import type { Request, Span } from "../../protocol/request.ts";
import type { TubeRef } from "../state/watch-list.ts";
import type { Conversation, ConversationHost, Signal } from "./conversation.ts";

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

// `use` of a tube on another shard. The connection takes the new tube, then gives up the old one,
// then answers. So it uses a tube at all times, and the reply means that both steps are done.

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

// `set-tube` of a pattern. All shards are told at once, so that none misses it if the client
// disconnects. When all have it, the shard that logged it answers.

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
