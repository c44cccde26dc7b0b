// Gives the tubes that are there what is set for them by now, some in each step: a pattern may mean a hundred thousand.
//
// The setting itself holds from the beginning on: a tube that is made meanwhile has it, and one that was given it is not
// looked at again. A tube with very many groups takes several steps itself. What a tube is given is what holds at that moment, so it does not matter in which order changes of
// several patterns get to it.

import type { Tube } from "./tube.ts";
import { isWide, matches, type TubeSettings } from "./tube-settings.ts";

/** What of an engine it needs. */
export interface SetTubes {
  readonly tubes: ReadonlyMap<string, Tube>;
  readonly settings: TubeSettings;
  readonly jobs: { readonly live: number };
  findTube(name: string): Tube | undefined;
  /**
   * Gives a tube what is set for it, its groups for so many looks, and its jobs to who waits for them. Returns how many of the
   * looks are left.
   */
  applySettings(tube: Tube, looks: number, nowMs: number): number;
  /** Goes on with a tube whose groups are not all as it says, for so many looks; returns how many are left of them. */
  settleGroups(tube: Tube, looks: number, nowMs: number): number;
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
  /** Was given what is set for it, but its groups have not all come to it. */
  #settling: Tube | undefined;

  constructor(engine: SetTubes, pattern: string) {
    this.#engine = engine;
    this.#pattern = pattern;
    this.#tubes = isWide(pattern) ? engine.tubes.values() : undefined;
    this.#left = this.#tubes === undefined ? 1 : engine.tubes.size;
  }

  /** How many jobs could be changed in the time that it takes: an estimate. */
  get work(): number {
    return Math.ceil((this.#left * this.#looksPerTube + this.#groupsLeft) / LOOKS_PER_JOB);
  }

  /** Groups that may have to change: not more than there are jobs, and known of a tube that is named. */
  get #groupsLeft(): number {
    if (this.#tubes !== undefined) return this.#engine.jobs.live;
    return this.#engine.findTube(this.#pattern)?.groups?.size ?? 0;
  }

  get #looksPerTube(): number {
    return TUBE_LOOKS * (1 + this.#engine.settings.prefixLengths);
  }

  /** Goes on for as long as it takes to change so many jobs; returns whether that was all. */
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
    return this.#left === 0 && this.#settling === undefined;
  }

  /** Goes on with the groups of the present tube; returns what is left of so many looks. */
  #settle(looks: number, nowMs: number): number {
    const tube = this.#settling;
    if (tube === undefined) return looks;
    this.#settling = undefined;
    // It may have gone with its last job.
    if (this.#engine.findTube(tube.name) !== tube) return looks;
    const left = this.#engine.settleGroups(tube, looks, nowMs);
    this.#noteUnsettled(tube);
    return left;
  }

  #noteUnsettled(tube: Tube): void {
    if (tube.groups !== undefined && tube.groups.unsettled > 0) this.#settling = tube;
  }

  #next(): Tube | undefined {
    if (this.#tubes === undefined) return this.#engine.findTube(this.#pattern);
    const next = this.#tubes.next();
    return next.done === true ? undefined : next.value;
  }
}
