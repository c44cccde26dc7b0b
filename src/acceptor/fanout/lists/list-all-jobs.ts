// `list-jobs *` over several shards: each lists what it has, and the lists are merged by id.
//
// A list ends where the first of the shards has rested, so that the next one begins behind the same id on all of them:
// then what is there all the time is listed once, whichever shard it is on. What others have listed beyond that is
// listed again.

import { asciiBytes, latin1 } from "../../../base/bytes.ts";
import { ListedJobsReader } from "../../../message/listed-jobs.ts";
import { RequestFlag } from "../../../message/request.ts";
import { ResponseFlag } from "../../../message/response.ts";
import { Op } from "../../../protocol/commands.ts";
import { LIST_LIMIT_USUAL, LIST_TEXT_BYTES_MAX, listText } from "../../../protocol/job-options.ts";
import { OptionTag } from "../../../protocol/option-rows.ts";
import { optionNumber } from "../../../protocol/options.ts";
import type { Request, Span } from "../../../protocol/request.ts";
import { EVERY_TUBE } from "../../../protocol/tube-name.ts";
import type { SerialQueue, Waiter } from "../../state/serial-queue.ts";
import type { Conversation } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";

const EVERY_TUBE_BYTES = asciiBytes(EVERY_TUBE);
/** What a shard lists at least of the text of a list. */
const PART_BYTES_MIN = 8 * 1024;

export class ListAllJobs implements Conversation, Waiter {
  readonly #host: ConversationHost;
  readonly #turnstile: SerialQueue;
  readonly #options: Uint8Array;
  readonly #limit: number;
  /** Of each shard the messages that have come. */
  readonly #parts: Uint8Array[][];
  #left: number;

  /** One at a time gathers, for the memory and the work of all shards that it takes. */
  constructor(host: ConversationHost, shards: number, { options }: Request, turnstile: SerialQueue) {
    this.#host = host;
    this.#turnstile = turnstile;
    this.#options = options.bytes.slice(options.start, options.end);
    this.#limit = optionNumber(options, OptionTag.Limit) ?? LIST_LIMIT_USUAL;
    this.#parts = Array.from({ length: shards }, () => []);
    this.#left = shards;
  }

  onTurn(): void {
    for (let shard = 0; shard < this.#parts.length; shard++) {
      const message = this.#host.message(Op.ListJobs);
      message.tube.set(EVERY_TUBE_BYTES, 0, EVERY_TUBE_BYTES.length);
      message.options.set(this.#options, 0, this.#options.length);
      message.flags = RequestFlag.AckOnly;
      // All of them together work for two lists at most, and rest at about the same id where jobs are spread evenly.
      message.bodyBytes = Math.max(PART_BYTES_MIN, (2 * LIST_TEXT_BYTES_MAX) / this.#parts.length);
      this.#host.post(shard, message);
    }
  }

  onGathered(shard: number, flags: number, { bytes, start, end }: Span): void {
    this.#parts[shard]!.push(bytes.slice(start, end));
    if ((flags & ResponseFlag.More) !== 0 || --this.#left > 0) return;
    const text = mergedList(
      this.#parts.map((part) => new ListedJobsReader(Buffer.concat(part))),
      this.#limit,
    );
    this.#turnstile.leave(this);
    this.#host.finishWithText(text);
  }

  // A late WaitDue of a reserve that has ended is none of our business.
  onSignal(): void {}

  onReply(): void {}

  onClosed(): void {
    this.#turnstile.leave(this);
  }
}

/** One list of several; `limit` jobs at most. */
export function mergedList(lists: readonly ListedJobsReader[], limit: number): string {
  // Up to here all shards have looked.
  const lastId = Math.min(...lists.map(({ next }) => (next === 0 ? Number.POSITIVE_INFINITY : next)));
  const lines: string[] = [];
  let bytes = 0;
  let listedId = 0;
  for (
    let list = firstOf(lists);
    list.id <= lastId && list.id < Number.POSITIVE_INFINITY;
    list = firstOf(lists)
  ) {
    const { id, line } = list;
    // A job that has gone from one shard to another meanwhile is on both lists.
    if (id > listedId) {
      if (lines.length === limit || (lines.length > 0 && bytes + line.length > LIST_TEXT_BYTES_MAX))
        return listText(listedId, lines);
      lines.push(latin1(line, 0, line.length));
      bytes += line.length;
      listedId = id;
    }
    list.shift();
  }
  return listText(lastId === Number.POSITIVE_INFINITY ? 0 : lastId, lines);
}

function firstOf(lists: readonly ListedJobsReader[]): ListedJobsReader {
  let first = lists[0]!;
  for (const list of lists) if (list.id < first.id) first = list;
  return first;
}
