// Keys by which a request that is sent again gets the answer that it got, and is not done twice. In memory: lost at a restart.

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
  readonly answer: KeptAnswer;
  readonly weight: number;
}

export class IdempotencyKeys {
  readonly #nowMs: () => number;
  /** Digests of requests under way. These are never swept: one that took long would be done twice, or answer for another. */
  readonly #underWay = new Map<string, string>();
  /** Oldest first. */
  readonly #kept = new Map<string, Kept>();
  #weight = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Keys of requests under way, and of kept answers. */
  get size(): number {
    return this.#underWay.size + this.#kept.size;
  }

  /**
   * Notes that a request with this key begins: "begun", or what became of the one before; `digest` stands for all that the
   * request says. One that has begun is to be ended by `end` or `forget`.
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

  /** The request was answered so; `weight` is how many jobs the answer is about. */
  end(key: string, answer: KeptAnswer, weight: number): void {
    const digest = this.#underWay.get(key)!;
    this.#underWay.delete(key);
    this.#kept.set(key, { digest, atMs: this.#nowMs(), answer, weight });
    this.#weight += weight;
    this.#sweep();
  }

  /** The request failed, and may be sent again. */
  forget(key: string): void {
    this.#underWay.delete(key);
  }

  #sweep(): void {
    const oldestMs = this.#nowMs() - KEPT_MS;
    for (const [key, { atMs, weight }] of this.#kept) {
      if (atMs >= oldestMs && this.#kept.size <= KEYS_MAX && this.#weight <= WEIGHT_MAX) break;
      this.#kept.delete(key);
      this.#weight -= weight;
    }
  }
}
