// Job options and tube settings in the model: plain fields, without any index.

import type { Failure } from "../../../src/protocol/job-failure.ts";
import type { SettingName, SettingValues } from "../../../src/schema/setting.ts";
import { NOTHING_SET } from "../../../src/schema/setting.ts";

/** By OnDuplicate. */
export const ON_DUPLICATE = ["refuse", "keep", "replace", "escalate", "debounce"] as const;
export type OnDuplicateWord = (typeof ON_DUPLICATE)[number];

/** Options of a put-in-tube; durations in ms, 0 for none. */
export interface PutOptions {
  readonly key: string;
  readonly keyForMs: number;
  readonly untilReserve: boolean;
  readonly ttlMs: number;
  readonly group: string;
  readonly weight: number;
  readonly cost: number;
  readonly onDuplicate: OnDuplicateWord;
  /** Names of batches, or "". */
  readonly batch: string;
  readonly after: string;
  readonly afterAny: boolean;
}

export const NO_OPTIONS: PutOptions = {
  key: "",
  keyForMs: 0,
  untilReserve: false,
  ttlMs: 0,
  group: "",
  weight: 1,
  cost: 1,
  onDuplicate: "refuse",
  ...{ batch: "", after: "", afterAny: false },
};

/** Policy of a job; times in ms, 0 for never. */
export interface JobPolicy {
  readonly key: string;
  untilReserve: boolean;
  keyUntilMs: number;
  /** The same by the wall clock, as its put was logged. */
  keyUntilLogMs: number;
  readonly group: string;
  weight: number;
  cost: number;
  /** The context that a schedule gives its jobs, or "". */
  meta: string;
  expiresAtMs: number;
  attemptsBase: number;
  reason: "none" | "attempts" | "expired";
  /** The tube that it died in. */
  origin: string;
  /** It has died and has to go to another shard. */
  leaves: boolean;
  /** Why it was cancelled while a client held it. */
  cancelled: string | undefined;
  /** It has been moved to another tube, once. */
  hasMoved: boolean;
  /** The last five, newest first. */
  failures: readonly Failure[];
  /** Reservations that ended with the connection of their worker. */
  disconnects: number;
  /** Numbers of the batch that it belongs to and of the one that it waits for, 0 for none. */
  batch: number;
  after: number;
  /** It has died as a member; it waits for any outcome. */
  hasEnded: boolean;
  /** It outlives the cancellation of its batch. */
  isSpared: boolean;
  afterAny: boolean;
}

export const NO_POLICY: JobPolicy = {
  ...{ key: "", untilReserve: false, keyUntilMs: 0, keyUntilLogMs: 0, group: "", weight: 1 },
  cost: 1,
  ...{ expiresAtMs: 0, attemptsBase: 0, reason: "none", origin: "", leaves: false, hasMoved: false },
  ...{ meta: "", failures: [], disconnects: 0, batch: 0, after: 0, hasEnded: false, afterAny: false },
  isSpared: false,
  cancelled: undefined,
};

/** By DeathReason. */
export const REASONS: readonly JobPolicy["reason"][] = ["none", "attempts", "expired"];

/** A key of a tube: a job has it, or it is remembered. */
export interface ModelKey {
  readonly tube: string;
  readonly key: string;
  readonly id: number;
  isHeld: boolean;
  untilMs: number;
  /** The job has left the tube. */
  hasLeft: boolean;
  /** The id of the key's own record, or 0. */
  record: number;
}

export interface TubeCounts {
  duplicates: number;
  rejected: number;
  expired: number;
  dead: number;
  cancelled: number;
}

/** Values that hold for a tube, and the patterns that set them. */
export interface Resolved {
  readonly values: Readonly<SettingValues>;
  readonly sources: Readonly<Partial<Record<SettingName, string>>>;
}

/** Settings of one shard. */
export class ModelSettings {
  readonly byPattern = new Map<string, Partial<SettingValues>>();

  set(pattern: string, values: Readonly<Partial<SettingValues>>): void {
    if (Object.keys(values).length === 0) this.byPattern.delete(pattern);
    else this.byPattern.set(pattern, { ...values });
  }

  /** For each setting: the tube's own value, else that of the longest prefix with one. */
  resolve(tube: string): Resolved {
    const values: Record<string, unknown> = { ...NOTHING_SET };
    const sources: Partial<Record<SettingName, string>> = {};
    const means = (pattern: string): boolean =>
      pattern.endsWith("*") ? tube.startsWith(pattern.slice(0, -1)) : pattern === tube;
    const rank = (pattern: string): number => (pattern === tube ? 1000 : pattern.length);
    const patterns = [...this.byPattern.keys()].filter(means).sort((a, b) => rank(a) - rank(b));
    for (const pattern of patterns)
      for (const [name, value] of Object.entries(this.byPattern.get(pattern)!)) {
        values[name] = value;
        sources[name as SettingName] = pattern;
      }
    return { values: values as unknown as SettingValues, sources };
  }
}
