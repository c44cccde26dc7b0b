// What is set for tubes: by their names, by prefixes, and for all. A tube has of each setting what its own name
// says, else what the longest prefix says that says something, else what `*` says.

/** What can be set; durations in ms. */
export interface SettingValues {
  maxAttempts: number;
  deadLetter: string;
  backoffMs: number;
  backoffMaxMs: number;
  ttlMs: number;
  /** Whether a job that expires is buried instead of deleted. */
  expireBuries: boolean;
  maxJobs: number;
  maxBytes: number;
  /** Jobs that are given out at the same time at most. */
  maxReserved: number;
  /** Jobs that are given out in so many seconds, "5/60", or "" for any number; and how many of them at once. */
  rate: string;
  burst: number;
  /** Jobs of a group that are given out at the same time at most, and groups. */
  groupMaxReserved: number;
  maxGroups: number;
}
export type SettingName = keyof SettingValues;

/** What holds where nothing is set. */
export const NOTHING_SET: Readonly<SettingValues> = {
  maxAttempts: 0,
  deadLetter: "",
  backoffMs: 0,
  backoffMaxMs: Number.POSITIVE_INFINITY,
  ttlMs: 0,
  expireBuries: false,
  maxJobs: Number.POSITIVE_INFINITY,
  maxBytes: Number.POSITIVE_INFINITY,
  maxReserved: Number.POSITIVE_INFINITY,
  rate: "",
  burst: 1,
  groupMaxReserved: Number.POSITIVE_INFINITY,
  maxGroups: 100_000,
};

/** What is set for one tube, and by which pattern. */
export interface TubePolicy extends Readonly<SettingValues> {
  readonly sources: ReadonlyMap<SettingName, string>;
}

/** Patterns with `*` that a server has at most. */
export const PATTERNS_MAX = 1000;
/** Names of tubes that a shard has settings for at most. */
export const NAMES_MAX = 100_000;

export class TubeSettings {
  /** By name of a tube, or prefix and `*`. */
  readonly #byPattern = new Map<string, Partial<SettingValues>>();
  /** The lengths that prefixes have, with how many have them. */
  readonly #lengths = new Map<number, number>();
  /** The same lengths, longest first. */
  #longestFirst: readonly number[] = [];
  #patterns = 0;
  /** What tubes have that have nothing of their own, by their longest pattern: one for all, however many tubes there are. */
  readonly #byLongest = new Map<string, TubePolicy>();

  get size(): number {
    return this.#byPattern.size;
  }

  /** How many different lengths prefixes have: what it costs to find what is set for a tube. */
  get prefixLengths(): number {
    return this.#longestFirst.length;
  }

  /** What is set for a pattern itself. */
  get(pattern: string): Readonly<Partial<SettingValues>> | undefined {
    return this.#byPattern.get(pattern);
  }

  entries(): IterableIterator<[string, Readonly<Partial<SettingValues>>]> {
    return this.#byPattern.entries();
  }

  /** Whether so many patterns may be there. */
  hasRoomFor(pattern: string): boolean {
    if (this.#byPattern.has(pattern)) return true;
    const names = this.#byPattern.size - this.#patterns;
    return isWide(pattern) ? this.#patterns < PATTERNS_MAX : names < NAMES_MAX;
  }

  /** Sets all that a pattern has; nothing: it is forgotten. */
  set(pattern: string, values: Partial<SettingValues>): void {
    const isNew = !this.#byPattern.has(pattern);
    const isEmpty = Object.keys(values).length === 0;
    if (isEmpty) this.#byPattern.delete(pattern);
    else this.#byPattern.set(pattern, values);
    this.#byLongest.clear();
    if (isWide(pattern)) this.#count(pattern.length - 1, isNew, isEmpty);
  }

  #count(length: number, isNew: boolean, isEmpty: boolean): void {
    const change = isEmpty ? (isNew ? 0 : -1) : isNew ? 1 : 0;
    if (change === 0) return;
    this.#patterns += change;
    const count = (this.#lengths.get(length) ?? 0) + change;
    if (count === 0) this.#lengths.delete(length);
    else this.#lengths.set(length, count);
    if (count === 0 || (count === 1 && change === 1))
      this.#longestFirst = [...this.#lengths.keys()].sort((a, b) => b - a);
  }

  /** What is set for a tube, or undefined if nothing is. */
  policyOf(tube: string): TubePolicy | undefined {
    if (this.#byPattern.size === 0) return undefined;
    if (this.#byPattern.has(tube)) return this.#policyBy([tube, ...this.#prefixesOf(tube)]);
    const patterns = this.#prefixesOf(tube);
    const longest = patterns[0];
    if (longest === undefined) return undefined;
    // Whoever has the same longest one has the same others.
    let policy = this.#byLongest.get(longest);
    if (policy === undefined) this.#byLongest.set(longest, (policy = this.#policyBy(patterns)));
    return policy;
  }

  /** What patterns that are known say together: those that come first win. */
  #policyBy(patterns: readonly string[]): TubePolicy {
    const sources = new Map<SettingName, string>();
    const values: SettingValues = { ...NOTHING_SET };
    for (const pattern of patterns) {
      const found = this.#byPattern.get(pattern)!;
      for (const name of Object.keys(found) as SettingName[]) {
        if (sources.has(name)) continue;
        sources.set(name, pattern);
        Object.assign(values, { [name]: found[name] });
      }
    }
    return { ...values, sources };
  }

  /** The patterns of several tubes that mean a tube and have settings, the longest first. */
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

/** Whether a pattern is for several tubes. `*` is in no tube's name. */
export function isWide(pattern: string): boolean {
  return pattern.endsWith("*");
}

/** Whether a tube's name is one of those that a pattern means. */
export function matches(pattern: string, tube: string): boolean {
  return isWide(pattern) ? tube.startsWith(pattern.slice(0, -1)) : pattern === tube;
}
