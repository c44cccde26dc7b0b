// All jobs that a session holds get their full time to run again.

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

  /** The answer is a signal if the acceptor puts answers together. */
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

  /** What it still holds: a reservation may have ended between two steps. */
  finish(): void {
    const count = this.#session.engineSession.held.size;
    if (this.#forAcceptor) this.#replies.settled(this.#session, count);
    else this.#replies.number(this.#session, ReplyWord.touchedAll, count);
  }
}
