// Requests for the list of tubes, and the lists that serve them.
//
// One list is gathered at a time. A client that asks meanwhile waits for the next one, since the
// current one may lack a tube that the client has just created. All waiting clients share the next
// list. Lists that are still being read are kept. When they take too much memory, further requests
// get OUT_OF_MEMORY, because a client that stops reading may do so for ever.

import { assert } from "../../../base/assert.ts";
import { Op } from "../../../protocol/commands.ts";
import type { Span } from "../../../protocol/request.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { TubeListing } from "./tube-listing.ts";

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
