// A list over all shards: each shard lists its own entries, and the lists are merged.

import { RequestFlag } from "../../../message/request.ts";
import { ResponseFlag } from "../../../message/response.ts";
import type { Request, Span } from "../../../protocol/request.ts";
import type { SerialQueue, Waiter } from "../../state/serial-queue.ts";
import type { Conversation } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";

export abstract class GatheredList implements Conversation, Waiter {
  readonly #host: ConversationHost;
  readonly #queue: SerialQueue;
  readonly #op: number;
  readonly #options: Uint8Array;
  /** The messages received from each shard. */
  readonly #parts: Uint8Array[][];
  #left: number;

  /** Only one list is gathered at a time, because it takes memory and work on every shard. */
  constructor(host: ConversationHost, shards: number, { op, options }: Request, queue: SerialQueue) {
    this.#host = host;
    this.#queue = queue;
    this.#op = op;
    this.#options = options.bytes.slice(options.start, options.end);
    this.#parts = Array.from({ length: shards }, () => []);
    this.#left = shards;
  }

  /** Completes the request that is sent to each shard. */
  protected fill(_message: Request, _shards: number): void {}

  /** Returns the text of the merged list. */
  protected abstract merge(parts: readonly Buffer[]): string;

  onTurn(): void {
    for (let shard = 0; shard < this.#parts.length; shard++) {
      const message = this.#host.message(this.#op);
      message.options.set(this.#options, 0, this.#options.length);
      message.flags = RequestFlag.AckOnly;
      this.fill(message, this.#parts.length);
      this.#host.post(shard, message);
    }
  }

  onGathered(shard: number, flags: number, { bytes, start, end }: Span): void {
    this.#parts[shard]!.push(bytes.slice(start, end));
    if ((flags & ResponseFlag.More) !== 0 || --this.#left > 0) return;
    const text = this.merge(this.#parts.map((part) => Buffer.concat(part)));
    this.#queue.leave(this);
    this.#host.finishWithText(text);
  }

  // A reserve that has ended may still cause a late WaitDue: ignore it.
  onSignal(): void {}

  onReply(): void {}

  onClosed(): void {
    this.#queue.leave(this);
  }
}
