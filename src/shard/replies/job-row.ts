// A job as a row of a list: JSON, which is also valid YAML.

import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, rowOf } from "../../engine/jobs/job-table.ts";
import { failureFields } from "./failure-text.ts";
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
    `,"reserves":${page.reserves[row]},"timeouts":${page.timeouts[row]},"releases":${page.releases[row]}` +
    `,"buries":${page.buries[row]},"kicks":${page.kicks[row]},"bytes":${page.bodyBytes[row]}${failureFields(engine, slot, nowMs)}${shown}}`
  );
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
