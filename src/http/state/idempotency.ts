// Idempotency keys: a retried request gets the stored response and doesn't run twice. They are kept
// in memory, and a restart loses them.

import { RecentMap } from "../../base/recent-map.ts";

const KEYS_MAX = 100_000;
const KEPT_MS = 10 * 60_000;
/** Limit of the total weight. A batch's response weighs as much as it has jobs. */
const WEIGHT_MAX = 1_000_000;

/** A stored response. */
interface KeptAnswer {
  readonly status: number;
  readonly payload: unknown;
  readonly location: string | undefined;
}

interface Kept {
  readonly digest: string;
  readonly atMs: number;
  readonly answer: KeptAnswer;
  readonly weight: number;
}

export class IdempotencyKeys {
  readonly #nowMs: () => number;
  /**
   * Digests of requests in progress. They never expire: otherwise a slow request could run twice,
   * or its key could be reused for another request.
   */
  readonly #underWay = new Map<string, string>();
  /** Has room for one more than is kept, so that only the sweep forgets and no weight is lost. */
  readonly #kept = new RecentMap<string, Kept>(KEYS_MAX + 1);
  #weight = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Number of keys in progress and stored. */
  get size(): number {
    return this.#underWay.size + this.#kept.size;
  }

  /**
   * Begins a request with this key. Returns "begun", or the state or response of an earlier
   * request. `digest` stands for the whole content. The caller must finish a begun request with
   * `end` or `forget`.
   */
  begin(key: string, digest: string): "begun" | "in-progress" | "mismatch" | KeptAnswer {
    this.#sweep();
    const kept = this.#kept.get(key);
    const before = this.#underWay.get(key) ?? kept?.digest;
    if (before !== undefined && before !== digest) return "mismatch";
    if (kept !== undefined) return kept.answer;
    if (before !== undefined) return "in-progress";
    this.#underWay.set(key, digest);
    return "begun";
  }

  /** Stores the response of a request. `weight` is the number of jobs that it covers. */
  end(key: string, answer: KeptAnswer, weight: number): void {
    const digest = this.#underWay.get(key)!;
    this.#underWay.delete(key);
    this.#kept.set(key, { digest, atMs: this.#nowMs(), answer, weight });
    this.#weight += weight;
    this.#sweep();
  }

  /** Drops a request that failed or whose response was not sent: it may be retried. */
  forget(key: string): void {
    this.#underWay.delete(key);
    this.#weight -= this.#kept.get(key)?.weight ?? 0;
    this.#kept.delete(key);
  }

  #sweep(): void {
    const oldestMs = this.#nowMs() - KEPT_MS;
    for (let key = this.#kept.oldest; key !== undefined; key = this.#kept.oldest) {
      const { atMs, weight } = this.#kept.get(key)!;
      if (atMs >= oldestMs && this.#kept.size <= KEYS_MAX && this.#weight <= WEIGHT_MAX) break;
      this.#kept.delete(key);
      this.#weight -= weight;
    }
  }
}
