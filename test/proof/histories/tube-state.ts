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

export class TubeState {
  static readonly EMPTY: TubeState = new TubeState([], []);
  /** By rising id. */
  readonly jobs: readonly ModelJob[];
  /** Ids in the order in which they were buried. */
  readonly buried: readonly number[];
  #key: string | undefined;

  constructor(jobs: readonly ModelJob[], buried: readonly number[]) {
    this.jobs = jobs;
    this.buried = buried;
  }

  get key(): string {
    this.#key ??= `${this.jobs
      .map(({ id, pri, state, holder, timer }) => `${id} ${pri}${state}${holder} ${timer}`)
      .join()};${this.buried.join()}`;
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
    return new TubeState(others, job.state === "buried" ? [...buried, job.id] : buried);
  }

  without(gone: number): TubeState {
    return new TubeState(
      this.jobs.filter(({ id }) => id !== gone),
      this.buried.filter((id) => id !== gone),
    );
  }
}

/** The same job, ready, which nobody holds and no timer waits for. */
export function madeReady(job: ModelJob): ModelJob {
  return { ...job, state: "ready", holder: 0, timer: 0, marginFromUs: 0, marginToUs: 0 };
}
