// Which tubes have series of their own: who came first keeps them while it lives, and some minutes longer.
//
// All others are summed as `*`, which no tube can be called. That sum must never fall, or a scraper takes it for a restart: a
// tube that gets series takes only what comes from then on with it, and one that loses them leaves what it had.

import { matchesGlob } from "../../base/glob.ts";
import { TubeField } from "../../message/control.ts";
import type { MetricsRules } from "../queue/service.ts";
import { TUBE_COUNTER_NAMES, TUBE_COUNTERS, type TubeCounter, type TubeEntry } from "../queue/tube-book.ts";

/** How long a tube that is gone keeps its place, ms. */
const KEPT_MS = 5 * 60 * 1000;

type Counters = Record<TubeCounter, number>;

interface Member {
  readonly sequence: number;
  /** What it had when it came: that is in the sum of the others. */
  readonly before: Counters;
  /** What it had when it was last seen. */
  last: Counters;
  seenAtMs: number;
}

export class SeriesSet {
  readonly #rules: MetricsRules;
  readonly #members = new Map<string, Member>();
  /** What those who have left had since they came. */
  readonly #left = zeros();
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
      if (tube !== undefined && tube.get(TubeField.Sequence) === member.sequence) {
        member.last = countersOf(tube);
        member.seenAtMs = nowMs;
      } else if (tube !== undefined || nowMs - member.seenAtMs > KEPT_MS) this.#remove(name, member);
    }
    const room = this.#rules.tubesMax - this.#members.size;
    if (room <= 0 || tubes.size === 0) return;
    const others = [...tubes.values()].filter(({ name }) => !this.#members.has(name));
    others.sort(
      (a, b) => this.#rank(a) - this.#rank(b) || a.get(TubeField.Sequence) - b.get(TubeField.Sequence),
    );
    for (const tube of others.slice(0, room)) {
      const now = countersOf(tube);
      this.#members.set(tube.name, {
        sequence: tube.get(TubeField.Sequence),
        before: now,
        last: now,
        seenAtMs: nowMs,
      });
    }
  }

  #rank({ name }: TubeEntry): number {
    const at = this.#rules.tubes.findIndex((glob) => matchesGlob(glob, name));
    return at < 0 ? this.#rules.tubes.length : at;
  }

  #remove(name: string, { before, last }: Member): void {
    for (const each of TUBE_COUNTER_NAMES) this.#left[each] += last[each] - before[each];
    this.#members.delete(name);
  }

  /** What all tubes without series have done together, from what the whole server has. */
  others(totals: Counters): Counters {
    const sums = { ...totals };
    for (const each of TUBE_COUNTER_NAMES) {
      sums[each] -= this.#left[each];
      for (const { before, last } of this.#members.values()) sums[each] -= last[each] - before[each];
      sums[each] = Math.max(sums[each], this.#told[each]);
    }
    this.#told = sums;
    return sums;
  }
}

function zeros(): Counters {
  return Object.fromEntries(TUBE_COUNTER_NAMES.map((name) => [name, 0])) as Counters;
}

function countersOf(tube: TubeEntry): Counters {
  return Object.fromEntries(
    TUBE_COUNTER_NAMES.map((name) => [name, tube.get(TUBE_COUNTERS[name])]),
  ) as Counters;
}
