// A command about a schedule over several shards: the schedule's shard has to be found first.
//
// All shards are asked for the name, then the command goes to the one that has it. If the schedule
// leaves before the command arrives, the search starts over. NOT_FOUND is true only if no schedule
// has moved to another shard during the search. NOT_FOUND waits for the records before each shard's
// answer, since a delete among them may be why the schedule is not there.

import { RequestFlag, RequestOp } from "../../message/request.ts";
import { ResponseFlag, ResponseKind } from "../../message/response.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Request } from "../../protocol/request.ts";
import { UNKNOWN_SHARD } from "../../ring/job-directory.ts";
import type { JobPlaces } from "../state/job-places.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

export class FindSchedule implements Conversation {
  readonly #host: ConversationHost;
  readonly #places: JobPlaces;
  readonly #request: Request;
  /** The number of moves when this round began. */
  #moves = 0;
  /** The number of shards that have not answered yet. */
  #left = 0;
  #found = UNKNOWN_SHARD;
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
    const { shards, scheduleMoves } = this.#places;
    this.#found = UNKNOWN_SHARD;
    this.#isSent = false;
    this.#moves = scheduleMoves;
    this.#left = shards;
    this.#records.clear();
    for (let shard = 0; shard < shards; shard++) {
      const locate = this.#host.message(RequestOp.LocateSchedule);
      const { bytes, start, end } = this.#request.body;
      locate.body.set(bytes, start, end);
      this.#host.post(shard, locate);
    }
  }

  onSignal({ kind, shard, flags, value, recordNumber }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind !== ResponseKind.Ack && kind !== ResponseKind.Absent) return;
    if (this.#isSent) {
      this.begin();
      return;
    }
    if (value === 1) this.#found = shard;
    if ((flags & ResponseFlag.Durable) !== 0) this.#records.set(shard, recordNumber);
    if (--this.#left > 0) return;
    if (this.#found !== UNKNOWN_SHARD) {
      this.#isSent = true;
      this.#host.post(this.#found, this.#request);
    } else if (this.#places.scheduleMoves !== this.#moves) this.begin();
    else {
      for (const [each, record] of this.#records) this.#host.holdFor(each, record);
      this.#host.finishConversation(Reply.notFound);
    }
  }

  onReply(): void {
    this.#host.finishConversation(undefined);
  }
}
