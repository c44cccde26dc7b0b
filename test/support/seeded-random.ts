// Random source of all tests: the same numbers for the same seed on every machine (mulberry32).

/** A seed for a run that was given none; such a run prints it. */
export const drawnSeed = (): number => Math.floor(Math.random() * 1e9);

export class SeededRandom {
  readonly #seed: number;
  #state: number;

  constructor(seed: number) {
    this.#seed = seed >>> 0;
    this.#state = this.#seed;
  }

  /**
   * From here on the numbers of step `step` of this seed, whatever was drawn before, so that a step
   * that is left out changes no other's draws; -1 for what comes after the last.
   */
  beginStep(step: number): void {
    this.#state = (Math.imul(this.#seed, 0x9e3779b1) ^ Math.imul(step + 2, 0x85ebca6b)) >>> 0;
  }

  /** A number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  /** A whole number from 0 to n - 1. */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** 32 random bits. */
  bits(): number {
    return this.below(0x1_0000_0000);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly [T, ...T[]]): T;
  pick<T>(choices: readonly T[]): T | undefined;
  pick<T>(choices: readonly T[]): T | undefined {
    return choices[this.below(choices.length)];
  }

  /** A key of `weights`, each as often as its weight says. */
  weighted<Key extends string>(weights: Readonly<Record<Key, number>>): Key {
    const entries = Object.entries(weights) as [Key, number][];
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [key, weight] of entries) {
      left -= weight;
      if (left < 0) return key;
    }
    return (entries.at(-1) as [Key, number])[0];
  }
}
