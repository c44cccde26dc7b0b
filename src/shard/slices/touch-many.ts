// A touch-all: renews the TTR of every job that a session holds.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class TouchMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #forAcceptor: boolean;
  #begun = false;

  /** If `forAcceptor` is set, the answer is a signal, and the acceptor assembles the reply. */
  constructor(engine: Engine, replies: Replies, session: ShardSession, forAcceptor: boolean) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#forAcceptor = forAcceptor;
  }

  get jobs(): number {
    return this.#session.engineSession.held.size;
  }

  step(jobsMax: number, nowMs: number): boolean {
    const begins = !this.#begun;
    this.#begun = true;
    return this.#engine.touchSome(this.#session.engineSession, begins, jobsMax, nowMs);
  }

  /** Counts the jobs that it still holds: a reservation may have ended between two steps. */
  finish(): void {
    assert(this.#begun, "a touch of all jobs begins before it ends");
    const count = this.#session.engineSession.held.size;
    if (this.#forAcceptor) this.#replies.settled(this.#session, count);
    else this.#replies.number(this.#session, ReplyWord.touchedAll, count);
  }
}
