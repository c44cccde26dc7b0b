// A snapshot of all shards' tubes, as the shards sent it. All clients that asked at the time share
// it.

import { assert } from "../../base/assert.ts";
import { ResponseKind } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { Reply } from "../../protocol/reply.ts";
import type { Span } from "../../protocol/request.ts";
import type { Conversation, ConversationHost, Signal } from "./conversation.ts";
import { type ListReplies, ListReply, type Names } from "./list-reply.ts";

/** Bytes of an entry before its name: see message/response.ts. */
const HEADER_BYTES = 9;

class TubeListing {
  /** The messages of each shard, in the order in which its tubes were created. */
  readonly chunks: readonly Uint8Array[][];
  count = 0;
  nameBytes = 0;
  /** The memory in use. */
  bytes = 0;
  /** The number of clients that have not read all of it. */
  readers = 0;

  constructor(shards: number) {
    this.chunks = Array.from({ length: shards }, () => []);
  }

  /** Adds part of a shard's list, which is valid only during the call. */
  add(shard: number, names: Span): void {
    const chunk = names.bytes.slice(names.start, names.end);
    const { length } = chunk;
    this.chunks[shard]!.push(chunk);
    this.bytes += length;
    for (let entry = 0; entry < length; this.count++) {
      const nameBytes = chunk[entry + 8]!;
      this.nameBytes += nameBytes;
      entry += HEADER_BYTES + nameBytes;
    }
  }

  names(): Names {
    return new ListingNames(this);
  }
}

/** A reader's position in the list of one shard. */
class Cursor {
  readonly #chunks: readonly Uint8Array[];
  #chunk = -1;
  #view: DataView | undefined;
  #next = 0;
  sequence: number = Number.POSITIVE_INFINITY;
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;
  length = 0;

  constructor(chunks: readonly Uint8Array[]) {
    this.#chunks = chunks;
    this.next();
  }

  /** Advances to the next tube. At the end the sequence is Infinity. */
  next(): void {
    while (this.#next >= this.bytes.length) {
      const chunk = this.#chunks[++this.#chunk];
      if (chunk === undefined) {
        this.sequence = Number.POSITIVE_INFINITY;
        return;
      }
      this.bytes = chunk;
      this.#view = new DataView(chunk.buffer, chunk.byteOffset);
      this.#next = 0;
    }
    this.sequence = this.#view!.getFloat64(this.#next, true);
    this.length = this.bytes[this.#next + 8]!;
    this.at = this.#next + HEADER_BYTES;
    this.#next = this.at + this.length;
  }
}

/**
 * All names in the order in which the tubes were created, merged from the ordered lists of the
 * shards.
 */
class ListingNames implements Names {
  readonly count: number;
  readonly nameBytes: number;
  readonly #cursors: readonly Cursor[];
  #present: Cursor | undefined;

  constructor(listing: TubeListing) {
    this.count = listing.count;
    this.nameBytes = listing.nameBytes;
    this.#cursors = listing.chunks.map((chunks) => new Cursor(chunks));
  }

  get bytes(): Uint8Array {
    return this.#present!.bytes;
  }

  get at(): number {
    return this.#present!.at;
  }

  get length(): number {
    return this.#present!.length;
  }

  next(): boolean {
    this.#present?.next();
    let best = this.#cursors[0]!;
    for (const cursor of this.#cursors) if (cursor.sequence < best.sequence) best = cursor;
    this.#present = best;
    return best.sequence !== Number.POSITIVE_INFINITY;
  }
}

// Requests for the list of tubes, and the lists that serve them.
//
// One list is gathered at a time. A client that asks meanwhile waits for the next one, since the
// current one may lack a tube that the client has just created. All waiting clients share the next
// list. Lists that are still being read are kept. When they take too much memory, further requests
// get OUT_OF_MEMORY, because a client that stops reading may do so for ever.

/** Total bytes of unread lists at which no further list is gathered. */
const KEPT_BYTES_MAX = 128 * 1024 * 1024;

/** A client that asks for the list. */
export interface TubeLister {
  readonly host: ConversationHost;
  /** Takes the finished list. */
  read(listing: TubeListing): void;
  /** Called if there is no memory for another list. */
  refuse(): void;
}

export class TubeListings {
  readonly #shards: number;
  #waiting = new Set<TubeLister>();
  /** Clients that will read the list being gathered. The shards send it to the first of them. */
  #readers = new Set<TubeLister>();
  #listing: TubeListing | undefined;
  #shardsLeft = 0;
  #keptBytes = 0;

