// The end of a connection: gives back its jobs and ends its watches.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { ShardSession } from "../sessions/shard-session.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class SessionCleanup implements SlicedCommand {
  readonly #engine: Engine;
  readonly #session: ShardSession;

  constructor(engine: Engine, session: ShardSession) {
    this.#engine = engine;
    this.#session = session;
  }

  /** Watches count like jobs. */
  get jobs(): number {
    const { held, watches } = this.#session.engineSession;
    return held.size + watches.size;
  }

  step(jobsMax: number, nowMs: number): boolean {
    assert(this.#session.ended, "only a client that is gone gives back all its jobs");
    return this.#engine.giveBack(this.#session.engineSession, jobsMax, nowMs);
  }

  /**
   * Nothing to do: the shard forgets an ended session after its last sliced command, and reports
   * that itself.
   */
  finish(): void {}
}
