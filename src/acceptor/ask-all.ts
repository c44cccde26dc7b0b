// A command by id, put to all shards because nobody here knows where the job lives: at most one of them has it.

import { ResponseKind } from "../message/response.ts";
import { Reply } from "../protocol/reply.ts";
import type { Connection } from "./connection.ts";
import type { Conversation } from "./conversation.ts";

export class AskAll implements Conversation {
  readonly #connection: Connection;
  #left: number;
  #found = false;

  constructor(connection: Connection, shards: number) {
    this.#connection = connection;
    this.#left = shards;
  }

  onSignal(_shard: number, kind: number): void {
    if (kind === ResponseKind.Absent) this.#answered();
  }

  onReply(): void {
    this.#found = true;
    this.#answered();
  }

  #answered(): void {
    if (--this.#left > 0) return;
    this.#connection.finishConversation(this.#found ? undefined : Reply.notFound);
  }
}
