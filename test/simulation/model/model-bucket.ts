// Remaining rate of a tube, recomputed each time from everything that it has given.

import type { SettingValues } from "../../../src/schema/setting.ts";

type Rate = Pick<SettingValues, "rate" | "burst">;

/** A job was given, or it was set anew. */
interface Event {
  readonly atMs: number;
  readonly set: Rate | undefined;
  readonly cost: number;
}

export class ModelBucket {
  readonly #first: Rate;
  #events: readonly Event[] = [];

  /** Starts full. */
  constructor({ rate, burst }: Rate) {
    this.#first = { rate, burst };
  }

  /** Changes the rate: present tokens stay, as far as there is room for them. */
  set({ rate, burst }: Rate, atMs: number): void {
    if (!this.isSetTo({ rate, burst }))
      this.#events = [...this.#events, { atMs, set: { rate, burst }, cost: 0 }];
  }

  take(atMs: number, cost: number): void {
    this.#events = [...this.#events, { atMs, set: undefined, cost }];
  }

  hasFor(cost: number, nowMs: number): boolean {
    return this.tokens(nowMs) >= Math.min(cost, this.#last().burst);
  }

  isSetTo({ rate, burst }: Rate): boolean {
    const now = this.#events.findLast(({ set }) => set !== undefined)?.set ?? this.#first;
    return now.rate === rate && now.burst === burst;
  }

  tokens(nowMs: number): number {
    const { tokens, atMs, burst, msForOne } = this.#last();
    return Math.min(burst, tokens + (nowMs - atMs) / msForOne);
  }

  /** Time at which the tokens for a job were or will be there. */
  tokenAtMs(cost: number): number {
    const { tokens, atMs, burst, msForOne } = this.#last();
    return atMs + Math.max(0, Math.min(cost, burst) - tokens) * msForOne;
  }

  /** Returns the tokens after the last event. */
  #last(): { tokens: number; atMs: number; burst: number; msForOne: number } {
    let [tokens, lastMs, { burst }, msForOne] = [this.#first.burst, 0, this.#first, msForOneAt(this.#first)];
    for (const { atMs, set, cost } of this.#events) {
      tokens = Math.min(burst, tokens + (atMs - lastMs) / msForOne);
      lastMs = atMs;
      // A reserve by id may overdraw the bucket, and so may a job that costs more than it holds.
      if (set === undefined) tokens = Math.max(-Math.max(burst, cost), tokens - cost);
      else [tokens, burst, msForOne] = [Math.min(tokens, set.burst), set.burst, msForOneAt(set)];
    }
    return { tokens, atMs: lastMs, burst, msForOne };
  }

  /** Returns a function that restores the present bucket. */
  saved(): () => void {
    const events = this.#events;
    return () => {
      this.#events = events;
    };
  }
}

function msForOneAt({ rate }: Rate): number {
  const [jobs, seconds] = rate.split("/").map(Number) as [number, number];
  return (seconds * 1000) / jobs;
}
