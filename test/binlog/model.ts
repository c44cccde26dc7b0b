// Model of the jobs after any prefix of the operations, and of the prefixes that a recovered log
// may show.

import { type OpenedBinlog, openBinlog } from "../../src/binlog/open-binlog.ts";
import type { OpenOptions } from "../../src/binlog/recovery/open-options.ts";
import { type RecordFields, RecordState } from "../../src/message/record.ts";
import { jobsOfBatch } from "../support/recovered-jobs.ts";

/** One operation: what became of a job; undefined: it was deleted, or its put was not complete. */
export interface Operation {
  shard: number;
  n: number;
  id: number;
  /** The job as text, or undefined. */
  job: string | undefined;
  atMs: number;
}

/** All of a job as a text that compares; `attributes` in hex, with their padding. */
export function jobText(fields: RecordFields, tube: string, body: string, attributes = ""): string {
  const f = fields;
  const counts = `${f.counters},${f.burySequence}`;
  return `${f.id} ${f.state} ${f.pri} ${f.delaySeconds} ${f.ttrSeconds} ${f.createdAtMs} ${f.deadlineAtMs} ${counts} ${tube} ${body} ${attributes}`;
}

/**
 * The patterns that a simulation sets something for: their settings are kept beside the jobs, as
 * ids below 0.
 */
export const PATTERNS: readonly string[] = ["default", "mail", "m*", "*"];

export function settingId(pattern: string): number {
  return -1 - PATTERNS.indexOf(pattern);
}

/** All jobs that an opened binlog brings back, and all settings. Throws if one comes twice. */
export function recoveredTexts(opened: OpenedBinlog, shards: number): Map<number, string> {
  const jobs = new Map<number, string>();
  let remembered = 0;
  for (const batch of opened.jobs((bytes, start) => (bytes[start] ?? 0) % shards)) {
    for (const { shard, fields, tube, attributes, body } of jobsOfBatch(batch)) {
      if (tube.charCodeAt(0) % shards !== shard) throw new Error("job for another shard");
      if (jobs.has(fields.id)) throw new Error(`job ${fields.id} came twice`);
      if (fields.state === RecordState.remembered) remembered++;
      jobs.set(fields.id, jobText(fields, tube, body.toString("latin1"), attributes));
    }
  }
  if (jobs.size - remembered !== opened.jobCount)
    throw new Error(`jobCount says ${opened.jobCount}, there are ${jobs.size - remembered}`);
  for (const [pattern, text] of opened.settings) jobs.set(settingId(pattern), text);
  return jobs;
}

/** All jobs of a log, which is closed again. */
export async function jobsOfLog(options: OpenOptions): Promise<Map<number, string>> {
  const opened = await openBinlog(options);
  const jobs = recoveredTexts(opened, options.shards);
  opened.storage.close(0);
  return jobs;
}

export class Model {
  readonly jobs = new Map<number, string>();
  /** Operations in the order they were appended, since the last known state. */
  operations: Operation[] = [];

  /**
   * Checks that `recovered` is the state after some prefix of the operations that contains all that
   * were acknowledged, and goes on from there. Returns what is wrong, or "".
   */
  settle(recovered: Map<number, string>, acknowledged: (operation: Operation) => boolean): string {
    let must = 0;
    for (const [i, operation] of this.operations.entries()) if (acknowledged(operation)) must = i + 1;
    for (const operation of this.operations.slice(0, must)) this.#apply(operation);
    const wrong = new Set<number>();
    for (const id of new Set([...this.jobs.keys(), ...recovered.keys()])) {
      if (this.jobs.get(id) !== recovered.get(id)) wrong.add(id);
    }
    const first = describe(wrong, this.jobs, recovered);
    let next = must;
    while (wrong.size > 0 && next < this.operations.length) {
      const operation = this.operations[next++]!;
      this.#apply(operation);
      if (this.jobs.get(operation.id) === recovered.get(operation.id)) wrong.delete(operation.id);
      else wrong.add(operation.id);
    }
    this.operations = [];
    return wrong.size === 0 ? "" : first;
  }

  #apply(operation: Operation): void {
    if (operation.job === undefined) this.jobs.delete(operation.id);
    else this.jobs.set(operation.id, operation.job);
  }
}

function describe(wrong: Set<number>, expected: Map<number, string>, found: Map<number, string>): string {
  const lines = [...wrong].slice(0, 3).map((id) => {
    return `job ${id}: expected ${expected.get(id) ?? "none"}, found ${found.get(id) ?? "none"}`;
  });
  return `${wrong.size} jobs differ; ${lines.join("; ")}`;
}
