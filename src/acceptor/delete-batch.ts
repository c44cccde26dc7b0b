// `delete-batch` of jobs on several shards: each shard gets the ids of its jobs, all at once; an id that no directory knows
// goes to all. The answer waits for the records of all that deleted something.

import { asciiBytes } from "../base/bytes.ts";
import { RequestFlag } from "../message/request.ts";
import { ResponseFlag, ResponseKind } from "../message/response.ts";
import { Op } from "../protocol/commands.ts";
import { IdList } from "../protocol/id-list.ts";
import { deletedBatchReply } from "../protocol/reply.ts";
import type { Span } from "../protocol/request.ts";
import { UNKNOWN_SHARD } from "../ring/job-directory.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

/** Where jobs live. */
export interface JobShards {
  readonly shards: number;
  /** The shard of a job, or UNKNOWN_SHARD when all have to be asked. */
  shardOfJob(id: number): number;
}

/** The soonest deadline stands before what an Ack tells. */
const RESULTS_AT = 8;

/** The shard of all jobs of a list; UNKNOWN_SHARD if there are several, or none knows. */
export function onlyShardOf(ids: Span, jobs: JobShards): number {
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

export class DeleteBatch implements Conversation {
  readonly #host: ConversationHost;
  readonly #jobs: JobShards;
  /** The ids as they were given, and whether each was deleted. */
  readonly #texts: string[] = [];
  readonly #ids: number[] = [];
  readonly #deleted: Uint8Array;
  /** Of each shard the ids that it was asked for, by their places among all. */
  #asked = new Map<number, number[]>();
  #next = 0;
  #left = 0;
  /** Of each shard that deleted something its last record. */
  readonly #records = new Map<number, number>();

  constructor(host: ConversationHost, jobs: JobShards, ids: Span) {
    this.#host = host;
    this.#jobs = jobs;
    const list = new IdList(ids);
    while (list.next()) {
      this.#texts.push(list.text);
      this.#ids.push(list.id);
    }
    this.#deleted = new Uint8Array(this.#ids.length);
    this.#ask();
  }

  /** Asks for as many ids as fit into a message, whosoever they are. */
  #ask(): void {
    this.#asked = new Map();
    const texts = this.#texts;
    let room = this.#host.payloadBytesMax;
    for (; this.#next < texts.length; this.#next++) {
      room -= texts[this.#next]!.length + 1;
      if (room < 0) break;
      this.#assign(this.#next);
    }
    this.#left = this.#asked.size;
    for (const [shard, places] of this.#asked) {
      const bytes = asciiBytes(places.map((place) => texts[place]!).join(" "));
      const message = this.#host.message(Op.DeleteBatch);
      message.flags = RequestFlag.AckOnly;
      message.count = places.length;
      message.body.set(bytes, 0, bytes.length);
      this.#host.post(shard, message);
    }
  }

  #assign(place: number): void {
    const { shards } = this.#jobs;
    const shard = shards === 1 ? 0 : this.#jobs.shardOfJob(this.#ids[place]!);
    const [from, to] = shard === UNKNOWN_SHARD ? [0, shards - 1] : [shard, shard];
    for (let each = from; each <= to; each++) {
      const places = this.#asked.get(each);
      if (places === undefined) this.#asked.set(each, [place]);
      else places.push(place);
    }
  }

  onSignal({ shard, kind, flags, recordNumber, payload }: Signal): void {
    // A late WaitDue of a reserve that has ended is none of our business.
    if (kind !== ResponseKind.Ack) return;
    for (const [index, place] of this.#asked.get(shard)!.entries())
      if (payload.bytes[payload.start + RESULTS_AT + index] === 1) this.#deleted[place] = 1;
    if ((flags & ResponseFlag.Durable) !== 0) this.#records.set(shard, recordNumber);
    if (--this.#left > 0) return;
    if (this.#next < this.#texts.length) this.#ask();
    else this.#finish();
  }

  #finish(): void {
    const missing = this.#texts.filter((_, place) => this.#deleted[place] === 0);
    for (const [shard, recordNumber] of this.#records) this.#host.holdFor(shard, recordNumber);
    this.#host.finishConversation(deletedBatchReply(this.#texts.length - missing.length, missing));
  }

  onReply(): void {}
}
