// A list over all shards: each shard lists its own entries, and the lists are merged.
//
// An entry that moves from one shard to another meanwhile may be on neither list: the new shard
// listed its entries before the move, the old one after it. So if anything has moved, all shards
// list once more, and all their lists are merged. Under constant moves this ends after ROUNDS_MAX
// rounds: only an entry that moved in each of them may be missing.

import { asciiBytes, latin1 } from "../../base/bytes.ts";
import { ListPartView, RequestFlag } from "../../message/request.ts";
import { ListedJobsReader, ResponseFlag } from "../../message/response.ts";
import { LIST_LIMIT_USUAL, LIST_TEXT_BYTES_MAX, listText, OptionTag } from "../../protocol/option-rows.ts";
import { optionNumber } from "../../protocol/options.ts";
import type { Request, Span } from "../../protocol/request.ts";
import { mergedSchedules, type SchedulePage, scheduleListText } from "../../protocol/schedule-list.ts";
import { SCHEDULE_LIST_USUAL } from "../../protocol/schedule-options.ts";
import { EVERY_TUBE } from "../../protocol/tube-name.ts";
import type { JobPlaces } from "../state/shard-links.ts";
import type { Conversation, ConversationHost, SerialQueue, Waiter } from "./conversation.ts";

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

// `list-jobs *` over several shards: each shard lists its jobs, and the lists are merged by id.
//
// The merged list ends at the lowest id at which a shard stopped. The next list starts after that
// id on all shards, so it repeats what the other shards listed beyond it. A job that exists all
// along is thus returned exactly once, whatever its shard.

const EVERY_TUBE_BYTES = asciiBytes(EVERY_TUBE);
/** Minimum bytes of text that a shard is asked for. */
const PART_BYTES_MIN = 8 * 1024;

export class ListAllJobs extends GatheredList {
  readonly #limit: number;

  constructor(host: ConversationHost, places: JobPlaces, request: Request, queue: SerialQueue) {
    super(host, places, request, queue);
    this.#limit = optionNumber(request.options, OptionTag.Limit) ?? LIST_LIMIT_USUAL;
  }

  protected override fill(message: Request, shards: number): void {
    message.tube.set(EVERY_TUBE_BYTES, 0, EVERY_TUBE_BYTES.length);
    // Together the shards do the work of two lists at most. They stop at about the same id if jobs
    // are spread evenly.
    ListPartView.limitText(message, Math.max(PART_BYTES_MIN, (2 * LIST_TEXT_BYTES_MAX) / shards));
  }

  protected moves({ jobMoves }: JobPlaces): number {
    return jobMoves;
  }

  protected merge(parts: readonly Buffer[]): string {
    return mergedList(
      parts.map((part) => new ListedJobsReader(part)),
      this.#limit,
    );
  }
}

/** Merges several lists into one of at most `limit` jobs. */
export function mergedList(lists: readonly ListedJobsReader[], limit: number): string {
  // Every shard has searched up to this id.
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
    // A job that moved between shards in the meantime is on both lists.
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

// `list-schedules` over several shards, merged by name.

export class ListSchedules extends GatheredList {
  readonly #limit: number;

  constructor(host: ConversationHost, places: JobPlaces, request: Request, queue: SerialQueue) {
    super(host, places, request, queue);
    this.#limit = optionNumber(request.options, OptionTag.Limit) ?? SCHEDULE_LIST_USUAL;
  }

  protected moves({ scheduleMoves }: JobPlaces): number {
    return scheduleMoves;
  }

  protected merge(parts: readonly Buffer[]): string {
    const pages = parts.map((part) => JSON.parse(part.toString("latin1")) as SchedulePage);
    return scheduleListText(mergedSchedules(pages, this.#limit));
  }
}
