// `stats`: every shard brings its counters up to date, then the reply is put together.

import { ResponseKind } from "../message/response.ts";
import type { Connection } from "./connection.ts";
import type { Conversation } from "./conversation.ts";

/** Waits for an Ack of each shard, then answers with the text that `compose` makes. */
export class GatherStats implements Conversation {
  readonly #connection: Connection;
  readonly #compose: () => string;
  #left: number;

  constructor(connection: Connection, shards: number, compose: () => string) {
    this.#connection = connection;
    this.#left = shards;
    this.#compose = compose;
  }

  onSignal(_shard: number, kind: number): void {
    // A late WaitDue of a reserve that has ended is none of our business.
    if (kind === ResponseKind.Ack && --this.#left === 0) this.#connection.finishWithText(this.#compose());
  }

  onReply(): void {}
}
