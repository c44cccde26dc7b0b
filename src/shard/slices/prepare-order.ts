// The first part of a reserve whose session has very many tubes to choose from: it brings them into
// their order, over as many turns as it takes.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class PrepareOrder implements SlicedCommand {
  readonly #engine: Engine;
  readonly #session: ShardSession;
  readonly #finish: () => void;

  constructor(engine: Engine, session: ShardSession, finish: () => void) {
    assert(!session.ended, "a client that is gone reserves nothing");
    this.#engine = engine;
    this.#session = session;
    this.#finish = finish;
  }

  get jobs(): number {
    const { watches } = this.#session.engineSession;
    return Math.min(watches.size, this.#engine.queues.readyTubes.length);
  }

  step(tubesMax: number, nowMs: number): boolean {
    if (this.#session.ended) return true;
    return this.#engine.prepareOrder(this.#session.engineSession, tubesMax, nowMs);
  }

  finish(): void {
    // A client that is gone gets no job.
    if (!this.#session.ended) this.#finish();
  }
}
