// Job options and tube settings of an engine, described like the model's.

import { latin1 } from "../../../src/base/bytes.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { ExtraFlag, FlowFlag, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { NO_HOLDER } from "../../../src/engine/policies/key-table.ts";
import { NO_GROUP } from "../../../src/engine/queues/job-groups.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { Attribute, findAttribute, wholeAttribute } from "../../../src/protocol/job-attribute.ts";
import { readFailures } from "../../../src/protocol/job-failure.ts";
import { JobCounter } from "../../../src/schema/job.ts";
import { NOTHING_SET, type SettingName, type SettingValues } from "../../../src/schema/setting.ts";
import { type JobPolicy, type ModelKey, NO_POLICY, REASONS } from "../model/model-policies.ts";
import type { ModelJob, ModelTube } from "../model/model-types.ts";

/** Policy of a put. */
export function policyOf(attributes: JobAttributes | undefined): JobPolicy {
  if (attributes === undefined) return { ...NO_POLICY };
  const { fixed, keyStart, keyEnd, untilReserve, uniqueUntilMs, expiresAtMs } = attributes;
  return {
    ...NO_POLICY,
    ...{ untilReserve, expiresAtMs, keyUntilMs: uniqueUntilMs },
    key: latin1(fixed.bytes, keyStart, keyEnd),
    group: textOf(fixed.bytes, fixed.length, Attribute.Group),
    meta: textOf(fixed.bytes, fixed.length, Attribute.Meta),
    weight: wholeAttribute(fixed.bytes, fixed.length, Attribute.Weight),
    cost: wholeAttribute(fixed.bytes, fixed.length, Attribute.Cost),
  };
}

function textOf(bytes: Uint8Array, length: number, tag: number): string {
  const at = findAttribute(bytes, 0, length, tag);
  return at < 0 ? "" : latin1(bytes, at, at + bytes[at - 1]!);
}

type Compared = Pick<
  JobPolicy,
  "expiresAtMs" | "attemptsBase" | "reason" | "origin" | "key" | "group" | "cost" | "failures" | "disconnects"
> & {
  /**
   * The batch that it belongs to, whether it has ended or outlives the batch, and the batch that it
   * waits for.
   */
  readonly flows: readonly [batch: number, hasEnded: boolean, isSpared: boolean, after: number];
  /** Present weight of its group. */
  readonly weightOfGroup: number;
  /** Whether it was cancelled, and what its holder has said of it. */
  readonly said: readonly [isCancelled: boolean, progress: number | undefined, note: string];
  /** State of its key: whether it holds it, and until when it is remembered. */
  readonly owned: readonly [isHeld: boolean, untilMs: number] | undefined;
};

/** Present policy of a job. */
export function policyAt(engine: Engine, slot: number): Compared {
  const { extras } = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const fixed = engine.policies.attributes.fixedAttributes(slot);
  return {
    expiresAtMs: extras?.expiresAtMs[row] ?? 0,
    attemptsBase: extras?.attemptsBase[row] ?? 0,
    reason: REASONS[(extras?.flags[row] ?? 0) & ExtraFlag.Reason]!,
    origin: engine.policies.attributes.originOf(slot),
    key: textOf(fixed, fixed.length, Attribute.UniqueKey),
    group: textOf(fixed, fixed.length, Attribute.Group),
    cost: engine.jobs.costOf(slot),
    weightOfGroup: engine.tubeOf(slot).groups?.describe(extras?.groupRow[row] ?? NO_GROUP)?.weight ?? 1,
    owned: ownedAt(engine, extras?.keyRow[row] ?? -1),
    failures: readFailures(engine.policies.failures.of(slot)),
    disconnects: engine.jobs.pageOf(slot).count(row, JobCounter.disconnects),
    flows: flowsAt(engine, slot),
    said: saidAt(engine, slot),
  };
}

function saidAt({ policies }: Engine, slot: number): Compared["said"] {
  const { progress, note } = policies.notes.of(slot);
  return [policies.isCancelled(slot), progress, Buffer.from(note).toString("latin1")];
}

function flowsAt({ batches, jobs }: Engine, slot: number): Compared["flows"] {
  const flows = jobs.pageOf(slot).extras?.flows;
  const row = rowOf(slot);
  if (flows === undefined) return [0, false, false, 0];
  const batch = batches.of(flows.batch[row]!)?.number ?? 0;
  const has = (flag: number): boolean => batch !== 0 && (flows.flags[row]! & flag) !== 0;
  return [batch, has(FlowFlag.Ended), has(FlowFlag.Spared), flows.after[row]!];
}

function ownedAt({ policies }: Engine, keyRow: number): Compared["owned"] {
  const { table } = policies.keys;
  return keyRow < 0 ? undefined : [table.slotOf(keyRow) !== NO_HOLDER, table.untilOf(keyRow)];
}

export const compared = (
  { policy, tube, progress, note }: ModelJob,
  owns: ModelKey | undefined,
  isKnown: (batch: number) => boolean,
): Compared => {
  const { expiresAtMs, attemptsBase, reason, origin, key, group, cost } = policy;
  const { failures, disconnects } = policy;
  const weightOfGroup = tube.groups?.weightOf(group) ?? 1;
  const owned = owns === undefined ? undefined : ([owns.isHeld, owns.untilMs] as const);
  const batch = isKnown(policy.batch) ? policy.batch : 0;
  const isMember = batch !== 0;
  const flows = [batch, isMember && policy.hasEnded, isMember && policy.isSpared, policy.after] as const;
  return {
    ...{ expiresAtMs, attemptsBase, reason, origin, key, group, cost, weightOfGroup, owned },
    ...{ failures, disconnects, flows },
    said: [policy.cancelled !== undefined, progress, note],
  };
};

const COUNTS = ["duplicates", "rejected", "expired", "dead", "cancelled"] as const;

/** Settings of a tube, each with its source, and its counts. */
export function settingsAt({ policy, counts, groups }: Tube): object {
  const sources = [...(policy?.sources ?? [])];
  return {
    settings: Object.fromEntries(sources.map(([name, source]) => [name, [policy![name], source]])),
    counts: [...COUNTS.map((name) => counts[name]), counts.movedIn, counts.movedOut],
    groups: [groups?.size ?? 0, hasRate(policy) ? "by time" : (groups?.blocked ?? 0)],
  };
}

/** Returns whether time unblocks groups of a tube. */
const hasRate = (values: Readonly<SettingValues> = NOTHING_SET): boolean => values.groupRate !== "";

export function settingsOf({
  resolved: { values, sources },
  counts,
  groups,
  movedIn,
  movedOut,
}: ModelTube): object {
  const names = Object.keys(sources) as SettingName[];
  return {
    settings: Object.fromEntries(names.map((name) => [name, [values[name], sources[name]]])),
    counts: [...COUNTS.map((name) => counts[name]), movedIn, movedOut],
    groups: [groups?.count ?? 0, hasRate(values) ? "by time" : (groups?.blocked(0) ?? 0)],
  };
}
