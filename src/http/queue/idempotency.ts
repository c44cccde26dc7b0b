// Keys by which a request that is sent again gets the answer that it got, and is not done twice. In memory: lost at a restart.

import { createHash } from "node:crypto";

const KEYS_MAX = 100_000;
const KEPT_MS = 10 * 60_000;
/** What all kept answers may weigh together: the answer of a batch weighs as much as it has jobs. */
const WEIGHT_MAX = 1_000_000;

/** An answer, as it was sent. */
export interface KeptAnswer {
  readonly status: number;
  readonly payload: unknown;
}

interface Kept {
  readonly digest: string;
  readonly atMs: number;
  /** Undefined while the request is under way. */
  answer: KeptAnswer | undefined;
  weight: number;
}

export class IdempotencyKeys {
  readonly #nowMs: () => number;
  /** Oldest first. */
  readonly #kept = new Map<string, Kept>();
  #weight = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /**
   * Notes that a request with this key begins: "begun", or what became of the one before; `content` is all that the request
   * says.
   */
  begin(
    key: string,
    content: readonly (string | Uint8Array)[],
  ): "begun" | "in-progress" | "mismatch" | KeptAnswer {
    const hash = createHash("sha256");
    for (const part of content) hash.update(part).update("\0");
    const digest = hash.digest("base64");
    this.#sweep();
    const kept = this.#kept.get(key);
    if (kept === undefined) {
      this.#kept.set(key, { digest, atMs: this.#nowMs(), answer: undefined, weight: 1 });
      this.#weight++;
      return "begun";
    }
    if (kept.digest !== digest) return "mismatch";
    return kept.answer ?? "in-progress";
  }

  /** The request was answered so; `weight` is how many jobs the answer is about. */
  end(key: string, answer: KeptAnswer, weight: number): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    kept.answer = answer;
    this.#weight += weight - kept.weight;
    kept.weight = weight;
  }

  /** The request failed, and may be sent again. */
  forget(key: string): void {
    this.#weight -= this.#kept.get(key)?.weight ?? 0;
    this.#kept.delete(key);
  }

  #sweep(): void {
    const oldestMs = this.#nowMs() - KEPT_MS;
    for (const [key, { atMs }] of this.#kept) {
      if (atMs >= oldestMs && this.#kept.size <= KEYS_MAX && this.#weight <= WEIGHT_MAX) break;
      this.forget(key);
    }
  }
}
