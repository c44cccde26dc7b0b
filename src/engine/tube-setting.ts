// Gives the tubes that are there what is set for them by now, some in each step: a pattern may mean a hundred thousand.
//
// The setting itself holds from the beginning on: a tube that is made meanwhile has it, and one that was given it is not
// looked at again. What a tube is given is what holds at that moment, so it does not matter in which order changes of
// several patterns get to it.

import type { Tube } from "./tube.ts";
import { isWide, matches, type TubeSettings } from "./tube-settings.ts";

/** What of an engine it needs. */
export interface SetTubes {
  readonly tubes: ReadonlyMap<string, Tube>;
  readonly settings: TubeSettings;
  findTube(name: string): Tube | undefined;
  /** Gives a tube what is set for it, and its jobs to who waits for them. */
  applySettings(tube: Tube, nowMs: number): void;
}

/** A tube costs so many looks at the name of one that is not meant, and as much more for each length that prefixes have. */
const TUBE_LOOKS = 10;
/** Looks that take as long as it does to change a job. */
const LOOKS_PER_JOB = 5;

export class TubeSetting {
  readonly #engine: SetTubes;
  readonly #pattern: string;
  /** In the order in which they were made; undefined for one name. */
  readonly #tubes: Iterator<Tube> | undefined;
  /** As many as there were, so that new ones can't keep it going. */
  #left: number;

  constructor(engine: SetTubes, pattern: string) {
    this.#engine = engine;
    this.#pattern = pattern;
    this.#tubes = isWide(pattern) ? engine.tubes.values() : undefined;
    this.#left = this.#tubes === undefined ? 1 : engine.tubes.size;
  }

  /** How many jobs could be changed in the time that it takes: an estimate. */
  get work(): number {
    return Math.ceil((this.#left * this.#looksPerTube) / LOOKS_PER_JOB);
  }

  get #looksPerTube(): number {
    return TUBE_LOOKS * (1 + this.#engine.settings.prefixLengths);
  }

  /** Goes on for as long as it takes to change so many jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    const perTube = this.#looksPerTube;
    for (let looks = jobsMax * LOOKS_PER_JOB; looks > 0 && this.#left > 0; looks--) {
      this.#left--;
      const tube = this.#next();
      if (tube === undefined) this.#left = 0;
      else if (matches(this.#pattern, tube.name)) {
        looks -= perTube;
        this.#engine.applySettings(tube, nowMs);
      }
    }
    return this.#left === 0;
  }

  #next(): Tube | undefined {
    if (this.#tubes === undefined) return this.#engine.findTube(this.#pattern);
    const next = this.#tubes.next();
    return next.done === true ? undefined : next.value;
  }
}
