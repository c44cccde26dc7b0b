// The ends of jobs that tubes keep, in the model: by tube, the newest first.

import type { FinishedJob, FinishedWord } from "../../../src/engine/jobs/ends.ts";
import type { ModelJob, ModelSession } from "./model-types.ts";

export type FinishedRow = Omit<FinishedJob, "putAtMs">;

/**
 * `count` of these rows are kept. There may be more of the oldest: nothing says in which order
 * jobs have ended at the same moment.
 */
export interface ModelHistory {
  readonly count: number;
  readonly rows: readonly FinishedRow[];
}

interface Model {
  readonly finished: Map<string, ModelHistory>;
  workerName(session: number): string;
}

function pruned(rows: readonly FinishedRow[], count: number): ModelHistory {
  const oldestMs = rows[count - 1]?.endedAtMs ?? Number.POSITIVE_INFINITY;
  return { count, rows: rows.filter(({ endedAtMs }) => endedAtMs >= oldestMs) };
}

/** A tube keeps no more than this from now on. */
export function clipFinished({ finished }: Model, tube: string, kept: number): void {
  const history = finished.get(tube);
  if (history === undefined) return;
  const count = Math.min(kept, history.count);
  if (count === 0) finished.delete(tube);
  else if (count < history.count) finished.set(tube, pruned(history.rows, count));
}

/** Keeps the end of a job that was held by a session until now, or by none. */
export function keepFinished(
  model: Model,
  job: ModelJob,
  {
    state,
    holder,
    reason = job.policy.cancelled ?? "",
  }: { state: FinishedWord; holder: ModelSession | undefined; reason?: string },
  nowMs: number,
): void {
  const { tube, policy, reserves, note, startedAtMs } = job;
  const kept = tube.resolved.values.keepFinished;
  if (kept === 0) return;
  const row: FinishedRow = {
    id: job.id,
    ...{ state, startedAtMs, endedAtMs: nowMs, note, reason },
    attempts: reserves - policy.attemptsBase,
    worker: holder === undefined ? "" : model.workerName(holder.index),
    unique: policy.key,
    group: policy.group,
  };
  const { count, rows } = model.finished.get(tube.name) ?? { count: 0, rows: [] };
  model.finished.set(tube.name, pruned([row, ...rows], Math.min(kept, count + 1)));
}
