// Job options and unique keys that the log keeps: as the model describes them, and as the log's
// records do.

import { latin1 } from "../../../src/base/bytes.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { Attribute, findAttribute, KeyState, wholeAttribute } from "../../../src/protocol/job-attribute.ts";
import { type Failure, readFailures } from "../../../src/protocol/job-failure.ts";
import { type JobPolicy, type ModelKey, REASONS } from "./model-policies.ts";

/** Times are wall clock, 0 for never. */
export interface KeptPolicy {
  readonly key: string;
  readonly untilReserve: boolean;
  readonly keyState: number;
  /** Until when the key is remembered, if it is. */
  readonly keyUntilMs: number;
  readonly group: string;
  readonly weight: number;
  readonly cost: number;
  readonly meta: string;
  readonly expiresAtMs: number;
  readonly attemptsBase: number;
  readonly reason: JobPolicy["reason"];
  readonly origin: string;
  readonly leaves: boolean;
  /** It is in another tube than it was put into, or has been. */
  readonly hasMoved: boolean;
  readonly failures: readonly Failure[];
  readonly disconnects: number;
  readonly batch: number;
  readonly after: number;
  readonly hasEnded: boolean;
  readonly afterAny: boolean;
  readonly isSpared: boolean;
  readonly cancelled: string | undefined;
}

/** A unique key whose job is gone, or has left the tube. */
export interface KeptKey {
  /** The job's, or that of the key's own record. */
  readonly id: number;
  /** The job, if the record is the key's own; else 0. */
  readonly job: number;
  readonly tube: string;
  readonly state: "remembered";
  readonly key: string;
  readonly untilMs: number;
}

/** `owned` is what the job still has of its key, if anything. */
export function keptPolicy(policy: JobPolicy, owned: ModelKey | undefined, logOffsetMs: number): KeptPolicy {
  const { key, untilReserve, group, weight, attemptsBase, reason, origin, leaves, hasMoved } = policy;
  const { batch, after } = policy;
  // A record of its own states the time of a key.
  const isApart = owned !== undefined && owned.record > 0;
  const lasts = owned !== undefined && owned.untilMs > 0 && !isApart;
  const held = lasts ? KeyState.HeldFor : KeyState.Held;
  const remembered = isApart ? KeyState.Lost : KeyState.Remembered;
  const keyState = owned === undefined ? KeyState.Lost : owned.isHeld ? held : remembered;
  return {
    ...{ key, untilReserve, keyState, keyUntilMs: lasts ? policy.keyUntilLogMs : 0, group, weight },
    ...{ cost: policy.cost, meta: policy.meta },
    expiresAtMs: policy.expiresAtMs === 0 ? 0 : policy.expiresAtMs + logOffsetMs,
    ...{ attemptsBase, reason, origin, leaves, hasMoved },
    failures: policy.failures.map((failure) => shifted(failure, logOffsetMs)),
    disconnects: policy.disconnects,
    ...{ batch, after, hasEnded: batch !== 0 && policy.hasEnded, afterAny: after !== 0 && policy.afterAny },
    isSpared: batch !== 0 && policy.isSpared,
    cancelled: policy.cancelled,
  };
}

/** Returns the same failure by another clock. */
export function shifted(failure: Failure, byMs: number): Failure {
  return { ...failure, atMs: failure.atMs + byMs };
}

/** Policy in a record's attributes. */
export function policyInLog(attributes: Uint8Array): KeptPolicy {
  const read = new JobAttributes().read(attributes, 0, attributes.length, 0);
  const { fixed, keyStart, keyEnd, untilReserve, keyState = KeyState.Lost, uniqueUntilMs } = read;
  const groupAt = findAttribute(fixed.bytes, 0, fixed.length, Attribute.Group);
  const metaAt = findAttribute(fixed.bytes, 0, fixed.length, Attribute.Meta);
  const lasts = keyState === KeyState.HeldFor || keyState === KeyState.Remembered;
  return {
    ...{ key: latin1(fixed.bytes, keyStart, keyEnd), untilReserve, keyState },
    keyUntilMs: lasts ? uniqueUntilMs : 0,
    group: groupAt < 0 ? "" : latin1(fixed.bytes, groupAt, groupAt + fixed.bytes[groupAt - 1]!),
    weight: wholeAttribute(fixed.bytes, fixed.length, Attribute.Weight),
    cost: wholeAttribute(fixed.bytes, fixed.length, Attribute.Cost),
    meta: metaAt < 0 ? "" : latin1(fixed.bytes, metaAt, metaAt + fixed.bytes[metaAt - 1]!),
    ...{ expiresAtMs: read.expiresAtMs, attemptsBase: read.attemptsBase, reason: REASONS[read.reason]! },
    origin: Buffer.from(read.origin).toString("latin1"),
    ...{ leaves: read.leaving, hasMoved: read.moved },
    failures: readFailures(read.failures),
    disconnects: read.rareCounters[0]!,
    ...{ batch: read.batch, after: read.after, hasEnded: read.batchHasEnded, afterAny: read.afterAny },
    isSpared: read.batchIsSpared,
    cancelled: read.cancelled === undefined ? undefined : Buffer.from(read.cancelled).toString("latin1"),
  };
}

/** A key that is remembered, as its record has it. */
export function keyInLog(id: number, tube: string, attributes: Uint8Array): KeptKey {
  const { fixed, keyStart, keyEnd, uniqueUntilMs, keyJob } = new JobAttributes().read(
    attributes,
    0,
    attributes.length,
    0,
  );
  return {
    id,
    job: keyJob,
    tube,
    state: "remembered",
    key: latin1(fixed.bytes, keyStart, keyEnd),
    untilMs: uniqueUntilMs,
  };
}
