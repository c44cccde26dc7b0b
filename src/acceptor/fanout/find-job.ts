// A command by id whose job has to be found first: the directory does not know it, or the job has moved to another shard since
// it was asked.
//
// All shards are asked where the job is, then the command goes to the one that has it: sent to all at once, two of them could
// execute it, one before the job moves and one after. If the job has left there meanwhile, all begins anew. That nobody has it
// is true only if it has not moved while they were asked; and a job that arrives somewhere changes its entry of the directory.

import { RequestFlag, RequestOp } from "../../message/request.ts";
import { ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request } from "../../protocol/request.ts";
import { UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

/** Where jobs live. */
export interface JobPlaces {
  readonly shards: number;
  /** The shard of a job, or UNKNOWN_SHARD when all have to be asked. */
  shardOfJob(id: number): number;
  /** Changes whenever the job has arrived on a shard. */
  jobEntry(id: number): number;
}

export class FindJob implements Conversation {
  readonly #host: ConversationHost;
  readonly #places: JobPlaces;
  readonly #request: Request;
  /** The entry of the directory when this round began. */
  #entry = 0;
  /** Shards that have not said yet whether they have it. */
  #left = 0;
  #found = UNKNOWN_SHARD;
  /** Whether the command is under way. */
  #isSent = false;

  /** `request` is kept. */
  constructor(host: ConversationHost, places: JobPlaces, request: Request) {
    this.#host = host;
    this.#places = places;
    this.#request = request;
    request.flags = RequestFlag.Probe;
  }

  /** Begins, or begins anew. */
  begin(): void {
    const { id } = this.#request;
    this.#entry = this.#places.jobEntry(id);
    const shard = this.#places.shardOfJob(id);
    if (shard === UNKNOWN_SHARD) this.#askAll();
    else this.#send(shard);
  }

  #askAll(): void {
    const { shards } = this.#places;
    this.#isSent = false;
    this.#left = shards;
    this.#found = UNKNOWN_SHARD;
    for (let shard = 0; shard < shards; shard++) {
      const locate = this.#host.message(RequestOp.Locate);
      locate.id = this.#request.id;
      this.#host.post(shard, locate);
    }
  }

  #send(shard: number): void {
    this.#isSent = true;
    this.#host.post(shard, this.#request);
  }

  onSignal({ kind, shard }: Signal): void {
    // A late WaitDue of a reserve that has ended is none of our business.
    if (kind !== ResponseKind.Ack && kind !== ResponseKind.Absent) return;
    if (this.#isSent) {
      // What was found by asking was there: it has moved, or is gone.
      if (this.#found !== UNKNOWN_SHARD || this.#hasArrived) this.begin();
      else this.#host.finishConversation(Reply.notFound);
      return;
    }
    if (kind === ResponseKind.Ack) this.#found = shard;
    if (--this.#left > 0) return;
    if (this.#found !== UNKNOWN_SHARD) this.#send(this.#found);
    else if (this.#hasArrived) this.begin();
    else this.#host.finishConversation(Reply.notFound);
  }

  get #hasArrived(): boolean {
    return this.#places.jobEntry(this.#request.id) !== this.#entry;
  }

  onReply(): void {
    this.#host.finishConversation(undefined);
  }
}
