// The jobs of a delete-batch, one after the other, each as `delete` would.

import { type Engine, Outcome } from "../../engine/engine.ts";
import { IdList } from "../../protocol/id-list.ts";
import { deletedBatchReply } from "../../protocol/reply.ts";
import { Span } from "../../protocol/request.ts";
import type { LongMove } from "./long-move.ts";
import type { Replies } from "./replies.ts";
import type { ShardSession } from "./shard-session.ts";

export class DeleteMany implements LongMove {
  readonly jobs: number;
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #ids: IdList;
  /** For each id 1 if its job was deleted. */
  readonly #deleted: Uint8Array;
  readonly #missing: string[] = [];
  readonly #forAcceptor: boolean;
  #done = 0;

  /** `ids` are `count` ids as they were given; the answer is a signal if the acceptor puts answers together. */
  constructor(
    engine: Engine,
    replies: Replies,
    session: ShardSession,
    ids: Span,
    count: number,
    forAcceptor: boolean,
  ) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    const copy = new Span();
    copy.copyOf(ids);
    this.#ids = new IdList(copy);
    this.jobs = count;
    this.#deleted = new Uint8Array(count);
    this.#forAcceptor = forAcceptor;
  }

  step(jobsMax: number, nowMs: number): boolean {
    const client = this.#session.engineSession;
    for (let left = jobsMax; left > 0 && this.#ids.next(); left--) {
      const isDone = this.#engine.delete(client, this.#ids.id, nowMs) === Outcome.Done;
      if (isDone) this.#deleted[this.#done] = 1;
      else if (!this.#forAcceptor) this.#missing.push(this.#ids.text);
      this.#done++;
    }
    return this.#done === this.jobs;
  }

  finish(): void {
    if (this.#forAcceptor) this.#replies.settled(this.#session, 0, this.#deleted);
    else {
      const missing = this.#missing;
      this.#replies.fixed(this.#session, deletedBatchReply(this.jobs - missing.length, missing));
    }
  }
}
