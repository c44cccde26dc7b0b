// Changes of the model that a log must keep.

import { keptState, waits } from "./job-order.ts";
import { keptPolicy } from "./kept-policy.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelKey } from "./model-policies.ts";
import type { ModelState } from "./model-state.ts";
import type { Kept, KeptJob, ModelJob } from "./model-types.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly uniqueKeys: ModelKeys;
}

export class ModelLog {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  keep(job: ModelJob): void {
    this.#model.changes.push({ id: job.id, job: this.#keptJob(job) });
  }

  #keptJob(job: ModelJob): KeptJob {
    const { id, body, pri, delaySeconds, ttrSeconds, deadlineAtMs } = job;
    // A reservation ends with the process, which is no attempt.
    const policy =
      job.state === "reserved" ? { ...job.policy, attemptsBase: job.policy.attemptsBase + 1 } : job.policy;
    return {
      id,
      tube: job.tube.name,
      body,
      state: keptState(job.state === "moving" ? job.stateBefore : job.state),
      pri,
      delaySeconds,
      ttrSeconds,
      // A job that waits for a batch has none, whatever the log says.
      deadlineAtMs: job.state === "delayed" && !waits(job) ? deadlineAtMs + this.#model.logOffsetMs : 0,
      counts: [job.reserves, job.timeouts, job.releases, job.buries, job.kicks],
      policy: keptPolicy(policy, this.#model.uniqueKeys.keyOf(job), this.#model.logOffsetMs),
    };
  }

  /** Everything that a restart at this moment must bring back, except unrecorded reservations. */
  get kept(): Kept[] {
    const jobs = [...this.#model.jobs.values()];
    const isKept = ({ id, record }: ModelKey): boolean => record > 0 || !this.#model.jobs.has(id);
    return [
      ...jobs.map((job) => this.#keptJob(job)),
      ...[...this.#model.keys.filter(isKept), ...this.#model.orphans].map((key) =>
        this.#model.uniqueKeys.keptKey(key),
      ),
    ];
  }

  /**
   * Returns whether the log is told of each end of a reservation: something is set for the tube, or
   * the job has options.
   */
  hasPolicy({ policy, tube }: ModelJob): boolean {
    const { key, group, weight, cost, meta, expiresAtMs, attemptsBase, reason, leaves } = policy;
    const hasNone = key === "" && group === "" && weight === 1 && cost === 1 && meta === "";
    const isPlain = hasNone && expiresAtMs === 0 && attemptsBase === 0;
    return !isPlain || reason !== "none" || leaves || Object.keys(tube.resolved.sources).length > 0;
  }

  /**
   * Records the end of a job: its record goes, or the remembered key takes its place. `isCounted`:
   * in a record of its own, which counts it for its batch.
   */
  keepEnd(job: ModelJob, isCounted: boolean): void {
    const owned = this.#model.uniqueKeys.keyOf(job);
    const key = owned?.record === 0 ? owned : undefined;
    if (owned !== undefined) owned.hasLeft = owned.record > 0;
    if (isCounted) this.#model.changes.push({ id: job.id, job: undefined });
    if (isCounted && key === undefined) return;
    this.#model.changes.push({
      id: job.id,
      job: key === undefined ? undefined : this.#model.uniqueKeys.keptKey(key),
    });
  }
}
