// The facts about a leased job that follow RESERVED: ` <pri> <ttr> <ms left> <age ms> <each
// counter>… <tube>[ meta=<pair>]…`. Only the HTTP thread sees them.

import { assert } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, rowOf } from "../../engine/jobs/job-table.ts";
import { metaOf } from "../../protocol/job-attribute.ts";
import { JOB_COUNTERS, JobCounter } from "../../schema/job.ts";

export function leaseDetails(engine: Engine, slot: number, nowMs: number): Uint8Array {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  assert(page.state[row] === JobState.Reserved, "a leased job is reserved");
  const leftMs = Math.round(page.deadlineAtMs[row]! - nowMs);
  const ageMs = Math.max(0, Math.round(nowMs - page.createdAtMs[row]!));
  const counters = JOB_COUNTERS.map((name) => page.count(row, JobCounter[name])).join(" ");
  const tube = engine.tubeOf(slot).name;
  const pairs = metaOf(engine.policies.attributes.fixedAttributes(slot));
  const meta = pairs.map((pair) => ` meta=${pair}`).join("");
  return asciiBytes(
    ` ${page.pri[row]} ${page.ttrSeconds[row]} ${leftMs} ${ageMs} ${counters} ${tube}${meta}`,
  );
}
