// The options that a job was put with: its expiry, unique key, group and weight.

import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import { rowOf } from "../../engine/jobs/job-table.ts";
import type { JobOptions, Where } from "../../message/control.ts";
import { Attribute, findAttribute, metaOf } from "../../protocol/job-attribute.ts";

/** Returns the options, or undefined for a job without any. */
export function jobOptions(engine: Engine, slot: number, nowMs: number): JobOptions | undefined {
  const { extras } = engine.jobs.pageOf(slot);
  if (extras === undefined) return undefined;
  const expiresAtMs = extras.expiresAtMs[rowOf(slot)]!;
  const fixed = engine.policies.attributes.fixedAttributes(slot);
  if (expiresAtMs === 0 && fixed.length === 0) return undefined;
  const weightAt = findAttribute(fixed, 0, fixed.length, Attribute.Weight);
  return {
    expiresIn: expiresAtMs === 0 ? undefined : Math.max(0, expiresAtMs - nowMs) / 1000,
    unique: textOf(fixed, Attribute.UniqueKey),
    group: textOf(fixed, Attribute.Group),
    weight: weightAt < 0 ? 1 : fixed[weightAt]! + 256 * fixed[weightAt + 1]!,
    meta: metaOf(fixed),
  };
}

/** Returns whether a job has the group and the unique key of a filter. */
export function hasKeys(engine: Engine, slot: number, { group, unique }: Where): boolean {
  if (group === undefined && unique === undefined) return true;
  if (engine.jobs.pageOf(slot).extras === undefined) return false;
  const fixed = engine.policies.attributes.fixedAttributes(slot);
  return (
    (group === undefined || textOf(fixed, Attribute.Group) === group) &&
    (unique === undefined || textOf(fixed, Attribute.UniqueKey) === unique)
  );
}

function textOf(fixed: Uint8Array, tag: Attribute): string | undefined {
  const at = findAttribute(fixed, 0, fixed.length, tag);
  return at < 0 ? undefined : latin1(fixed, at, at + fixed[at - 1]!);
}
