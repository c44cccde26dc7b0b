// `list-tubes`: waits for a list of the tubes of all shards, then sends it as its client reads.

import { ResponseKind } from "../message/response.ts";
import { Reply } from "../protocol/reply.ts";
import type { Connection } from "./connection.ts";
import type { Conversation } from "./conversation.ts";
import type { ListReplies } from "./list-replies.ts";
import { ListReply } from "./list-reply.ts";
import type { TubeListing } from "./tube-listing.ts";
import type { TubeListings } from "./tube-listings.ts";

export class ListTubes implements Conversation {
  readonly connection: Connection;
  readonly #listings: TubeListings;
  readonly #replies: ListReplies;
  #listing: TubeListing | undefined;
  #reply: ListReply | undefined;

  constructor(connection: Connection, listings: TubeListings, replies: ListReplies) {
    this.connection = connection;
    this.#listings = listings;
    this.#replies = replies;
  }

  onTubes(shard: number, bytes: Uint8Array, at: number, length: number): void {
    this.#listings.onTubes(shard, bytes, at, length);
  }

  onSignal(_shard: number, kind: number): void {
    // A late WaitDue of a reserve that has ended is none of our business.
    if (kind === ResponseKind.Ack) this.#listings.onShardDone();
  }

  onReply(): void {}

  /** The list is there. */
  read(listing: TubeListing): void {
    this.#listing = listing;
    this.#reply = new ListReply(this.connection, listing.names());
    this.onRoom();
  }

  /** There is no memory for one more list. */
  refuse(): void {
    this.connection.finishConversation(Reply.outOfMemory);
  }

  onRoom(): void {
    if (this.#reply !== undefined) this.#replies.add(this.#reply, this.#finish);
  }

  readonly #finish = (): void => {
    const listing = this.#listing!;
    this.#listing = undefined;
    this.connection.finishConversation(undefined);
    this.#listings.doneReading(listing);
  };

  onClosed(): void {
    this.#reply = undefined;
    if (this.#listing === undefined) this.#listings.leave(this);
    else this.#listings.doneReading(this.#listing);
  }
}
