// Which tubes have series of their own: who came first keeps them while it lives, and some minutes longer.
//
// All others are summed as `*`, which no tube can be called. That sum must never fall, or a scraper takes it for a restart. So a tube
// that was in it, and gets series, leaves there what it did before and begins at 0; all series together are what the server did.
// What a series had that has ended is in no other one: the sum would rise by it, as if it were done again.

import { matchesGlob } from "../../base/glob.ts";
import { TubeField } from "../../message/control.ts";
import type { MetricsRules } from "../queue/service.ts";
import { TUBE_COUNTER_NAMES, TUBE_COUNTERS, type TubeCounter, type TubeEntry } from "../state/tube-cache.ts";

/** How long a tube that is gone keeps its place, ms. */
const KEPT_MS = 5 * 60 * 1000;

type Counters = Record<TubeCounter, number>;

interface Member {
  sequence: number;
  /** What its series had when this tube took the place of one of the same name. */
  base: Counters;
  /** What it had when it came: that is in the sum of the others. */
  before: Counters;
  /** What it had when it was last seen. */
  last: Counters;
  seenAtMs: number;
}

export class SeriesSet {
  readonly #rules: MetricsRules;
  readonly #members = new Map<string, Member>();
  /** What those who have left had since they came. */
  readonly #left = zeros();
  /** The highest sequence of the last table: what a younger tube did was never in the sum of the others. */
  #newest = Number.NEGATIVE_INFINITY;
  /** The sums of the others as they were told last. */
  #told = zeros();

  constructor(rules: MetricsRules) {
    this.#rules = rules;
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** Takes a new table of tubes. */
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

  /** Gives series to as many of the others as there is room for. */
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
    for (const each of TUBE_COUNTER_NAMES) this.#left[each] += toldOf(member, each);
    this.#members.delete(name);
  }

  /** The counters of all series but the sum, by their tubes; also of tubes that are gone, as long as they keep their place. */
  own(): Map<string, Counters> {
    return new Map(Array.from(this.#members, ([name, member]) => [name, toldOfAll(member)]));
  }

  /**
   * What all tubes without series have done together, from what the whole server had before the table of tubes was made: what is in
   * newer totals, and not yet in the table, would be counted here and later for its tube. Without totals it is as it was.
   */
  others(totals: Counters | undefined): Counters {
    if (totals === undefined) return this.#told;
    const sums = { ...totals };
    for (const each of TUBE_COUNTER_NAMES) {
      sums[each] -= this.#left[each];
      for (const member of this.#members.values()) sums[each] -= toldOf(member, each);
      sums[each] = Math.max(sums[each], this.#told[each]);
    }
    this.#told = sums;
    return sums;
  }
}

/** What the series of a tube says. */
const toldOf = ({ base, before, last }: Member, counter: TubeCounter): number =>
  base[counter] + last[counter] - before[counter];

const toldOfAll = (member: Member): Counters =>
  Object.fromEntries(TUBE_COUNTER_NAMES.map((name) => [name, toldOf(member, name)])) as Counters;

/** The tube was made again: nobody else counted what it did, and its series goes on from where it was. */
function takeOver(member: Member, tube: TubeEntry): void {
  member.base = toldOfAll(member);
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
