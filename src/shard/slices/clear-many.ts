// A clear-tube of any number of jobs.

import type { Engine } from "../../engine/engine.ts";
import type { TubeClearing } from "../../engine/walks/tube-clearing.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class ClearMany implements SlicedCommand {
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
    // As with NOT_FOUND: another client may have deleted the others a moment ago.
    this.#replies.dependOnAll();
    this.#replies.number(this.#session, ReplyWord.cleared, this.#clearing.cleared);
  }
}
