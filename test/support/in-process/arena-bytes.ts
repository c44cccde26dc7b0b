// Bytes of an arena that an engine's jobs and keys take.

import type { Engine } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";

/**
 * Returns the bytes that bodies, attributes and keys take in the arena, from their lengths alone.
 * `slots` are all jobs.
 */
export function arenaBytesOf(engine: Engine, slots: readonly number[]): number {
  const { jobs, policies } = engine;
  let bytes = 0;
  for (const slot of slots) {
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    bytes += cellBytesOf(page.bodyBytes[row]!);
    const { length } = policies.failures.of(slot);
    if (length > 0) bytes += cellBytesOf(2 + length);
    if (page.extras === undefined) continue;
    if ((page.extras.notes?.[row] ?? EMPTY_BODY) !== EMPTY_BODY) {
      const { note, cancelled } = policies.notes.of(slot);
      bytes += cellBytesOf(3 + note.length + (cancelled?.length ?? 0));
    }
    bytes += cellBytesOf(page.extras.attributeBytes[row]!) + cellBytesOf(page.extras.originBytes[row]!);
  }
  for (const { bodyBytes } of engine.schedules.table.values()) bytes += cellBytesOf(bodyBytes);
  for (const name of policies.finished.names)
    for (const [, { worker, unique, group, note, reason }] of policies.finished.ofTube(name, Infinity))
      bytes += cellBytesOf(34 + [worker, unique, group, note, reason].join("").length);
  for (const row of policies.keys.table.rows()) bytes += cellBytesOf(policies.keys.table.cellOf(row).length);
  return bytes;
}

/** Steps of 16 to 256 bytes, then four in each doubling to 64 KiB, then whole MiB. */
function cellBytesOf(bytes: number): number {
  if (bytes > 65536) return Math.ceil(bytes / 2 ** 20) * 2 ** 20;
  if (bytes <= 256) return Math.ceil(bytes / 16) * 16;
  let doubling = 256;
  while (doubling * 2 < bytes) doubling *= 2;
  return Math.ceil(bytes / (doubling / 4)) * (doubling / 4);
}
