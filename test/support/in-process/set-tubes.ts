// Settings of tubes, without a shard.

import type { Engine } from "../../../src/engine/engine.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";

/** Replaces all settings of a tube or pattern, for existing tubes too, in one step. */
export function setTubes(
  engine: Engine,
  pattern: string,
  values: Partial<SettingValues>,
  nowMs: number,
): void {
  engine.beginSetting(pattern, values).step(Number.POSITIVE_INFINITY, nowMs);
}
