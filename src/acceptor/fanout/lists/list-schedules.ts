// `list-schedules` over several shards: each shard lists its schedules, and the lists are merged.

import { RequestFlag } from "../../../message/request.ts";
import { ResponseFlag } from "../../../message/response.ts";
import { Op } from "../../../protocol/commands.ts";
import { OptionTag } from "../../../protocol/option-rows.ts";
import { optionNumber } from "../../../protocol/options.ts";
import type { Request, Span } from "../../../protocol/request.ts";
import { mergedSchedules, type SchedulePage, scheduleListText } from "../../../protocol/schedule-list.ts";
import { SCHEDULE_LIST_USUAL } from "../../../protocol/schedule-options.ts";
import type { SerialQueue, Waiter } from "../../state/serial-queue.ts";
import type { Conversation } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";

export class ListSchedules implements Conversation, Waiter {
  readonly #host: ConversationHost;
  readonly #queue: SerialQueue;
  readonly #options: Uint8Array;
  readonly #limit: number;
  /** The messages received from each shard. */
  readonly #parts: Uint8Array[][];
  #left: number;

  /** Only one list is gathered at a time, because it takes memory on every shard. */
  constructor(host: ConversationHost, shards: number, { options }: Request, queue: SerialQueue) {
    this.#host = host;
    this.#queue = queue;
    this.#options = options.bytes.slice(options.start, options.end);
    this.#limit = optionNumber(options, OptionTag.Limit) ?? SCHEDULE_LIST_USUAL;
    this.#parts = Array.from({ length: shards }, () => []);
    this.#left = shards;
  }

  onTurn(): void {
    for (let shard = 0; shard < this.#parts.length; shard++) {
      const message = this.#host.message(Op.ListSchedules);
      message.options.set(this.#options, 0, this.#options.length);
      message.flags = RequestFlag.AckOnly;
      this.#host.post(shard, message);
    }
  }

  onGathered(shard: number, flags: number, { bytes, start, end }: Span): void {
    this.#parts[shard]!.push(bytes.slice(start, end));
    if ((flags & ResponseFlag.More) !== 0 || --this.#left > 0) return;
    const pages = this.#parts.map(
      (part) => JSON.parse(Buffer.concat(part).toString("latin1")) as SchedulePage,
    );
    this.#queue.leave(this);
    this.#host.finishWithText(scheduleListText(mergedSchedules(pages, this.#limit)));
  }

  // A reserve that has ended may still cause a late WaitDue: ignore it.
  onSignal(): void {}

  onReply(): void {}

  onClosed(): void {
    this.#queue.leave(this);
  }
}
