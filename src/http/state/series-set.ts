// Selection of the tubes with metric series of their own: the first tubes keep theirs while they
// live, and some minutes longer.
//
// All other tubes are summed up as `*`, which is not a valid tube name. That sum must never fall,
// or Prometheus would mistake it for a restart. So when a tube of the sum gets series of its own,
// its earlier counts stay in the sum and its series begin at 0; all series together still equal the
// server's totals. The counts of ended series are added to no other series: the sum would rise as
// if the work were done again.

import { matchesGlob } from "../../base/glob.ts";
import { TubeField } from "../../message/control.ts";
import { TUBE_COUNTER_NAMES, TUBE_COUNTERS, type TubeCounter, type TubeEntry } from "./tube-cache.ts";

/** Time for which a deleted tube keeps its place, ms. */
const KEPT_MS = 5 * 60 * 1000;

export interface MetricsRules {
  /** Maximum of tubes with series of their own. */
  readonly tubesMax: number;
  /** Globs of tubes that take precedence. */
  readonly tubes: readonly string[];
}

type Counters = Record<TubeCounter, number>;

interface Member {
  sequence: number;
  /** Value of the series when this tube replaced an earlier one of the same name. */
  base: Counters;
  /** Counts before the tube was admitted, which are part of the sum. */
  before: Counters;
  /** Counts when the tube was last seen. */
  last: Counters;
  seenAtMs: number;
}

export class SeriesSet {
  readonly #rules: MetricsRules;
  readonly #members = new Map<string, Member>();
  /** Counts of removed members since their admission. */
  readonly #left = zeros();
  /** Highest sequence in the last table. A younger tube was never part of the sum. */
  #newest = Number.NEGATIVE_INFINITY;
  /** Last reported sums of the other tubes. */
  #reported = zeros();

  constructor(rules: MetricsRules) {
    this.#rules = rules;
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** Applies a new table of tubes. */
  renew(tubes: ReadonlyMap<string, TubeEntry>, nowMs: number): void {
    for (const [name, member] of this.#members) {
      const tube = tubes.get(name);
      if (tube !== undefined) {
        if (tube.get(TubeField.Sequence) !== member.sequence) takeOver(member, tube);
        member.last = countersOf(tube);
        member.seenAtMs = nowMs;
      } else if (nowMs - member.seenAtMs > KEPT_MS) this.#remove(name, member);
    }
    this.#admit(tubes, nowMs);
    for (const tube of tubes.values()) this.#newest = Math.max(this.#newest, tube.get(TubeField.Sequence));
  }

  /** Admits as many other tubes as there is room for. */
  #admit(tubes: ReadonlyMap<string, TubeEntry>, nowMs: number): void {
    const room = this.#rules.tubesMax - this.#members.size;
    if (room <= 0 || tubes.size === 0) return;
    const others = [...tubes.values()].filter(({ name }) => !this.#members.has(name));
    others.sort(
      (a, b) => this.#rank(a) - this.#rank(b) || a.get(TubeField.Sequence) - b.get(TubeField.Sequence),
    );
    for (const tube of others.slice(0, room)) {
      const sequence = tube.get(TubeField.Sequence);
      const last = countersOf(tube);
      this.#members.set(tube.name, {
        sequence,
        base: zeros(),
        before: sequence > this.#newest ? zeros() : last,
        last,
        seenAtMs: nowMs,
      });
    }
  }

  #rank({ name }: TubeEntry): number {
    const at = this.#rules.tubes.findIndex((glob) => matchesGlob(glob, name));
    return at < 0 ? this.#rules.tubes.length : at;
  }

  #remove(name: string, member: Member): void {
    for (const each of TUBE_COUNTER_NAMES) this.#left[each] += reportedOf(member, each);
    this.#members.delete(name);
  }

  /**
   * Returns the counters of all tubes with series, including deleted tubes that keep their place.
   */
  own(): Map<string, Counters> {
    return new Map(Array.from(this.#members, ([name, member]) => [name, reportedOfAll(member)]));
  }

  /**
   * Returns the counters of all tubes without series. `totals` must be older than the table of
   * tubes: counts in newer totals that the table lacks would appear here, and later again in their
   * tube's series. Without totals, it returns the last result.
   */
  others(totals: Counters | undefined): Counters {
    if (totals === undefined) return this.#reported;
    const sums = { ...totals };
    for (const each of TUBE_COUNTER_NAMES) {
      sums[each] -= this.#left[each];
      for (const member of this.#members.values()) sums[each] -= reportedOf(member, each);
      sums[each] = Math.max(sums[each], this.#reported[each]);
    }
    this.#reported = sums;
    return sums;
  }
}

/** Returns the value of a tube's series. */
const reportedOf = ({ base, before, last }: Member, counter: TubeCounter): number =>
  base[counter] + last[counter] - before[counter];

const reportedOfAll = (member: Member): Counters =>
  Object.fromEntries(TUBE_COUNTER_NAMES.map((name) => [name, reportedOf(member, name)])) as Counters;

/**
 * Continues a series for a tube that was created again. No other series contains the new tube's
 * counts.
 */
function takeOver(member: Member, tube: TubeEntry): void {
  member.base = reportedOfAll(member);
  member.before = zeros();
  member.sequence = tube.get(TubeField.Sequence);
}

function zeros(): Counters {
  return Object.fromEntries(TUBE_COUNTER_NAMES.map((name) => [name, 0])) as Counters;
}

function countersOf(tube: TubeEntry): Counters {
  return Object.fromEntries(
    TUBE_COUNTER_NAMES.map((name) => [name, tube.get(TUBE_COUNTERS[name])]),
  ) as Counters;
}
