// Restoration of the model after a restart: settings, keys and jobs of the log.

import { WAITS_UNTIL_MS } from "../../../src/engine/state/batch-table.ts";
import { KeyState } from "../../../src/protocol/job-attribute.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import type { ModelFlows } from "./flows/model-flows.ts";
import { AT_HOME, isLimited, NOTHING_SAID } from "./job-order.ts";
import { type KeptKey, type KeptPolicy, shifted } from "./kept-policy.ts";
import { type JobPolicy, type ModelKey, NO_POLICY } from "./model-policies.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { KeptJob } from "./model-types.ts";
import type { TubeRegistry } from "./tube-registry.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly registry: TubeRegistry;
  readonly queues: ModelQueues;
  readonly flows: ModelFlows;
}

export class ModelRestart {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** Restores what was set for a pattern before the restart. */
  restoreSetting(pattern: string, values: Readonly<Partial<SettingValues>>): void {
    for (const [shard, settings] of this.#model.settings.entries())
      if (pattern.endsWith("*") || this.#model.registry.tubeShard(pattern) === shard)
        settings.set(pattern, values);
  }

  /** Ends the restoration of settings, before any job. */
  endSettings(): void {
    const tube = this.#model.registry.tube("default");
    tube.resolved = this.#model.settings[tube.shard]!.resolve(tube.name);
    tube.bucket = this.#model.registry.bucketOf(tube.name, tube.resolved);
    tube.wasLimited = isLimited(tube.resolved);
  }

  /** Restores a key whose job is gone, or has left the tube; `started` is for its record. */
  restoreKey({ id, job, tube, key, untilMs }: KeptKey, started: RecordStart): void {
    const names = job === 0 ? { id, record: 0, hasLeft: false } : { id: job, record: id, hasLeft: true };
    this.#model.keys.push({ tube, key, ...names, isHeld: false, untilMs: sinceStart(untilMs, started) });
  }

  /**
   * All jobs are back: groups begin anew, and weigh what the youngest job says that was put into
   * them.
   */
  endRestore(): void {
    this.#settleLeft();
    // The time of a key that a job was given out with may be over, without a record, and another
    // job have it or have had it since.
    const isPassed = (key: ModelKey): boolean =>
      this.#model.keys.some(
        ({ tube, key: name, isHeld, untilMs }) =>
          tube === key.tube && name === key.key && (isHeld || untilMs > key.untilMs),
      );
    this.#model.keys = this.#model.keys.filter((key) => key.isHeld || !isPassed(key));
    for (const job of [...this.#model.jobs.values()].sort((a, b) => a.id - b.id))
      this.#model.queues.joinGroup(job, !job.policy.hasMoved);
    for (const job of this.#model.jobs.values()) if (job.state === "ready") job.tube.groups?.becameReady(job);
  }

  /**
   * A key's own record states the time of a key that its job holds, unless the job's does. If the
   * process ended while a job left the tube, both do.
   */
  #settleLeft(): void {
    for (const left of this.#model.keys.filter(({ hasLeft }) => hasLeft)) {
      const others = this.#model.keys.filter((key) => key.tube === left.tube && key.key === left.key);
      const other = others.find((key) => key !== left);
      if (other === undefined) continue;
      const hasPassed = !other.isHeld && other.id !== left.id && other.untilMs < left.untilMs;
      if (hasPassed) continue;
      this.#model.keys = this.#model.keys.filter((key) => key !== left);
      if (other.id !== left.id || other.untilMs > 0) this.#model.orphans.push(left);
      else Object.assign(other, { record: left.record, untilMs: left.untilMs });
    }
  }

  #restoreOwnKey(id: number, { tube, policy: kept }: KeptJob, started: RecordStart): void {
    const { key, keyState, keyUntilMs } = kept;
    if (key === "" || keyState === KeyState.Lost) return;
    const isHeld = keyState !== KeyState.Remembered;
    const untilMs = sinceStart(keyUntilMs, started);
    this.#model.keys.push({ tube, key, id, isHeld, untilMs, hasLeft: false, record: 0 });
  }

  /** Brings a job back after a restart; buried ones in the order of their burial. */
  restore(kept: KeptJob, started: RecordStart): void {
    const { nowMs, putAtMs, logOffsetMs } = started;
    const deadlineAtMs = kept.state === "delayed" ? dueAtMs(kept, started) : 0;
    const [reserves, timeouts, releases, buries, kicks] = kept.counts;
    const { id, pri, delaySeconds, ttrSeconds, body } = kept;
    this.#restoreOwnKey(id, kept, started);
    const policy = restoredPolicy(kept.policy, started);
    this.#model.aheadMs.set(id, Math.max(0, putAtMs - nowMs - logOffsetMs));
    const tube = this.#model.registry.tube(kept.tube);
    this.#model.flows.entered({ policy }, tube.shard);
    this.#model.jobs.set(id, {
      ...{ id, pri, delaySeconds, ttrSeconds, body, reserves, timeouts, releases, buries, kicks },
      ...{ tube, policy },
      ...AT_HOME,
      state: kept.state === "delayed" && deadlineAtMs <= nowMs && policy.after === 0 ? "ready" : kept.state,
      deadlineAtMs: policy.after === 0 ? deadlineAtMs : WAITS_UNTIL_MS,
      holder: undefined,
      buriedAt: kept.state === "buried" ? ++this.#model.burials : 0,
      buriedSince: 0,
      reservedAt: 0,
      readySince: this.#model.event,
      touchedAt: 0,
      ...NOTHING_SAID,
    });
  }
}

/** The start of a process, for a job of the log. */
interface RecordStart {
  readonly nowMs: number;
  /** When the job was put, by the log's clock. */
  readonly putAtMs: number;
  /** The log's clock minus that of the process. */
  readonly logOffsetMs: number;
}

/**
 * Converts a time of the log's clock. If a job is from the future, its clock was ahead, and no time
 * has passed for it.
 */
function toProcess(atMs: number, { nowMs, putAtMs, logOffsetMs }: RecordStart): number {
  return atMs - Math.max(logOffsetMs, putAtMs - nowMs);
}

/** The same of a time that is 0 for never; times before the start of the process have passed. */
function sinceStart(atMs: number, started: RecordStart): number {
  return atMs === 0 ? 0 : Math.max(Number.MIN_VALUE, toProcess(atMs, started));
}

/** Returns the end of a delay. No more of it remains than was recorded, to a second. */
function dueAtMs({ deadlineAtMs, delaySeconds }: KeptJob, started: RecordStart): number {
  const { nowMs, putAtMs } = started;
  const longestMs = Math.min(Math.max(0, deadlineAtMs - putAtMs), delaySeconds * 1000 + 999);
  return Math.min(toProcess(deadlineAtMs, started), nowMs + longestMs);
}

function restoredPolicy(
  { keyState: _, keyUntilMs, expiresAtMs, ...kept }: KeptPolicy,
  started: RecordStart,
): JobPolicy {
  return {
    ...NO_POLICY,
    ...kept,
    cancelled: kept.cancelled === undefined ? undefined : "",
    keyUntilLogMs: keyUntilMs,
    // A job that was to be cancelled was held, so it goes.
    expiresAtMs: kept.cancelled === undefined ? sinceStart(expiresAtMs, started) : Number.MIN_VALUE,
    failures: kept.failures.map((failure) => shifted(failure, toProcess(0, started))),
  };
}
