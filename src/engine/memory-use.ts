// The memory that clients make a shard keep, as --max-memory counts it. README.md lists everything
// that clients can make grow.
//
// The figure falls whenever something is removed, unlike the memory taken from the system. Each put
// computes it, at the cost of a few reads.

import type { BodyArena } from "./jobs/body-arena.ts";
import type { JobTable } from "./jobs/job-table.ts";
import type { Policies } from "./policies/policies.ts";
import type { TubeSettings } from "./tubes/tube-settings.ts";
import type { TubeTable } from "./tubes/tube-table.ts";
import type { Waiters } from "./waiting/waiters.ts";

/** Measured sizes in bytes, rounded up, with names of tubes and groups of about 30 bytes. */
export const BYTES_OF = {
  /** The job's row, index entry and heap position. Body and attributes are in the arena. */
  job: 112,
  /** The job's row in a page where some jobs have attributes. */
  extras: 36,
  tube: 512,
  watch: 256,
  group: 320,
  /** The key's row and entry. The key itself is in the arena. */
  key: 64,
  keptGate: 200,
  setting: 256,
} as const;

/** Maximum bytes that one more put may add, besides its body. */
export const PUT_BYTES: number =
  BYTES_OF.job + BYTES_OF.extras + BYTES_OF.tube + BYTES_OF.group + BYTES_OF.key;

/** The parts of an engine that clients can make grow. */
export interface Grown {
  readonly bodies: BodyArena;
  readonly jobs: JobTable;
  readonly tubes: TubeTable;
  readonly waiters: Waiters;
  readonly policies: Policies;
  readonly settings: TubeSettings;
}

export function memoryUse({ bodies, jobs, tubes, waiters, policies, settings }: Grown): number {
  return (
    bodies.usedBytes +
    jobs.live * BYTES_OF.job +
    jobs.extraRows * BYTES_OF.extras +
    tubes.size * BYTES_OF.tube +
    tubes.keptGates.size * BYTES_OF.keptGate +
    jobs.groups * BYTES_OF.group +
    waiters.watches * BYTES_OF.watch +
    policies.keys.table.size * BYTES_OF.key +
    settings.size * BYTES_OF.setting
  );
}
