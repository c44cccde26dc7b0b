// A list over all shards: each shard lists its own entries, and the lists are merged.
//
// An entry that moves from one shard to another meanwhile may be on neither list: the new shard
// listed its entries before the move, the old one after it. So if anything has moved, all shards
// list once more, and all their lists are merged. Under constant moves this ends after ROUNDS_MAX
// rounds: only an entry that moved in each of them may be missing.

import { RequestFlag } from "../../../message/request.ts";
import { ResponseFlag } from "../../../message/response.ts";
import type { Request, Span } from "../../../protocol/request.ts";
import type { JobPlaces } from "../../state/job-places.ts";
import type { SerialQueue, Waiter } from "../../state/serial-queue.ts";
import type { Conversation } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";

const ROUNDS_MAX = 4;

export abstract class GatheredList implements Conversation, Waiter {
  readonly #host: ConversationHost;
  readonly #queue: SerialQueue;
  readonly #op: number;
  readonly #options: Uint8Array;
  readonly #places: JobPlaces;
  /** The messages received from each shard, those of the last round first. */
  readonly #parts: Uint8Array[][] = [];
  #rounds = 0;
  /** The number of moves when this round began. */
  #moves = 0;
  /** The number of shards that have not answered in this round. */
  #left = 0;

  /** Only one list is gathered at a time, because it takes memory and work on every shard. */
  constructor(host: ConversationHost, places: JobPlaces, { op, options }: Request, queue: SerialQueue) {
    this.#host = host;
    this.#queue = queue;
    this.#op = op;
    this.#options = options.bytes.slice(options.start, options.end);
    this.#places = places;
  }

  /** Completes the request that is sent to each shard. */
  protected fill(_message: Request, _shards: number): void {}

  /** Returns the number of moves of such entries so far. */
  protected abstract moves(places: JobPlaces): number;

  /** Returns the text of the merged list. */
  protected abstract merge(parts: readonly Buffer[]): string;

  onTurn(): void {
    const { shards } = this.#places;
    this.#rounds++;
    this.#moves = this.moves(this.#places);
    this.#left = shards;
    this.#parts.unshift(...Array.from({ length: shards }, () => []));
    for (let shard = 0; shard < shards; shard++) {
      const message = this.#host.message(this.#op);
      message.options.set(this.#options, 0, this.#options.length);
      message.flags = RequestFlag.AckOnly;
      this.fill(message, shards);
      this.#host.post(shard, message);
    }
  }

  onGathered(shard: number, flags: number, { bytes, start, end }: Span): void {
    this.#parts[shard]!.push(bytes.slice(start, end));
    if ((flags & ResponseFlag.More) !== 0 || --this.#left > 0) return;
    if (this.#rounds < ROUNDS_MAX && this.moves(this.#places) !== this.#moves) {
      this.onTurn();
      return;
    }
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
