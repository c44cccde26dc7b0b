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
import { UNKNOWN_SHARD } from "../../ring/shared-words.ts";
import type { JobPlaces } from "../state/shard-links.ts";
import type { Conversation, ConversationHost, Signal } from "./conversation.ts";

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

// A command about a schedule over several shards: the schedule's shard has to be found first.
//
// All shards are asked for the name, then the command goes to the one that has it. If the schedule
// leaves before the command arrives, the search starts over. NOT_FOUND is true only if no schedule
// has moved to another shard during the search. NOT_FOUND waits for the records before each shard's
// answer, since a delete among them may be why the schedule is not there.

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
  readonly #heldRecords = new Map<number, number>();

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
    this.#heldRecords.clear();
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
    if ((flags & ResponseFlag.Durable) !== 0) this.#heldRecords.set(shard, recordNumber);
    if (--this.#left > 0) return;
    if (this.#found !== UNKNOWN_SHARD) {
      this.#isSent = true;
      this.#host.post(this.#found, this.#request);
    } else if (this.#places.scheduleMoves !== this.#moves) this.begin();
    else {
      for (const [each, record] of this.#heldRecords) this.#host.holdFor(each, record);
      this.#host.finishConversation(Reply.notFound);
    }
  }

  onReply(): void {
    this.#host.finishConversation(undefined);
  }
}
