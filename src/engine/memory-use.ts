// What clients make a shard keep, in bytes: what --max-memory counts. README.md lists everything that clients can make grow.
//
// A figure that goes down with each thing that goes, so not what was taken from the system. Each put adds it up: it costs a
// few reads.

import type { BodyArena } from "./jobs/body-arena.ts";
import type { JobTable } from "./jobs/job-table.ts";
import type { Policies } from "./policies/policies.ts";
import type { TubeSettings } from "./tubes/tube-settings.ts";
import type { TubeTable } from "./tubes/tube-table.ts";
import type { Waiters } from "./waiting/waiters.ts";

/** What each takes, as measured, rounded up; names of tubes and of groups have some 30 bytes. */
export const BYTES_OF = {
  /** Its row, its entry of the index, its place in a heap. Its body and its attributes are in the arena. */
  job: 112,
  /** The row of a job in a page where some have attributes. */
  extras: 36,
  tube: 512,
  watch: 256,
  group: 320,
  /** Its row and its entry. The key is in the arena. */
  key: 64,
  keptGate: 200,
  setting: 256,
} as const;

/** What one more put may bring, besides its body. */
export const PUT_BYTES: number =
  BYTES_OF.job + BYTES_OF.extras + BYTES_OF.tube + BYTES_OF.group + BYTES_OF.key;

/** Where clients can make an engine grow. */
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
    tubes.byName.size * BYTES_OF.tube +
    tubes.keptGates.size * BYTES_OF.keptGate +
    jobs.groups * BYTES_OF.group +
    waiters.watches * BYTES_OF.watch +
    policies.keys.table.size * BYTES_OF.key +
    settings.size * BYTES_OF.setting
  );
}
