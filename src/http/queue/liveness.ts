// Liveness check of the shards: pings each one every 5 s, and reports those that have not answered
// for 30 s.

import type { ControlClient } from "../link/control-client.ts";

/** A shard that is silent for this long is stuck, and only a restart helps. */
export const SILENT_MS_MAX = 30_000;

export class Liveness {
  readonly #control: ControlClient;
  readonly #nowMs: () => number;
  /** Time of each shard's unanswered ping; Infinity if there is none. */
  readonly #askedAtMs: number[];

  constructor(control: ControlClient, nowMs: () => number) {
    this.#control = control;
    this.#nowMs = nowMs;
    this.#askedAtMs = Array.from({ length: control.shards }, () => Number.POSITIVE_INFINITY);
  }

  /** Pings the shards that answered the last ping. */
  ping(): void {
    for (const [shard, askedAtMs] of this.#askedAtMs.entries()) {
      if (askedAtMs !== Number.POSITIVE_INFINITY) continue;
      this.#askedAtMs[shard] = this.#nowMs();
      // Pings are never refused, so only the shard's answer ends the silence.
      void this.#control.ask(shard, "ping", undefined).then(() => {
        this.#askedAtMs[shard] = Number.POSITIVE_INFINITY;
      });
    }
  }

  /** Returns the shards that have been silent for too long. */
  get silent(): number[] {
    const nowMs = this.#nowMs();
    return [...this.#askedAtMs.keys()].filter((shard) => nowMs - this.#askedAtMs[shard]! > SILENT_MS_MAX);
  }
}