  constructor(shards: number) {
    this.#shards = shards;
  }

  ask(asker: TubeLister): void {
    this.#waiting.add(asker);
    this.#gatherNext();
  }

  onTubes(shard: number, names: Span): void {
    const listing = this.#listing;
    assert(listing !== undefined, "shards send their tubes only while a list is gathered");
    listing.add(shard, names);
  }

  /** Notes that a shard has sent its whole list. */
  onShardDone(): void {
    if (--this.#shardsLeft > 0) return;
    const listing = this.#listing;
    assert(listing !== undefined, "only a list in progress is completed");
    const readers = this.#readers;
    this.#listing = undefined;
    this.#readers = new Set();
    listing.readers = readers.size;
    this.#keptBytes += listing.bytes;
    for (const reader of readers) reader.read(listing);
    this.#gatherNext();
  }

  /** Notes that a reader has received the whole list or is gone. */
  doneReading(listing: TubeListing): void {
    if (--listing.readers > 0) return;
    this.#keptBytes -= listing.bytes;
  }

  /** Removes a client that disconnected before it received a list. */
  leave(asker: TubeLister): void {
    this.#waiting.delete(asker);
    const [first] = this.#readers;
    this.#readers.delete(asker);
    if (first !== asker) return;
    // The shards send the rest to the client that left, so ask them again on behalf of the others.
    for (const each of this.#waiting) this.#readers.add(each);
    this.#waiting = this.#readers;
    this.#readers = new Set();
    this.#listing = undefined;
    this.#gatherNext();
  }

  #gatherNext(): void {
    const [first] = this.#waiting;
    if (this.#listing !== undefined || first === undefined) return;
    const askers = this.#waiting;
    this.#waiting = new Set();
    if (this.#keptBytes >= KEPT_BYTES_MAX) {
      for (const asker of askers) asker.refuse();
      return;
    }
    this.#listing = new TubeListing(this.#shards);
    this.#shardsLeft = this.#shards;
    this.#readers = askers;
    const { host } = first;
    for (let shard = 0; shard < this.#shards; shard++) host.post(shard, host.message(Op.ListTubes));
  }
}

// `list-tubes`: waits for a list of all shards' tubes, then sends it as the client reads.

export class ListTubes implements Conversation {
  readonly host: ConversationHost;
  readonly #listings: TubeListings;
  readonly #replies: ListReplies;
  #listing: TubeListing | undefined;
  #reply: ListReply | undefined;

  constructor(host: ConversationHost, listings: TubeListings, replies: ListReplies) {
    this.host = host;
    this.#listings = listings;
    this.#replies = replies;
  }

  onTubes(shard: number, names: Span): void {
    this.#listings.onTubes(shard, names);
  }

  onSignal({ kind }: Signal): void {
    // A reserve that has ended may still cause a late WaitDue: ignore it.
    if (kind === ResponseKind.Ack) this.#listings.onShardDone();
  }

  onReply(): void {}

  /** Starts sending the finished list. */
  read(listing: TubeListing): void {
    this.#listing = listing;
    this.#reply = new ListReply(this.host, listing.names());
    this.onRoom();
  }

  /** Answers OUT_OF_MEMORY. */
  refuse(): void {
    this.host.finishConversation(Reply.outOfMemory);
  }

  onRoom(): void {
    if (this.#reply !== undefined) this.#replies.add(this.#reply, this.#finish);
  }

  readonly #finish = (): void => {
    const listing = this.#listing!;
    this.#listing = undefined;
    this.host.finishConversation(undefined);
    this.#listings.doneReading(listing);
  };

  onClosed(): void {
    this.#reply = undefined;
    if (this.#listing === undefined) this.#listings.leave(this);
    else this.#listings.doneReading(this.#listing);
  }
}
