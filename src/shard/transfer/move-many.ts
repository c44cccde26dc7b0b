// A move-jobs of any number of jobs.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { TubeMoving } from "../../engine/walks/tube-moving.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { Replies } from "../replies/replies.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";
import type { FarMove } from "./far-moves.ts";

export class MoveMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: Replies;
  readonly #session: ShardSession;
  readonly #moving: TubeMoving;
  readonly #far: FarMove;

  constructor(engine: Engine, replies: Replies, session: ShardSession, moving: TubeMoving, far: FarMove) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#moving = moving;
    this.#far = far;
  }

  get jobs(): number {
    return this.#moving.work;
  }

  step(jobsMax: number, nowMs: number): boolean {
    this.#engine.runDue(nowMs);
    return this.#moving.step(jobsMax, nowMs);
  }

  rest(): void {
    this.#far.sendAll();
  }

  get awaitedJob(): number | undefined {
    return this.#moving.isWaiting ? this.#far.awaitedJob : undefined;
  }

  finish(): void {
    assert(this.#far.underWay === 0, "a move ends when all its jobs have landed");
    this.#replies.number(this.#session, ReplyWord.moved, this.#moving.moved);
  }
}
