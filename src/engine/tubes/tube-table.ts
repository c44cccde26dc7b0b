// The tubes of one shard, by name, and by the index that their jobs store.

import { assert, CHECKED } from "../../base/assert.ts";
import { NOTHING_SET } from "../../schema/setting.ts";
import type { JobTable } from "../jobs/job-table.ts";
import type { EarliestTime } from "../queues/heaps.ts";
import { RetiredLimiters } from "../queues/token-bucket.ts";
import { RateLimiter } from "./rate-limiter.ts";
import { Tube, type TubeMeter } from "./tube.ts";
import { isWide, matches, type TubeSettings } from "./tube-settings.ts";

/** All tubes of a shard, in the order of their creation. */
interface Tubes {
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
  /** Rate limiters of deleted tubes, and buckets of groups without jobs. */
  readonly retiredLimiters: RetiredLimiters;
  readonly retiredBuckets: RetiredLimiters;
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
    this.retiredBuckets = new RetiredLimiters(earliest, NOTHING_SET.maxGroups);
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
    tube.limiter = this.retiredLimiters.take(name, this.#settings.policyOf(name), RateLimiter);
    this.applySettings(tube, 0);
    tube.open = tube.policy?.paused !== "yes";
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

// Applies changed settings to existing tubes in steps, because a pattern may match a hundred
// thousand tubes.
//
// The setting itself applies from the beginning: a tube created meanwhile has it, and this class
// doesn't visit such a tube again. A tube with very many groups takes several steps itself. Each
// tube gets the settings that apply at that moment, so changes of several patterns may reach it in
// any order.

/** The parts of an engine that this class needs. */
interface SetTubes {
  readonly tubes: Tubes;
  readonly settings: TubeSettings;
  readonly jobs: { readonly live: number };
  /** The ends of jobs that tubes keep, which may become too many; their tubes may be gone. */
  readonly policies: {
    readonly finished: { readonly size: number; beginTrim(): void; trim(looks: number): boolean };
  };
  findTube(name: string): Tube | undefined;
  /**
   * Applies its settings to a tube, and to its groups with at most `looks` examinations; then
   * serves waiting clients. Returns how many examinations are left.
   */
  applySettings(tube: Tube, looks: number, nowMs: number): number;
  /**
   * Continues with a tube whose groups don't all match its settings, with at most `looks`
   * examinations; returns how many are left.
   */
  settleGroups(tube: Tube, looks: number, nowMs: number): number;
}

/**
 * Cost of a matching tube in examinations of a name that does not match; each prefix length costs
 * as much again.
 */
const TUBE_LOOKS = 10;
/** Number of examinations that take as long as a change to a job. */
const LOOKS_PER_JOB = 5;

export class SettingChange {
  readonly #engine: SetTubes;
  readonly #pattern: string;
  /** Tubes in order of creation; undefined for a single name. */
  readonly #tubes: Iterator<Tube> | undefined;
  /** Number of tubes at the beginning, so that new ones can't prolong the work. */
  #left: number;
  /** The tube that has its settings, but whose groups don't all have them yet. */
  #settling: Tube | undefined;

  constructor(engine: SetTubes, pattern: string) {
    this.#engine = engine;
    this.#pattern = pattern;
    this.#tubes = isWide(pattern) ? engine.tubes.values() : undefined;
    this.#left = this.#tubes === undefined ? 1 : engine.tubes.size;
    engine.policies.finished.beginTrim();
  }

  /** An estimate of the work, in changes to jobs. */
  get work(): number {
    const { size } = this.#engine.policies.finished;
    return Math.ceil((this.#left * this.#looksPerTube + this.#groupsLeft + size) / LOOKS_PER_JOB);
  }

  /**
   * The maximum number of groups that may have to change: known for a named tube, otherwise at most
   * the number of jobs.
   */
  get #groupsLeft(): number {
    if (this.#tubes !== undefined) return this.#engine.jobs.live;
    return this.#engine.findTube(this.#pattern)?.groups?.size ?? 0;
  }

  get #looksPerTube(): number {
    return TUBE_LOOKS * (1 + this.#engine.settings.prefixLengths);
  }

  /** Continues for as long as it takes to change `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    const perTube = this.#looksPerTube;
    let looks = this.#settle(jobsMax * LOOKS_PER_JOB, nowMs);
    for (; looks > 0 && this.#left > 0; looks--) {
      this.#left--;
      const tube = this.#next();
      if (tube === undefined) this.#left = 0;
      else if (matches(this.#pattern, tube.name)) {
        looks = this.#engine.applySettings(tube, looks - perTube, nowMs);
        this.#noteUnsettled(tube);
      }
    }
    assert(this.#left >= 0, "the tubes that are left are counted");
    return this.#left === 0 && this.#settling === undefined && this.#engine.policies.finished.trim(looks);
  }

  /**
   * Continues with the groups of the current tube; returns how many of the examinations are left.
   */
  #settle(looks: number, nowMs: number): number {
    const tube = this.#settling;
    if (tube === undefined) return looks;
    this.#settling = undefined;
    // The tube may have been deleted with its last job.
    if (this.#engine.findTube(tube.name) !== tube) return looks;
    const left = this.#engine.settleGroups(tube, looks, nowMs);
    assert(left <= looks, "an examination is not given back");
    this.#noteUnsettled(tube);
    return left;
  }

  #noteUnsettled(tube: Tube): void {
    assert(this.#settling === undefined, "one tube is settled at a time");
    if (tube.groups !== undefined && tube.groups.unsettled > 0) this.#settling = tube;
  }

  #next(): Tube | undefined {
    if (this.#tubes === undefined) return this.#engine.findTube(this.#pattern);
    const next = this.#tubes.next();
    return next.done === true ? undefined : next.value;
  }
}
