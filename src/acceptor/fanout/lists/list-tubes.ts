// `list-tubes`: waits for a list of all shards' tubes, then sends it as the client reads.

import { ResponseKind } from "../../../message/response.ts";
import { Reply } from "../../../protocol/reply.ts";
import type { Span } from "../../../protocol/request.ts";
import type { Conversation, Signal } from "../conversation.ts";
import type { ConversationHost } from "../conversation-host.ts";
import type { ListReplies } from "./list-replies.ts";
import { ListReply } from "./list-reply.ts";
import type { TubeListing } from "./tube-listing.ts";
import type { TubeListings } from "./tube-listings.ts";

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
