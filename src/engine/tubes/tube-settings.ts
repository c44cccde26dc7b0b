// Settings of tubes: by name, by prefix, and for all. For each setting, a tube takes the value of
// its own name, else that of the longest prefix with a value, else that of `*`.

import { assert, CHECKED } from "../../base/assert.ts";
import { NOTHING_SET, type SettingName, type SettingValues } from "../../schema/setting.ts";

/** The settings of one tube, and the pattern that each comes from. */
export interface TubePolicy extends Readonly<SettingValues> {
  readonly sources: ReadonlyMap<SettingName, string>;
}

/** Maximum number of patterns with `*` per server. */
export const PATTERNS_MAX = 1000;
/** Maximum number of tube names with settings per shard. */
const NAMES_MAX = 100_000;

export class TubeSettings {
  /** Number of patterns. Read by every put. */
  size = 0;
  /** Settings by tube name, or prefix and `*`. */
  readonly #byPattern = new Map<string, Partial<SettingValues>>();
  /** The lengths of prefixes, with the number of prefixes of each. */
  readonly #lengths = new Map<number, number>();
  /** The same lengths, longest first. */
  #longestFirst: readonly number[] = [];
  #patterns = 0;
  /**
   * Policies of tubes without settings of their own, by their longest pattern: one per pattern,
   * however many tubes there are.
   */
  readonly #byLongest = new Map<string, TubePolicy>();

  /** Number of different prefix lengths, which determines the cost of finding a tube's settings. */
  get prefixLengths(): number {
    return this.#longestFirst.length;
  }

  /** Returns the settings of a pattern itself. */
  get(pattern: string): Readonly<Partial<SettingValues>> | undefined {
    return this.#byPattern.get(pattern);
  }

  entries(): IterableIterator<[string, Readonly<Partial<SettingValues>>]> {
    return this.#byPattern.entries();
  }

  hasRoomFor(pattern: string): boolean {
    if (this.#byPattern.has(pattern)) return true;
    const names = this.#byPattern.size - this.#patterns;
    return isWide(pattern) ? this.#patterns < PATTERNS_MAX : names < NAMES_MAX;
  }

  /** Replaces all settings of a pattern; no values remove it. */
  set(pattern: string, values: Partial<SettingValues>): void {
    const isNew = !this.#byPattern.has(pattern);
    const isEmpty = Object.keys(values).length === 0;
    if (isEmpty) this.#byPattern.delete(pattern);
    else this.#byPattern.set(pattern, values);
    this.size = this.#byPattern.size;
    this.#byLongest.clear();
    if (isWide(pattern)) this.#count(pattern.length - 1, isNew, isEmpty);
    assert(this.#longestFirst.length <= this.#patterns, "a length is that of a pattern");
  }

  #count(length: number, isNew: boolean, isEmpty: boolean): void {
    if (isEmpty === isNew) return;
    const change = isNew ? 1 : -1;
    this.#patterns += change;
    assert(this.#patterns >= 0, "patterns are counted");
    const count = (this.#lengths.get(length) ?? 0) + change;
    assert(count >= 0, "the patterns of a length are counted");
    if (count === 0) this.#lengths.delete(length);
    else this.#lengths.set(length, count);
    if (count === 0 || (count === 1 && change === 1))
      this.#longestFirst = [...this.#lengths.keys()].sort((a, b) => b - a);
  }

  /** Returns the settings of a tube, or undefined if it has none. */
  policyOf(tube: string): TubePolicy | undefined {
    if (this.#byPattern.size === 0) return undefined;
    if (this.#byPattern.has(tube)) return this.#policyBy([tube, ...this.#prefixesOf(tube)]);
    const patterns = this.#prefixesOf(tube);
    const longest = patterns[0];
    if (longest === undefined) return undefined;
    // Tubes with the same longest pattern have the same other patterns.
    let policy = this.#byLongest.get(longest);
    if (policy === undefined) this.#byLongest.set(longest, (policy = this.#policyBy(patterns)));
    return policy;
  }

  /** Combines the settings of known patterns; earlier ones win. */
  #policyBy(patterns: readonly string[]): TubePolicy {
    const sources = new Map<SettingName, string>();
    const values: SettingValues = { ...NOTHING_SET };
    for (const pattern of patterns) {
      const found = this.#byPattern.get(pattern)!;
      if (CHECKED) assert(found !== undefined, "only patterns with settings are combined");
      for (const name of Object.keys(found) as SettingName[]) {
        if (sources.has(name)) continue;
        sources.set(name, pattern);
        Object.assign(values, { [name]: found[name] });
      }
    }
    return { ...values, sources };
  }

  /** Returns the patterns with `*` that match a tube and have settings, the longest first. */
  #prefixesOf(tube: string): string[] {
    const patterns: string[] = [];
    for (const length of this.#longestFirst) {
      if (length > tube.length) continue;
      const pattern = `${tube.slice(0, length)}*`;
      if (this.#byPattern.has(pattern)) patterns.push(pattern);
    }
    return patterns;
  }
}

/** Returns whether a pattern stands for several tubes. No tube name contains `*`. */
export function isWide(pattern: string): boolean {
  return pattern.endsWith("*");
}

export function matches(pattern: string, tube: string): boolean {
  return isWide(pattern) ? tube.startsWith(pattern.slice(0, -1)) : pattern === tube;
}
