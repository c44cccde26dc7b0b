// A job as a row of a list: JSON, which is also valid YAML.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { type JobPage, JobState, rowOf } from "../../engine/jobs/job-table.ts";
import { FIXED_COUNTERS, JOB_COUNTERS, JobCounter } from "../../schema/job.ts";
import { lastFailure } from "./failure-text.ts";
import { isTimed, STATE_NAMES } from "./job-text.ts";
import { ageSeconds, escaped, secondsLeft } from "./row-values.ts";

/**
 * Returns the row of a job. It has up to `showBytes` bytes of the body if that is not 0, and the
 * tube if `namesTube` is set.
 */
export function jobRow(
  engine: Engine,
  slot: number,
  nowMs: number,
  showBytes: number,
  namesTube = false,
): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  assert(state !== JobState.Free, "only an existing job is listed");
  const timed = isTimed(engine, slot);
  const shown = showBytes === 0 ? "" : `,"body":"${bodyText(engine, slot, showBytes)}"`;
  return (
    `{"id":${page.id[row]},${namesTube ? `"tube":"${engine.tubeOf(slot).name}",` : ""}"state":"${STATE_NAMES[state]}","pri":${page.pri[row]}` +
    `,"age":${ageSeconds(page.createdAtMs[row]!, nowMs)},"delay":${page.delaySeconds[row]}` +
    `,"ttr":${page.ttrSeconds[row]},"time-left":${timed ? secondsLeft(page.deadlineAtMs[row]!, nowMs) : 0}` +
    `${counterFields(page, row, 0, FIXED_COUNTERS)},"bytes":${page.bodyBytes[row]}` +
    `${counterFields(page, row, FIXED_COUNTERS)}${lastFailure(engine, slot, nowMs)}${shown}}`
  );
}

/** Returns the counters from one position on. Few jobs have rare ones: these show unless 0. */
function counterFields(page: JobPage, row: number, from: number, to?: number): string {
  let fields = "";
  for (const name of JOB_COUNTERS.slice(from, to)) {
    const count = page.count(row, JobCounter[name]);
    if (count > 0 || from < FIXED_COUNTERS) fields += `,"${name}":${count}`;
  }
  return fields;
}

/**
 * Returns the first bytes of a body, one character per byte. Bytes outside printable ASCII are
 * escaped.
 */
function bodyText(engine: Engine, slot: number, showBytes: number): string {
  assert(showBytes > 0, "the shown part of a body is not empty");
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const bytes = new Uint8Array(Math.min(showBytes, page.bodyBytes[row]!));
  engine.bodies.read(page.body[row]!, 0, bytes, 0, bytes.length);
  return escaped(latin1(bytes, 0, bytes.length));
}
