// Whether all shards still answer: asked each 5 s, and dead is who has not answered for 30 s.

import type { ControlClient } from "../link/control-client.ts";

/** A shard that is silent for so long is taken for stuck: only a restart helps then. */
export const SILENT_MS_MAX = 30_000;

export class Liveness {
  readonly #control: ControlClient;
  readonly #nowMs: () => number;
  /** When each shard was asked what it has not answered; Infinity for nothing. */
  readonly #askedAtMs: number[];

  constructor(control: ControlClient, nowMs: () => number) {
    this.#control = control;
    this.#nowMs = nowMs;
    this.#askedAtMs = Array.from({ length: control.shards }, () => Number.POSITIVE_INFINITY);
  }

  /** Asks those who have answered the last time. */
  ping(): void {
    for (const [shard, askedAtMs] of this.#askedAtMs.entries()) {
      if (askedAtMs !== Number.POSITIVE_INFINITY) continue;
      this.#askedAtMs[shard] = this.#nowMs();
      // A ping is never refused: only its shard's answer ends the silence.
      void this.#control.ask(shard, "ping", undefined).then(() => {
        this.#askedAtMs[shard] = Number.POSITIVE_INFINITY;
      });
    }
  }

  /** Shards that have been silent for too long. */
  get silent(): number[] {
    const nowMs = this.#nowMs();
    return [...this.#askedAtMs.keys()].filter((shard) => nowMs - this.#askedAtMs[shard]! > SILENT_MS_MAX);
  }
}
