// A clear-tube of any number of jobs.

import type { Engine } from "../../engine/engine.ts";
import type { TubeClearing } from "../../engine/tube-clearing.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { LongMove } from "./long-move.ts";
import type { Replies } from "./replies.ts";
import type { ShardSession } from "./shard-session.ts";

export class ClearMany implements LongMove {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #clearing: TubeClearing;

  constructor(engine: Engine, replies: Replies, session: ShardSession, clearing: TubeClearing) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#clearing = clearing;
  }

  get jobs(): number {
    return this.#clearing.work;
  }

  step(jobsMax: number, nowMs: number): boolean {
    return this.#engine.clear(this.#clearing, jobsMax, nowMs);
  }

  finish(): void {
    this.#replies.number(this.#session, ReplyWord.cleared, this.#clearing.cleared);
  }
}
