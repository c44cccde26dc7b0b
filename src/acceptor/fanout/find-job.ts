// A command by id whose job has to be found first: the directory does not know it, or the job has
// moved since the directory was read.
//
// All shards are asked for the job, then the command goes to the one that has it. Sending the
// command to all shards could execute it twice, before and after a move. If the job leaves before
// the command arrives, the search starts over. NOT_FOUND is true only if the job did not move
// during the search; an arriving job changes its directory entry, which reveals a move. NOT_FOUND
// waits for the records before each shard's answer, since a delete among them may be why the job is
// not there.

import { RequestFlag, RequestOp } from "../../message/request.ts";
import { ResponseFlag, ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request } from "../../protocol/request.ts";
import { UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import type { JobPlaces } from "../state/job-places.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class FindJob implements Conversation {
  readonly #host: ConversationHost;
  readonly #places: JobPlaces;
  readonly #request: Request;
  /** The directory entry when this round began. */
  #entry = 0;
  /** The number of shards that have not answered yet. */
  #left = 0;
  #found = UNKNOWN_SHARD;
  /** Whether the command has been sent. */
  #isSent = false;
  /** The records that NOT_FOUND waits for, by shard. */
  readonly #records = new Map<number, number>();

  /** `request` is retained. */
  constructor(host: ConversationHost, places: JobPlaces, request: Request) {
    this.#host = host;
    this.#places = places;
    this.#request = request;
    request.flags = RequestFlag.Probe;
  }

  /** Starts the search, or starts it again. */
  begin(): void {
    const { id } = this.#request;
    this.#found = UNKNOWN_SHARD;
    this.#entry = this.#places.jobEntry(id);
    const shard = this.#places.shardOfJob(id);
    if (shard === UNKNOWN_SHARD) this.#askAll();
    else this.#send(shard);
  }

  #askAll(): void {
    const { shards } = this.#places;
    this.#isSent = false;
    this.#left = shards;
    this.#records.clear();
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

  onSignal({ kind, shard, flags, value, recordNumber }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind !== ResponseKind.Ack && kind !== ResponseKind.Absent) return;
    if (this.#isSent) {
      // A job that a shard reported was there: it has moved or is gone.
      if (this.#found !== UNKNOWN_SHARD || this.#hasArrived) this.begin();
      else this.#askAll();
      return;
    }
    if (value === 1) this.#found = shard;
    if ((flags & ResponseFlag.Durable) !== 0) this.#records.set(shard, recordNumber);
    if (--this.#left > 0) return;
    if (this.#found !== UNKNOWN_SHARD) this.#send(this.#found);
    else if (this.#hasArrived) this.begin();
    else {
      for (const [each, record] of this.#records) this.#host.holdFor(each, record);
      this.#host.finishConversation(Reply.notFound);
    }
  }

  get #hasArrived(): boolean {
    return this.#places.jobEntry(this.#request.id) !== this.#entry;
  }

  onReply(): void {
    this.#host.finishConversation(undefined);
  }
}
