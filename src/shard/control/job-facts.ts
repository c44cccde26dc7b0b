// The facts about a job, with the beginning of its body.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { ExtraFlag } from "../../engine/jobs/job-extras.ts";
import { JobState, rowOf } from "../../engine/jobs/job-table.ts";
import type { Holder, JobFacts } from "../../message/control.ts";
import { eachJobCounter, JobCounter } from "../../schema/job.ts";
import { failuresOf, LISTED_REASON_BYTES } from "../replies/failure-text.ts";
import { jobOptions } from "../replies/job-options.ts";
import { batchesOf } from "../replies/job-text.ts";

const STATES: Readonly<Record<number, JobFacts["state"]>> = {
  [JobState.Ready]: "ready",
  [JobState.Reserved]: "reserved",
  [JobState.Buried]: "buried",
  [JobState.Delayed]: "delayed",
  [JobState.Moving]: "reserved",
};

/**
 * Returns the facts with at most `bodyMax` bytes of the body, and up to `failuresMax` failures. A
 * negative `bodyMax` omits the body, even an empty one.
 */
export function jobFacts(
  engine: Engine,
  slot: number,
  nowMs: number,
  ports: number,
  bodyMax: number,
  failuresMax: number,
): JobFacts {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  assert(state !== JobState.Free, "facts describe an existing job");
  const atMs = page.deadlineAtMs[row]!;
  const isTimed = state === JobState.Reserved || state === JobState.Delayed;
  const seconds = (ms: number): number => Math.max(0, ms / 1000);
  const bytes = page.bodyBytes[row]!;
  const attempts = page.count(row, JobCounter.reserves) - (page.extras?.attemptsBase[row] ?? 0);
  assert(attempts >= 0, "the number of attempts is not negative");
  return {
    id: page.id[row]!,
    tube: engine.tubeOf(slot).name,
    state: STATES[state]!,
    pri: page.pri[row]!,
    age: seconds(nowMs - page.createdAtMs[row]!),
    delay: page.delaySeconds[row]!,
    ttr: page.ttrSeconds[row]!,
    timeLeft: isTimed && !engine.batches.waits(slot) ? seconds(atMs - nowMs) : 0,
    ...eachJobCounter((_, counter) => page.count(row, counter)),
    attempts,
    origin: engine.policies.attributes.originOf(slot),
    death: (page.extras?.flags[row] ?? 0) & ExtraFlag.Reason,
    failures: failuresOf(engine, slot)
      .slice(0, failuresMax)
      .map(({ atMs, reason, ...failure }) => ({
        ...{ ...failure, age: seconds(nowMs - atMs) },
        reason: failuresMax === 1 ? reason.slice(0, LISTED_REASON_BYTES) : reason,
      })),
    sinceSeconds: isTimed ? undefined : seconds(nowMs - atMs),
    holder: state === JobState.Reserved ? holderOf(page.holder[row]!, ports) : undefined,
    options: jobOptions(engine, slot, nowMs),
    ...batchesOf(engine, slot),
    bytes,
    body: bodyMax < 0 ? undefined : bodyStart(engine, page.body[row]!, Math.min(bytes, bodyMax)),
  };
}

function holderOf(session: number, ports: number): Holder {
  assert(session >= 0, "the holder of a job has a session");
  return { port: session % ports, slot: Math.floor(session / ports) };
}

function bodyStart(engine: Engine, body: number, length: number): Uint8Array {
  assert(length >= 0, "the beginning of a body has a length");
  const start = new Uint8Array(length);
  if (length > 0) engine.bodies.read(body, 0, start, 0, length);
  return start;
}
