// The failures of a job as JSON, which is also valid YAML.

import type { Engine } from "../../engine/engine.ts";
import { type Failure, readFailures } from "../../protocol/job-failure.ts";
import { ageSeconds, escaped } from "./row-values.ts";

/** Maximum bytes of a reason in a list of jobs. */
export const LISTED_REASON_BYTES = 256;

/** Returns the failures of a job, newest first. */
export function failuresOf(engine: Engine, slot: number): readonly Failure[] {
  if (engine.jobs.pageOf(slot).failures === undefined) return [];
  return readFailures(engine.policies.failures.of(slot));
}

/** Returns the failures of a job as an array on one line. */
export const failuresText = (failures: readonly Failure[], nowMs: number): string =>
  `[${failures.map((failure) => failureText(failure, nowMs, failure.reason)).join(",")}]`;

/** Returns the field of a list's row with the last failure, if there is one. */
export function lastFailure(engine: Engine, slot: number, nowMs: number): string {
  const last = failuresOf(engine, slot)[0];
  if (last === undefined) return "";
  return `,"failure":${failureText(last, nowMs, last.reason.slice(0, LISTED_REASON_BYTES))}`;
}

function failureText({ attempt, cause, atMs, worker }: Failure, nowMs: number, reason: string): string {
  const age = ageSeconds(atMs, nowMs);
  return `{"attempt":${attempt},"cause":"${cause}","age":${age},"worker":"${escaped(worker)}","reason":"${escaped(reason)}"}`;
}
