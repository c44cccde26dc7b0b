// The facts about a leased job that follow RESERVED: ` <reserves> <pri> <ttr> <ms left> <age ms>
// <timeouts> <releases> <buries> <kicks> <disconnects> <tube>[ meta=<pair>]…`. Only the HTTP thread
// sees them.

import { assert } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, rowOf } from "../../engine/jobs/job-table.ts";
import { metaOf } from "../../protocol/job-attribute.ts";

export function leaseDetails(engine: Engine, slot: number, nowMs: number): Uint8Array {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  assert(page.state[row] === JobState.Reserved, "a leased job is reserved");
  const leftMs = Math.round(page.deadlineAtMs[row]! - nowMs);
  const ageMs = Math.max(0, Math.round(nowMs - page.createdAtMs[row]!));
  const counts = `${page.timeouts[row]} ${page.releases[row]} ${page.buries[row]} ${page.kicks[row]} ${engine.policies.failures.disconnectsOf(slot)}`;
  const tube = engine.tubeOf(slot).name;
  const pairs = metaOf(engine.policies.attributes.fixedAttributes(slot));
  const meta = pairs.map((pair) => ` meta=${pair}`).join("");
  return asciiBytes(
    ` ${page.reserves[row]} ${page.pri[row]} ${page.ttrSeconds[row]} ${leftMs} ${ageMs} ${counts} ${tube}${meta}`,
  );
}
