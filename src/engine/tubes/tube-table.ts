// The tubes of one shard, by name, and by the index that their jobs store.

import { assert, CHECKED } from "../../base/assert.ts";
import type { JobTable } from "../jobs/job-table.ts";
import type { EarliestTime } from "../queues/earliest-time.ts";
import { RateLimiter } from "./rate-limiter.ts";
import { RetiredLimiters } from "./retired-limiters.ts";
import { Tube, type TubeMeter } from "./tube.ts";
import type { TubeSettings } from "./tube-settings.ts";

/** All tubes of a shard, in the order of their creation. */
export interface Tubes {
  readonly size: number;
  get(name: string): Tube | undefined;
  /** Iterators also reach tubes that are created meanwhile. */
  keys(): IteratorObject<string, undefined>;
  values(): IteratorObject<Tube, undefined>;
}

export class TubeTable implements Tubes {
  /**
   * Indexes, not tubes. When V8 rebuilds a Map's table, the old table, with all its contents, keeps
   * the new one alive, and is itself kept alive by its predecessor. Tubes that come and go would
   * thus fill the old generation.
   */
  readonly #indexOf = new Map<string, number>();
  /** Number of tubes; a field, because every put reads it. */
  size = 0;
  readonly #byIndex: (Tube | undefined)[] = [];
  readonly #freeIndexes: number[] = [];
  /** Rate limiters of deleted tubes. */
  readonly retiredLimiters: RetiredLimiters;
  readonly #jobs: JobTable;
  readonly #nextSequence: () => number;
  readonly #settings: TubeSettings;
  readonly #meterOf: ((name: string) => TubeMeter | undefined) | undefined;

  /**
   * `nextSequence` returns a number greater than all before it on any shard. Keeps `earliest` up to
   * date with the time when a kept bucket is full. `meterOf` returns the meter of a new tube.
   */
  constructor(
    jobs: JobTable,
    nextSequence: () => number,
    settings: TubeSettings,
    earliest?: EarliestTime,
    meterOf?: (name: string) => TubeMeter | undefined,
  ) {
    this.retiredLimiters = new RetiredLimiters(earliest);
    this.#jobs = jobs;
    this.#nextSequence = nextSequence;
    this.#settings = settings;
    this.#meterOf = meterOf;
  }

  /** Returns the tube of this name, if it exists. */
  get(name: string): Tube | undefined {
    const index = this.#indexOf.get(name);
    return index === undefined ? undefined : this.#byIndex[index];
  }

  keys(): IteratorObject<string, undefined> {
    return this.#indexOf.keys();
  }

  values(): IteratorObject<Tube, undefined> {
    return this.#indexOf.values().map((index) => this.at(index));
  }

  /** Returns the tube of this name, created if necessary. */
  open(name: string): Tube {
    const existing = this.get(name);
    if (existing !== undefined) return existing;
    const index = this.#freeIndexes.pop() ?? this.#byIndex.length;
    assert(this.#byIndex[index] === undefined, "the index of a new tube is free");
    const sequence = name === "default" ? 0 : this.#nextSequence();
    const tube = new Tube(name, sequence, index, this.#jobs);
    tube.limiter = this.retiredLimiters.take(name, this.#settings.policyOf(name));
    this.applySettings(tube, 0);
    tube.meter = this.#meterOf?.(name);
    this.#byIndex[index] = tube;
    this.#indexOf.set(name, index);
    this.size = this.#indexOf.size;
    return tube;
  }

  /** Applies its current settings to a tube. */
  applySettings(tube: Tube, nowMs: number): Tube {
    tube.policy = this.#settings.policyOf(tube.name);
    if (tube.policy === undefined || !RateLimiter.isNeeded(tube.policy)) tube.limiter = undefined;
    else {
      tube.limiter ??= new RateLimiter();
      tube.limiter.set(tube.policy, nowMs);
    }
    return tube;
  }

  /** Returns the tube with this index. */
  at(index: number): Tube {
    const tube = this.#byIndex[index];
    assert(tube !== undefined, "a tube with a job exists");
    return tube;
  }

  remove(tube: Tube): void {
    assert(this.#byIndex[tube.index] === tube, "a tube is removed once");
    if (CHECKED) assert(this.#indexOf.get(tube.name) === tube.index, "a tube is known by its name");
    this.#indexOf.delete(tube.name);
    this.size = this.#indexOf.size;
    this.#jobs.groups -= tube.groups?.size ?? 0;
    assert(this.#jobs.groups >= 0, "the groups of tubes are counted");
    if (tube.limiter !== undefined) this.retiredLimiters.keep(tube.name, tube.limiter);
    this.#byIndex[tube.index] = undefined;
    this.#freeIndexes.push(tube.index);
  }
}
