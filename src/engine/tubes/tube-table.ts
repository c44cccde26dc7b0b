// The tubes of one shard, by name, and by the index that their jobs store.

import { assert } from "../../base/assert.ts";
import type { JobTable } from "../jobs/job-table.ts";
import type { EarliestTime } from "../queues/earliest-time.ts";
import { RateLimiter } from "./rate-limiter.ts";
import { RetiredLimiters } from "./retired-limiters.ts";
import { Tube } from "./tube.ts";
import type { TubeSettings } from "./tube-settings.ts";

export class TubeTable {
  readonly byName: Map<string, Tube> = new Map();
  readonly #byIndex: (Tube | undefined)[] = [];
  readonly #freeIndexes: number[] = [];
  /** Rate limiters of deleted tubes. */
  readonly keptGates: RetiredLimiters;
  readonly #jobs: JobTable;
  readonly #nextSequence: () => number;
  readonly #settings: TubeSettings;

  /**
   * `nextSequence` returns a number greater than all before it on any shard. Keeps `earliest` up to
   * date with the time when a kept bucket is full.
   */
  constructor(jobs: JobTable, nextSequence: () => number, settings: TubeSettings, earliest?: EarliestTime) {
    this.keptGates = new RetiredLimiters(earliest);
    this.#jobs = jobs;
    this.#nextSequence = nextSequence;
    this.#settings = settings;
  }

  /** Returns the tube of this name, created if necessary. */
  open(name: string): Tube {
    const existing = this.byName.get(name);
    if (existing !== undefined) return existing;
    const index = this.#freeIndexes.pop() ?? this.#byIndex.length;
    const sequence = name === "default" ? 0 : this.#nextSequence();
    const tube = new Tube(name, sequence, index, this.#jobs);
    tube.gate = this.keptGates.take(name, this.#settings.policyOf(name));
    this.applySettings(tube, 0);
    this.#byIndex[index] = tube;
    this.byName.set(name, tube);
    return tube;
  }

  /** Applies its current settings to a tube. */
  applySettings(tube: Tube, nowMs: number): Tube {
    tube.policy = this.#settings.policyOf(tube.name);
    if (tube.policy === undefined || !RateLimiter.isNeeded(tube.policy)) tube.gate = undefined;
    else {
      tube.gate ??= new RateLimiter();
      tube.gate.set(tube.policy, nowMs);
    }
    return tube;
  }

  /** Returns the tube with this index. */
  at(index: number): Tube {
    const tube = this.#byIndex[index];
    assert(tube !== undefined, "a tube with a job is there");
    return tube;
  }

  remove(tube: Tube): void {
    assert(this.#byIndex[tube.index] === tube, "a tube is removed once");
    this.byName.delete(tube.name);
    this.#jobs.groups -= tube.groups?.size ?? 0;
    if (tube.gate !== undefined) this.keptGates.keep(tube.name, tube.gate);
    this.#byIndex[tube.index] = undefined;
    this.#freeIndexes.push(tube.index);
  }
}
