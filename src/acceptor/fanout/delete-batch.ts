// `delete-batch` over several shards. Each shard gets the ids of its jobs, all at once. An id that
// is not in the directory goes to every shard. The reply waits for the records of all shards that
// deleted a job.

import { asciiBytes } from "../../base/bytes.ts";
import { RequestFlag } from "../../message/request.ts";
import { Deleted, ResponseFlag, ResponseKind } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { IdList } from "../../protocol/number-reader.ts";
import { deletedBatchReply } from "../../protocol/reply.ts";
import type { Span } from "../../protocol/request.ts";
import { UNKNOWN_SHARD } from "../../ring/shared-words.ts";
import type { JobPlaces } from "../state/shard-links.ts";
import type { Conversation, ConversationHost, Signal } from "./conversation.ts";

/** Offset of the results in an Ack: the soonest deadline precedes them. */
const RESULTS_AT = 8;

/**
 * Returns the shard of all jobs in a list, or UNKNOWN_SHARD if they are on several or one of them
 * is unknown.
 */
export function onlyShardOf(ids: Span, jobs: JobPlaces): number {
  if (jobs.shards === 1) return 0;
  const list = new IdList(ids);
  let only = UNKNOWN_SHARD;
  for (let isFirst = true; list.next(); isFirst = false) {
    const shard = jobs.shardOfJob(list.id);
    if (!isFirst && shard !== only) return UNKNOWN_SHARD;
    if (shard === UNKNOWN_SHARD) return UNKNOWN_SHARD;
    only = shard;
  }
  return only;
}

/** The state of a batch that a shard has begun. */
export interface BegunBatch {
  readonly shard: number;
  readonly recordNumber: number;
  /** A Deleted value for each id. */
  readonly results: Uint8Array;
}

export class DeleteBatch implements Conversation {
  readonly #host: ConversationHost;
  readonly #jobs: JobPlaces;
  /** The ids as the client sent them, and the ids of deleted jobs. */
  readonly #texts: string[] = [];
  readonly #ids: number[] = [];
  readonly #deletedIds = new Set<number>();
  /**
   * Indexes of the ids still to be asked for. An index is added again if its job may have moved in
   * the meantime.
   */
  readonly #toAsk: number[] = [];
  #next = 0;
  /** The ids that each shard was asked for, by index. */
  #asked = new Map<number, number[]>();
  /** Ids that every shard was asked for, by index, with their directory entries at that time. */
  #entries = new Map<number, number>();
  #left = 0;
  /** The last record of each shard that deleted a job. */
  readonly #records = new Map<number, number>();

  constructor(host: ConversationHost, jobs: JobPlaces, ids: Span, begun?: BegunBatch) {
    this.#host = host;
    this.#jobs = jobs;
    const list = new IdList(ids);
    while (list.next()) {
      this.#texts.push(list.text);
      this.#ids.push(list.id);
    }
    for (let place = 0; place < this.#ids.length; place++) {
      const result = begun?.results[place] ?? Deleted.Elsewhere;
      if (result === Deleted.Yes) this.#deletedIds.add(this.#ids[place]!);
      else if (result === Deleted.Elsewhere) this.#toAsk.push(place);
    }
    if (begun !== undefined) this.#records.set(begun.shard, begun.recordNumber);
  }

  /** Asks for as many ids as fit in one message, whatever their shards. */
  begin(): void {
    this.#asked = new Map();
    this.#entries = new Map();
    const texts = this.#texts;
    let room = this.#host.payloadBytesMax;
    for (; this.#next < this.#toAsk.length; this.#next++) {
      const place = this.#toAsk[this.#next]!;
      room -= texts[place]!.length + 1;
      if (room < 0) break;
      this.#assign(place);
    }
    this.#left = this.#asked.size;
    for (const [shard, places] of this.#asked) {
      const bytes = asciiBytes(places.map((place) => texts[place]!).join(" "));
      const message = this.#host.message(Op.DeleteBatch);
      // A shard that redirected this command holds back the following ones, but it accepts a probe.
      message.flags = RequestFlag.AckOnly | RequestFlag.Probe;
      message.count = places.length;
      message.ids.set(bytes, 0, bytes.length);
      this.#host.post(shard, message);
    }
  }

  #assign(place: number): void {
    const { shards } = this.#jobs;
    const id = this.#ids[place]!;
    const shard = shards === 1 ? 0 : this.#jobs.shardOfJob(id);
    if (shard === UNKNOWN_SHARD) this.#entries.set(place, this.#jobs.jobEntry(id));
    const [from, to] = shard === UNKNOWN_SHARD ? [0, shards - 1] : [shard, shard];
    for (let each = from; each <= to; each++) {
      const places = this.#asked.get(each);
      if (places === undefined) this.#asked.set(each, [place]);
      else places.push(place);
    }
  }

  onSignal({ shard, kind, flags, recordNumber, payload }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind !== ResponseKind.Ack) return;
    for (const [index, place] of this.#asked.get(shard)!.entries()) {
      const result = payload.bytes[payload.start + RESULTS_AT + index];
      if (result === Deleted.Yes) this.#deletedIds.add(this.#ids[place]!);
      else if (result === Deleted.Elsewhere && !this.#entries.has(place)) this.#toAsk.push(place);
    }
    if ((flags & ResponseFlag.Durable) !== 0) this.#records.set(shard, recordNumber);
    if (--this.#left > 0) return;
    this.#askAgain();
    if (this.#next < this.#toAsk.length) this.begin();
    else this.#finish();
  }

  /**
   * Asks again for jobs that no shard had but whose directory entry has changed: they may have
   * moved from one shard to another between the answers.
   */
  #askAgain(): void {
    for (const [place, entry] of this.#entries)
      if (!this.#deletedIds.has(this.#ids[place]!) && this.#jobs.jobEntry(this.#ids[place]!) !== entry)
        this.#toAsk.push(place);
  }

  #finish(): void {
    const missing = this.#texts.filter((_, place) => !this.#isFirstDeleted(place));
    for (const [shard, recordNumber] of this.#records) this.#host.holdFor(shard, recordNumber);
    this.#host.finishConversation(deletedBatchReply(this.#texts.length - missing.length, missing));
  }

  /**
   * Returns whether this is the first mention of a deleted id. Only the first counts as deleted,
   * whichever of them found the job.
   */
  #isFirstDeleted(place: number): boolean {
    return this.#deletedIds.delete(this.#ids[place]!);
  }

  onReply(): void {}
}
