// Who asks for the list of tubes, and when the shards are asked for it.
//
// One list is gathered at a time. Who asks meanwhile waits for the next one, because a tube of his may have
// been made behind the back of this one; all who wait share it. Lists that are still being read are kept;
// with too many bytes of them nobody gets another: OUT_OF_MEMORY, since who does not read may do so for ever.

import { assert } from "../../../base/assert.ts";
import { Op } from "../../../protocol/commands.ts";
import type { Span } from "../../../protocol/request.ts";
import type { ConversationHost } from "../conversation-host.ts";
import { TubeListing } from "./tube-listing.ts";

/** Bytes of lists being read with which no further one is gathered. */
const KEPT_BYTES_MAX = 128 * 1024 * 1024;

/** Who asks for a list. */
export interface TubeLister {
  readonly host: ConversationHost;
  /** The list is there. */
  read(listing: TubeListing): void;
  /** There is no memory for one more list. */
  refuse(): void;
}

export class TubeListings {
  readonly #shards: number;
  #waiting = new Set<TubeLister>();
  /** Who will read the list that is being gathered; the shards send it to the first. */
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
    assert(listing !== undefined, "shards send their tubes to who asked for them");
    listing.add(shard, names);
  }

  /** A shard has sent all. */
  onShardDone(): void {
    if (--this.#shardsLeft > 0) return;
    const listing = this.#listing;
    assert(listing !== undefined, "only a list that is gathered gets done");
    const readers = this.#readers;
    this.#listing = undefined;
    this.#readers = new Set();
    listing.readers = readers.size;
    this.#keptBytes += listing.bytes;
    for (const reader of readers) reader.read(listing);
    this.#gatherNext();
  }

  /** A reader has got all, or is gone. */
  doneReading(listing: TubeListing): void {
    if (--listing.readers > 0) return;
    this.#keptBytes -= listing.bytes;
  }

  /** A client is gone before it got a list. */
  leave(asker: TubeLister): void {
    this.#waiting.delete(asker);
    const [first] = this.#readers;
    this.#readers.delete(asker);
    if (first !== asker) return;
    // What the shards still send goes to nobody: they are asked again for the others.
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
