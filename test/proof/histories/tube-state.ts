// State of one tube in the model: a value that never changes, with a key that is the same for the
// same state.

import type { JobState } from "./operation.ts";

export interface ModelJob {
  readonly id: number;
  readonly pri: number;
  readonly body: string;
  readonly state: JobState;
  /** The client that reserved it, else 0. */
  readonly holder: number;
  /** Timer that ends its delay or its reservation, else 0. */
  readonly timer: number;
  readonly marginFromUs: number;
  readonly marginToUs: number;
}

/** What an operation of unknown outcome found. */
interface Effect {
  readonly number: number;
  readonly id: number;
  /** The job before it. */
  readonly before: ModelJob | undefined;
  /** Its place among buried jobs, or -1. */
  readonly buriedAt: number;
}

export class TubeState {
  static readonly EMPTY: TubeState = new TubeState([], [], []);
  /** By rising id. */
  readonly jobs: readonly ModelJob[];
  /** Ids in the order in which they were buried. */
  readonly buried: readonly number[];
  /** Those that may be undone. */
  readonly effects: readonly Effect[];
  #key: string | undefined;

  constructor(jobs: readonly ModelJob[], buried: readonly number[], effects: readonly Effect[]) {
    this.jobs = jobs;
    this.buried = buried;
    this.effects = effects;
  }

  get key(): string {
    this.#key ??= `${this.jobs
      .map(({ id, pri, state, holder, timer }) => `${id} ${pri}${state}${holder} ${timer}`)
      .join()};${this.buried.join()};${this.effects.map(({ number, before }) => `${number} ${before?.state}`).join()}`;
    return this.#key;
  }

  find(id: number): ModelJob | undefined {
    return this.jobs.find((job) => job.id === id);
  }

  /** The ready job that is handed out next: the smallest pri, then the smallest id. */
  best(): ModelJob | undefined {
    let best: ModelJob | undefined;
    for (const job of this.jobs)
      if (job.state === "ready" && (best === undefined || job.pri < best.pri)) best = job;
    return best;
  }

  count(state: JobState): number {
    return this.jobs.reduce((sum, job) => sum + (job.state === state ? 1 : 0), 0);
  }

  with(job: ModelJob): TubeState {
    const others = this.jobs.filter(({ id }) => id !== job.id);
    const at = others.findIndex(({ id }) => id > job.id);
    others.splice(at < 0 ? others.length : at, 0, job);
    const buried = this.buried.filter((id) => id !== job.id);
    if (job.state === "buried") buried.push(job.id);
    return new TubeState(others, buried, this.effects);
  }

  without(gone: number): TubeState {
    return new TubeState(
      this.jobs.filter(({ id }) => id !== gone),
      this.buried.filter((id) => id !== gone),
      this.effects,
    );
  }

  /** The state after an operation on this one, which can be undone by this number. */
  noting(number: number, after: TubeState): TubeState {
    const id = [...after.jobs, ...this.jobs].find((job) => after.find(job.id) !== this.find(job.id))?.id;
    if (id === undefined) return after;
    const effect = { number, id, before: this.find(id), buriedAt: this.buried.indexOf(id) };
    return new TubeState(after.jobs, after.buried, [...after.effects, effect]);
  }

  /** What is undone later doesn't bring a timer back that has ended. */
  withoutTimer(timer: number): TubeState {
    if (this.effects.every(({ before }) => before?.timer !== timer)) return this;
    const effects = this.effects.map((effect) =>
      effect.before?.timer === timer ? { ...effect, before: madeReady(effect.before) } : effect,
    );
    return new TubeState(this.jobs, this.buried, effects);
  }

  /** The job is as it was before that effect, but nobody holds it. */
  undone(number: number): TubeState {
    const effect = this.effects.find((each) => each.number === number);
    if (effect === undefined) return this;
    const { id, before, buriedAt } = effect;
    const without = this.without(id);
    const rest = this.effects.filter((each) => each !== effect);
    if (before === undefined) return new TubeState(without.jobs, without.buried, rest);
    const { jobs, buried } = without.with(before.state === "reserved" ? madeReady(before) : before);
    const places = buriedAt < 0 ? buried : without.buried.toSpliced(buriedAt, 0, id);
    return new TubeState(jobs, places, rest);
  }
}

/** The same job, ready, which nobody holds and no timer waits for. */
export function madeReady(job: ModelJob): ModelJob {
  return { ...job, state: "ready", holder: 0, timer: 0, marginFromUs: 0, marginToUs: 0 };
}
